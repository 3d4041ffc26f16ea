//! Types of problems with status, last word of the type, and title.

macro_rules! kinds {
    ($($name:ident = $status:literal, $slug:literal, $title:literal;)*) => {
        /// Type of a problem. It is stable, and clients may match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(feature = "service"), non_exhaustive)]
        pub enum ProblemKind { $(#[doc = $title] $name,)* }

        impl ProblemKind {
            /// All types.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// HTTP status of the type.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// Type with this last word.
            pub fn from_slug(slug: &str) -> Option<Self> {
                match slug { $($slug => Some(Self::$name),)* _ => None }
            }

            /// Path of the page that explains the type. It is the problem's `type`.
            pub fn path(self) -> &'static str {
                match self { $(Self::$name => concat!("/problems/", $slug),)* }
            }

            /// Last word of the type.
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)* }
            }

            /// Title of the type.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

kinds! {
    BadRequest = 400, "bad-request", "The request is not well formed";
    Unauthenticated = 401, "unauthenticated", "A valid token is needed";
    Forbidden = 403, "forbidden", "The token does not allow this";
    CrossSite = 403, "cross-site", "The request comes from a page of another site";
    NotFound = 404, "not-found", "The object does not exist";
    MethodNotAllowed = 405, "method-not-allowed", "This path does not support the method";
    BodyTimeout = 408, "body-timeout", "The body did not arrive in time";
    PreconditionFailed = 412, "precondition-failed", "The object was changed since it was read";
    WeakEntityTag = 412, "weak-entity-tag", "A change needs a strong entity tag";
    TooLarge = 413, "too-large", "The body is too large";
    UriTooLong = 414, "uri-too-long", "The path and the query are too long";
    HeadTooLarge = 431, "head-too-large", "The headers are too large";
    MediaType = 415, "media-type", "The body must be JSON";
    Invalid = 422, "invalid", "The request asks for something impossible";
    AckUnavailable = 422, "ack-unavailable", "This engine cannot reach that acknowledgement level";
    KeyReused = 422, "key-reused", "The idempotency key was used for a different request";
    KeyPending = 409, "key-pending", "The result of an earlier request with this key is unknown";
    Superseded = 409, "superseded", "Not carried out: a later change may have set the same values";
    UserMismatch = 409, "user-mismatch", "The order is another user's";
    SellerMismatch = 409, "seller-mismatch", "The order is of another seller than the account's";
    PaymentUsed = 409, "payment-used", "The payment is another order's";
    RefundExceedsDue = 409, "refund-exceeds-due", "Less is due for the order";
    CancellationExceedsOrder = 409, "cancellation-exceeds-order", "Fewer units of the order can be cancelled";
    ReturnExceedsOrder = 409, "return-exceeds-order", "Fewer units of the order can be returned";
    HoldExtended = 409, "hold-extended", "The hold of the order was already extended";
    HoldOver = 409, "hold-over", "The hold of the order has ended";
    TooManyExtensions = 409, "too-many-extensions", "As many holds of the sale as may be are extended";
    TooManyReturns = 409, "too-many-returns", "As many parts of the order as may be were cancelled or returned";
    ReversalExceedsDeposit = 409, "reversal-exceeds-deposit", "Less of the deposit is left";
    ReferenceUsed = 409, "reference-used", "The reference is another payment's";
    InsufficientFunds = 409, "insufficient-funds", "The account holds too little";
    IdUsed = 409, "id-used", "Another campaign has this id";
    ReferenceTaken = 409, "reference-taken", "The unique reference names another campaign or order";
    PhaseConflict = 409, "phase-conflict", "The campaign's phase does not allow this";
    OrderConflict = 409, "order-conflict", "The order's state does not allow this";
    UnknownCampaign = 404, "unknown-campaign", "There is no such campaign";
    Paused = 503, "paused", "The campaign is paused";
    NotStarted = 409, "not-started", "The campaign has not started";
    Ended = 410, "ended", "The campaign has ended";
    LimitReached = 409, "limit-reached", "That is more than the campaign allows a user";
    SoldOut = 409, "sold-out", "Sold out";
    Throttled = 429, "throttled", "Too many requests of this user";
    AddressThrottled = 429, "address-throttled", "Too many requests from this address";
    CreationsThrottled = 429, "creations-throttled", "Too many campaigns, or too many shares";
    TooManyConnections = 429, "too-many-connections", "Too many connections from this address";
    TooManyStreams = 429, "too-many-streams", "Too many live streams of this client";
    QueueFull = 503, "queue-full", "The queue is full";
    AlreadyWaiting = 409, "already-waiting", "The user waits in the queue with another order";
    NoQueueEntry = 404, "no-queue-entry", "The caller is not in the queue";
    Overloaded = 503, "overloaded", "Too many requests are waiting";
    Unavailable = 503, "unavailable", "Nothing is granted at the moment";
    Uncertain = 503, "uncertain", "The result is unknown; repeat the request to find out";
    LedgerIncomplete = 503, "ledger-incomplete", "The ledger does not have this campaign at the moment";
    OrderChanged = 503, "order-changed", "Units of the order were cancelled at the same time; try again";
    Stopping = 503, "stopping", "The service is going down";
    NotAdmitted = 503, "not-admitted", "Pending claims cover the remaining stock; try again";
    StockGranted = 409, "stock-granted", "Users have more units than that";
    Internal = 500, "internal", "Something is wrong on the server";
    TicketMissing = 403, "ticket-missing", "A claim of this campaign needs a grab ticket";
    TicketInvalid = 403, "ticket-invalid", "The grab ticket was not made here";
    TicketExpired = 403, "ticket-expired", "The grab ticket has expired";
    TicketOfAnotherUser = 403, "ticket-of-another-user", "The grab ticket is another user's";
    TicketOfAnotherCampaign = 403, "ticket-of-another-campaign", "The grab ticket is for another campaign";
    TicketNotNeeded = 409, "ticket-not-needed", "Claims of this campaign need no grab ticket";
    ChallengeFailed = 403, "challenge-failed", "The challenge is not solved";
    OrderCheckRefused = 403, "order-check-refused", "The shop does not allow this order";
    OrderCheckUnavailable = 503, "order-check-unavailable", "The shop cannot check orders at present";
    NotInAudience = 403, "not-in-audience", "The campaign is for other users";
    InvitationInvalid = 403, "invitation-invalid", "The campaign needs a valid invitation";
    PassphraseWrong = 403, "passphrase-wrong", "The campaign needs its passphrase";
    PassphrasesThrottled = 429, "passphrases-throttled", "Too many wrong passphrases of this campaign";
    DrawsHidden = 403, "draws-hidden", "The draws of this packet are hidden";
    NotByInvitation = 409, "not-by-invitation", "The campaign has no invitations";
    NotForEngine = 409, "not-for-engine", "This engine does not support the operation";
    DevelopmentOnly = 409, "development-only", "Only a service for development does this";
    NotQuarantined = 404, "not-quarantined", "This entry is not in quarantine";
    StillRefused = 409, "still-refused", "The ledger still refuses this entry";
    ReturnPeriodOver = 403, "return-period-over", "The return period of this order is over";
}
