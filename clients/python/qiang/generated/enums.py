"""Enums. Those of answers are open: a value that this client does not know is `is_known` False.

Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.
"""

from __future__ import annotations

from ..convert import OpenEnum

__all__ = [
    "AckLevel",
    "ActionKind",
    "AudienceKind",
    "AuditStatus",
    "BatchMode",
    "Cover",
    "CreationResult",
    "Draws",
    "ObjectKind",
    "OrderState",
    "PaymentOutcome",
    "PaymentPolicy",
    "PaymentRecordOutcome",
    "Phase",
    "PlaceState",
    "PostingKind",
    "ProblemType",
    "ReadinessStatus",
    "RefusedOutcome",
    "RepairResult",
    "Requirement",
    "SplitRuleName",
    "UserAccount",
    "WebhookDeliveryState",
    "WebhookEventType",
    "WebhookStatus",
]


class AckLevel(OpenEnum):
    """Acknowledgement level: the failure that a grant survives once it is acknowledged."""

    MEMORY = "memory"
    REPLICA = "replica"
    FSYNC = "fsync"
    LEDGER = "ledger"


class ActionKind(OpenEnum):
    """Kind of action."""

    DEPOSIT = "deposit"
    CREATE = "create"
    CHANGE = "change"
    PAUSE = "pause"
    RESUME = "resume"
    START = "start"
    CLOSE = "close"
    ARCHIVE = "archive"
    PAY = "pay"
    REFUND = "refund"
    WITHDRAW = "withdraw"
    REVERSE = "reverse"
    TRANSFER = "transfer"
    CANCEL = "cancel"
    EXTEND_HOLD = "extend_hold"
    RETURN = "return"
    DELETE = "delete"
    REDRIVE = "redrive"
    REPAIR = "repair"
    RECONCILE = "reconcile"
    RELEASE = "release"
    AUDIT = "audit"
    DISCARD = "discard"
    RUN = "run"


class AudienceKind(OpenEnum):
    """Condition for users to claim."""

    USERS = "users"
    INVITATION = "invitation"
    PASSPHRASE = "passphrase"


class AuditStatus(OpenEnum):
    """Status of an audit."""

    RUNNING = "running"
    OK = "ok"
    BROKEN = "broken"
    FAILED = "failed"


class BatchMode(OpenEnum):
    """Meaning of a refusal for the other campaigns of a batch."""

    EACH = "each"
    ALL = "all"


class Cover(OpenEnum):
    """Look of a red packet's envelope on the pages."""

    CLASSIC = "classic"
    BLOSSOM = "blossom"
    LANTERN = "lantern"
    CLOUD = "cloud"
    BIRTHDAY = "birthday"
    WEDDING = "wedding"


class CreationResult(OpenEnum):
    """Result of one creation of a batch."""

    CREATED = "created"
    REPLAYED = "replayed"
    REFUSED = "refused"


class Draws(OpenEnum):
    """Users who may see the claimed shares of a red packet."""

    EVERYBODY = "everybody"
    GRABBERS = "grabbers"
    SENDER = "sender"


class ObjectKind(OpenEnum):
    """Kind of an object."""

    SALE = "sale"
    RED_PACKET = "red_packet"
    ORDER = "order"
    CLAIM = "claim"
    PAYMENT = "payment"
    DEPOSIT = "deposit"
    REVERSAL = "reversal"
    REFUND_REVERSAL = "refund_reversal"
    TRANSFER = "transfer"
    WITHDRAWAL = "withdrawal"
    REFUND = "refund"


class OrderState(OpenEnum):
    """State of an order."""

    HELD = "held"
    PAID = "paid"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    RETURNED = "returned"


class PaymentOutcome(OpenEnum):
    """Outcome of a payment."""

    PAID = "paid"
    REINSTATED = "reinstated"
    REFUND_DUE = "refund_due"


class PaymentPolicy(OpenEnum):
    """Payments that pay an order of a sale although they differ from its price."""

    OWED = "owed"
    ACCEPT_OVER = "accept_over"
    ACCEPT_WITH_TOLERANCE = "accept_with_tolerance"


class PaymentRecordOutcome(OpenEnum):
    """Outcome of a reported payment."""

    PAID = "paid"
    REINSTATED = "reinstated"
    REFUND_DUE = "refund_due"
    REFUSED = "refused"


class Phase(OpenEnum):
    """Phase of a campaign."""

    DRAFT = "draft"
    SCHEDULED = "scheduled"
    LIVE = "live"
    PAUSED = "paused"
    ENDED = "ended"
    CLOSED = "closed"


class PlaceState(OpenEnum):
    """State of a queue entry."""

    WAITING = "waiting"
    GRANTED = "granted"
    SOLD_OUT = "sold_out"
    LIMIT_REACHED = "limit_reached"
    ENDED = "ended"
    UNKNOWN_CAMPAIGN = "unknown_campaign"
    KEY_REUSED = "key_reused"
    NONE = "none"


class PostingKind(OpenEnum):
    """Kind of posting."""

    DEPOSIT = "deposit"
    FUND = "fund"
    GRANT = "grant"
    REFUND = "refund"
    RESIDUE = "residue"
    PAYMENT = "payment"
    REFUND_DUE = "refund_due"
    RETURN = "return"
    REFUND_PAID = "refund_paid"
    WITHDRAWAL = "withdrawal"
    REVERSAL = "reversal"
    REFUND_REVERSAL = "refund_reversal"
    TRANSFER = "transfer"


class ProblemType(OpenEnum):
    """Type of the problem. It is stable, so clients may match on it."""

    BAD_REQUEST = "/problems/bad-request"
    UNAUTHENTICATED = "/problems/unauthenticated"
    FORBIDDEN = "/problems/forbidden"
    CROSS_SITE = "/problems/cross-site"
    NOT_FOUND = "/problems/not-found"
    METHOD_NOT_ALLOWED = "/problems/method-not-allowed"
    BODY_TIMEOUT = "/problems/body-timeout"
    PRECONDITION_FAILED = "/problems/precondition-failed"
    WEAK_ENTITY_TAG = "/problems/weak-entity-tag"
    TOO_LARGE = "/problems/too-large"
    URI_TOO_LONG = "/problems/uri-too-long"
    HEAD_TOO_LARGE = "/problems/head-too-large"
    MEDIA_TYPE = "/problems/media-type"
    INVALID = "/problems/invalid"
    ACK_UNAVAILABLE = "/problems/ack-unavailable"
    KEY_REUSED = "/problems/key-reused"
    KEY_PENDING = "/problems/key-pending"
    SUPERSEDED = "/problems/superseded"
    USER_MISMATCH = "/problems/user-mismatch"
    SELLER_MISMATCH = "/problems/seller-mismatch"
    PAYMENT_USED = "/problems/payment-used"
    REFUND_EXCEEDS_DUE = "/problems/refund-exceeds-due"
    CANCELLATION_EXCEEDS_ORDER = "/problems/cancellation-exceeds-order"
    RETURN_EXCEEDS_ORDER = "/problems/return-exceeds-order"
    HOLD_EXTENDED = "/problems/hold-extended"
    HOLD_OVER = "/problems/hold-over"
    TOO_MANY_EXTENSIONS = "/problems/too-many-extensions"
    TOO_MANY_RETURNS = "/problems/too-many-returns"
    REVERSAL_EXCEEDS_DEPOSIT = "/problems/reversal-exceeds-deposit"
    REFERENCE_USED = "/problems/reference-used"
    INSUFFICIENT_FUNDS = "/problems/insufficient-funds"
    ID_USED = "/problems/id-used"
    REFERENCE_TAKEN = "/problems/reference-taken"
    PHASE_CONFLICT = "/problems/phase-conflict"
    ORDER_CONFLICT = "/problems/order-conflict"
    UNKNOWN_CAMPAIGN = "/problems/unknown-campaign"
    PAUSED = "/problems/paused"
    NOT_STARTED = "/problems/not-started"
    ENDED = "/problems/ended"
    LIMIT_REACHED = "/problems/limit-reached"
    SOLD_OUT = "/problems/sold-out"
    THROTTLED = "/problems/throttled"
    ADDRESS_THROTTLED = "/problems/address-throttled"
    CREATIONS_THROTTLED = "/problems/creations-throttled"
    TOO_MANY_CONNECTIONS = "/problems/too-many-connections"
    TOO_MANY_STREAMS = "/problems/too-many-streams"
    QUEUE_FULL = "/problems/queue-full"
    ALREADY_WAITING = "/problems/already-waiting"
    NO_QUEUE_ENTRY = "/problems/no-queue-entry"
    OVERLOADED = "/problems/overloaded"
    UNAVAILABLE = "/problems/unavailable"
    UNCERTAIN = "/problems/uncertain"
    LEDGER_INCOMPLETE = "/problems/ledger-incomplete"
    ORDER_CHANGED = "/problems/order-changed"
    STOPPING = "/problems/stopping"
    NOT_ADMITTED = "/problems/not-admitted"
    STOCK_GRANTED = "/problems/stock-granted"
    INTERNAL = "/problems/internal"
    TICKET_MISSING = "/problems/ticket-missing"
    TICKET_INVALID = "/problems/ticket-invalid"
    TICKET_EXPIRED = "/problems/ticket-expired"
    TICKET_OF_ANOTHER_USER = "/problems/ticket-of-another-user"
    TICKET_OF_ANOTHER_CAMPAIGN = "/problems/ticket-of-another-campaign"
    TICKET_NOT_NEEDED = "/problems/ticket-not-needed"
    CHALLENGE_FAILED = "/problems/challenge-failed"
    ORDER_CHECK_REFUSED = "/problems/order-check-refused"
    ORDER_CHECK_UNAVAILABLE = "/problems/order-check-unavailable"
    NOT_IN_AUDIENCE = "/problems/not-in-audience"
    INVITATION_INVALID = "/problems/invitation-invalid"
    PASSPHRASE_WRONG = "/problems/passphrase-wrong"
    PASSPHRASES_THROTTLED = "/problems/passphrases-throttled"
    DRAWS_HIDDEN = "/problems/draws-hidden"
    NOT_BY_INVITATION = "/problems/not-by-invitation"
    NOT_FOR_ENGINE = "/problems/not-for-engine"
    DEVELOPMENT_ONLY = "/problems/development-only"
    NOT_QUARANTINED = "/problems/not-quarantined"
    STILL_REFUSED = "/problems/still-refused"
    RETURN_PERIOD_OVER = "/problems/return-period-over"


class ReadinessStatus(OpenEnum):
    """Readiness of a partition."""

    READY = "ready"
    DEGRADED = "degraded"
    NOT_READY = "not_ready"


class RefusedOutcome(OpenEnum):
    """Outcome of a claim that was not granted."""

    UNKNOWN_CAMPAIGN = "unknown_campaign"
    PAUSED = "paused"
    NOT_STARTED = "not_started"
    ENDED = "ended"
    LIMIT_REACHED = "limit_reached"
    SOLD_OUT = "sold_out"


class RepairResult(OpenEnum):
    """Result of a repair."""

    WHOLE = "whole"
    WAITING = "waiting"
    REPAIRED = "repaired"


class Requirement(OpenEnum):
    """Requirement of a claim beside a token."""

    TICKET = "ticket"
    ORDER_CHECK = "order_check"


class SplitRuleName(OpenEnum):
    """Rule that splits a total into shares."""

    NORMAL = "normal"
    DOUBLE_AVERAGE = "double_average"
    EQUAL = "equal"
    LAZY = "lazy"


class UserAccount(OpenEnum):
    """One of a user's two accounts in a currency."""

    AVAILABLE = "available"
    REFUNDS_DUE = "refunds_due"


class WebhookDeliveryState(OpenEnum):
    """State of a webhook event after an attempt to deliver it."""

    DELIVERED = "delivered"
    FAILED = "failed"
    GIVEN_UP = "given_up"


class WebhookEventType(OpenEnum):
    """Type of a webhook event."""

    SHARE_GRANTED = "share.granted"
    ORDER_HELD = "order.held"
    ORDER_PAID = "order.paid"
    ORDER_CANCELLED = "order.cancelled"
    ORDER_EXPIRED = "order.expired"
    ORDER_HOLD_EXTENDED = "order.hold_extended"
    ORDER_RETURNED = "order.returned"
    ORDER_REFUND_DUE = "order.refund_due"
    ORDER_REFUNDED = "order.refunded"
    CAMPAIGN_OPENED = "campaign.opened"
    CAMPAIGN_SOLD_OUT = "campaign.sold_out"
    CAMPAIGN_CHANGED = "campaign.changed"
    CAMPAIGN_CLOSED = "campaign.closed"


class WebhookStatus(OpenEnum):
    """Delivery status of a webhook."""

    OK = "ok"
    FAILING = "failing"
    DISABLED = "disabled"
