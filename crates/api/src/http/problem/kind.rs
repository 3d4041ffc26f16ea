//! Problem types with status, last word of the type, and title.

use axum::http::StatusCode;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $slug:literal, $title:literal;)*) => {
        /// Type of a problem. It is stable, and clients may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ProblemKind { $($(#[$doc])* $name,)* }

        impl ProblemKind {
            /// All types.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            /// Path of the page that explains the type. It is the problem's `type`.
            pub(crate) fn path(self) -> &'static str {
                match self { $(Self::$name => concat!("/problems/", $slug),)* }
            }

            /// Last word of the type.
            pub(crate) fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

kinds! {
    BadRequest = BAD_REQUEST, "bad-request", "The request is not well formed";
    Unauthenticated = UNAUTHORIZED, "unauthenticated", "A valid token is needed";
    Forbidden = FORBIDDEN, "forbidden", "The token does not allow this";
    CrossSite = FORBIDDEN, "cross-site", "The request comes from a page of another site";
    NotFound = NOT_FOUND, "not-found", "The object does not exist";
    MethodNotAllowed = METHOD_NOT_ALLOWED, "method-not-allowed", "This path does not support the method";
    BodyTimeout = REQUEST_TIMEOUT, "body-timeout", "The body did not arrive in time";
    TooLarge = PAYLOAD_TOO_LARGE, "too-large", "The body is too large";
    UriTooLong = URI_TOO_LONG, "uri-too-long", "The path and the query are too long";
    HeadTooLarge = REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", "The headers are too large";
    MediaType = UNSUPPORTED_MEDIA_TYPE, "media-type", "The body must be JSON";
    Invalid = UNPROCESSABLE_ENTITY, "invalid", "The request asks for something impossible";
    AckUnavailable = UNPROCESSABLE_ENTITY, "ack-unavailable", "This engine cannot reach that acknowledgement level";
    KeyReused = UNPROCESSABLE_ENTITY, "key-reused", "The idempotency key was used for a different request";
    KeyPending = CONFLICT, "key-pending", "The result of an earlier request with this key is unknown";
    UserMismatch = CONFLICT, "user-mismatch", "The order is another user's";
    PaymentUsed = CONFLICT, "payment-used", "The payment is another order's";
    RefundExceedsDue = CONFLICT, "refund-exceeds-due", "Less is due for the order";
    PartialCancellation = CONFLICT, "partial-cancellation", "A held order can only be cancelled as a whole";
    ReturnExceedsOrder = CONFLICT, "return-exceeds-order", "Fewer units of the order can be returned";
    TooManyReturns = CONFLICT, "too-many-returns", "The order was returned in as many parts as may be";
    ReversalExceedsDeposit = CONFLICT, "reversal-exceeds-deposit", "Less of the deposit is left";
    ReferenceUsed = CONFLICT, "reference-used", "The reference is another payment's";
    InsufficientFunds = CONFLICT, "insufficient-funds", "The account holds too little";
    IdUsed = CONFLICT, "id-used", "Another campaign has this id";
    PhaseConflict = CONFLICT, "phase-conflict", "The campaign's phase does not allow this";
    OrderConflict = CONFLICT, "order-conflict", "The order's state does not allow this";
    UnknownCampaign = NOT_FOUND, "unknown-campaign", "There is no such campaign";
    Paused = SERVICE_UNAVAILABLE, "paused", "The campaign is paused";
    NotStarted = CONFLICT, "not-started", "The campaign has not started";
    Ended = GONE, "ended", "The campaign has ended";
    LimitReached = CONFLICT, "limit-reached", "That is more than the campaign allows a user";
    SoldOut = CONFLICT, "sold-out", "Sold out";
    Throttled = TOO_MANY_REQUESTS, "throttled", "Too many requests of this user";
    AddressThrottled = TOO_MANY_REQUESTS, "address-throttled", "Too many requests from this address";
    CreationsThrottled = TOO_MANY_REQUESTS, "creations-throttled", "Too many campaigns, or too many shares";
    TooManyConnections = TOO_MANY_REQUESTS, "too-many-connections", "Too many connections from this address";
    TooManyStreams = TOO_MANY_REQUESTS, "too-many-streams", "Too many live streams of this client";
    QueueFull = SERVICE_UNAVAILABLE, "queue-full", "The queue is full";
    AlreadyWaiting = CONFLICT, "already-waiting", "The user waits in the queue with another order";
    NoQueueEntry = NOT_FOUND, "no-queue-entry", "The caller is not in the queue";
    Overloaded = SERVICE_UNAVAILABLE, "overloaded", "Too many requests are waiting";
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "Nothing is granted at the moment";
    Uncertain = SERVICE_UNAVAILABLE, "uncertain", "The result is unknown; repeat the request to find out";
    LedgerIncomplete = SERVICE_UNAVAILABLE, "ledger-incomplete", "The ledger does not have this campaign at the moment";
    Stopping = SERVICE_UNAVAILABLE, "stopping", "The service is going down";
    NotAdmitted = SERVICE_UNAVAILABLE, "not-admitted", "Pending claims cover the remaining stock; try again";
    StockGranted = CONFLICT, "stock-granted", "Users have more units than that";
    Internal = INTERNAL_SERVER_ERROR, "internal", "Something is wrong on the server";
    TicketMissing = FORBIDDEN, "ticket-missing", "A claim of this campaign needs a grab ticket";
    TicketInvalid = FORBIDDEN, "ticket-invalid", "The grab ticket was not made here";
    TicketExpired = FORBIDDEN, "ticket-expired", "The grab ticket has expired";
    TicketOfAnotherUser = FORBIDDEN, "ticket-of-another-user", "The grab ticket is another user's";
    TicketOfAnotherCampaign = FORBIDDEN, "ticket-of-another-campaign", "The grab ticket is for another campaign";
    TicketNotNeeded = CONFLICT, "ticket-not-needed", "Claims of this campaign need no grab ticket";
    ChallengeFailed = FORBIDDEN, "challenge-failed", "The challenge is not solved";
    OrderCheckRefused = FORBIDDEN, "order-check-refused", "The shop does not allow this order";
    OrderCheckUnavailable = SERVICE_UNAVAILABLE, "order-check-unavailable", "The shop cannot check orders at present";
    NotInAudience = FORBIDDEN, "not-in-audience", "The campaign is for other users";
    InvitationInvalid = FORBIDDEN, "invitation-invalid", "The campaign needs a valid invitation";
    PassphraseWrong = FORBIDDEN, "passphrase-wrong", "The campaign needs its passphrase";
    PassphrasesThrottled = TOO_MANY_REQUESTS, "passphrases-throttled", "Too many wrong passphrases of this campaign";
    DrawsHidden = FORBIDDEN, "draws-hidden", "The draws of this packet are hidden";
    NotByInvitation = CONFLICT, "not-by-invitation", "The campaign has no invitations";
    NotForEngine = CONFLICT, "not-for-engine", "This engine does not support the operation";
    NotQuarantined = NOT_FOUND, "not-quarantined", "This entry is not in quarantine";
    StillRefused = CONFLICT, "still-refused", "The ledger still refuses this entry";
    ReturnPeriodOver = FORBIDDEN, "return-period-over", "The return period of this order is over";
}
