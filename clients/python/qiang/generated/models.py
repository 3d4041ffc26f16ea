"""Bodies of requests and answers.

Generated from docs/openapi.json by `cargo xtask clients --write`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..convert import UNSET, Unset
from .enums import (
    AckLevel,
    ActionKind,
    AudienceKind,
    AuditStatus,
    BatchMode,
    Cover,
    CreationResult,
    Draws,
    ObjectKind,
    OrderState,
    PaymentOutcome,
    PaymentPolicy,
    PaymentRecordOutcome,
    Phase,
    PlaceState,
    PostingKind,
    ProblemType,
    ReadinessStatus,
    RefusedOutcome,
    RepairResult,
    Requirement,
    SplitRuleName,
    UserAccount,
    WebhookDeliveryState,
    WebhookEventType,
    WebhookStatus,
)

__all__ = [
    "Account",
    "Action",
    "AlipayNotification",
    "Audience",
    "Audit",
    "AuditCheck",
    "AuditReport",
    "Balance",
    "CampaignAudience",
    "CampaignEvent",
    "CancellationRefusals",
    "Challenge",
    "ChallengeAnswer",
    "ChallengeParameters",
    "ChallengeSolution",
    "Claim",
    "ClaimLatency",
    "ClockReading",
    "ClockStep",
    "Credentials",
    "Deposit",
    "FieldError",
    "GrabTicket",
    "GrantPoint",
    "GrantTimeline",
    "Invitation",
    "KeyedRedPacket",
    "KeyedSale",
    "ListedRedPacket",
    "Metadata",
    "MetadataChange",
    "Money",
    "NewCancellation",
    "NewDeposit",
    "NewHoldExtension",
    "NewInvitation",
    "NewOrder",
    "NewOrderCancellations",
    "NewPayment",
    "NewRedPacket",
    "NewRedPackets",
    "NewRefund",
    "NewReturn",
    "NewReversal",
    "NewSale",
    "NewSales",
    "NewSplitRule",
    "NewTransfer",
    "NewWebhook",
    "NewWithdrawal",
    "NodeSighting",
    "NotificationReceipt",
    "Order",
    "OrderCancellations",
    "OwedMoney",
    "OwedOrder",
    "Partition",
    "PartitionDetail",
    "PartitionReadiness",
    "PartitionReconciliation",
    "Partitions",
    "Payment",
    "PaymentRecord",
    "PaymentReport",
    "Place",
    "Posting",
    "Problem",
    "QuarantinedEntry",
    "Readiness",
    "Reconciled",
    "RecordedEvent",
    "RedPacket",
    "RedPacketResult",
    "Redriven",
    "Refund",
    "RefundReversal",
    "Refunds",
    "Released",
    "Repair",
    "RepairRecord",
    "Resumed",
    "Reversal",
    "Sale",
    "SaleChange",
    "SaleResult",
    "ServerSeed",
    "Session",
    "SetAside",
    "SplitRule",
    "State",
    "Stats",
    "StatsList",
    "StripeWebhookEvent",
    "Transfer",
    "Webhook",
    "WebhookChange",
    "WebhookDelivery",
    "WebhookEvent",
    "WebhookEventData",
    "WebhookRedelivery",
    "WebhookRedrive",
    "WebhookRotation",
    "WebhookTest",
    "WechatPayNotification",
    "Withdrawal",
    "Withheld",
]


@dataclass(frozen=True, kw_only=True)
class Account:
    """Account of a user."""

    user: str
    """The user."""
    balances: list[Balance]
    """Balances, one per currency."""
    settled: bool
    """Whether the balances include all grants from before the request. If not, read them again later."""


@dataclass(frozen=True, kw_only=True)
class Action:
    """Change that a user or operator requested. It is recorded before the engine decides, so it may have been refused.
    """

    id: str
    """Its id."""
    at: datetime
    """Time of the request."""
    actor: str
    """Subject of the request's token, or the name given on the command line."""
    action: ActionKind
    """Kind of action."""
    subject: str
    """Id of the changed object."""
    request_id: str
    """Id of the request; empty for actions from the command line."""
    detail: dict[str, Any]
    """Content of the request."""
    before: dict[str, Any] | None = None
    """Earlier values of the changed fields, as read just before the change. Texts such as the title are left out."""


@dataclass(frozen=True, kw_only=True)
class AlipayNotification:
    """Notification of Alipay. Further parameters are signed, and ignored."""

    app_id: str
    """Id of the application."""
    trade_status: str
    """State of the trade."""
    trade_no: str
    """Alipay's number of the trade."""
    total_amount: str
    """Amount of the order, in yuan."""
    passback_params: str
    """Id of the order."""
    sign: str
    """The signature."""


@dataclass(frozen=True, kw_only=True)
class Audience:
    """Audience: exactly one of these."""

    invitation: bool | None = None
    """Users with an invitation of `POST /v1/campaigns/{id}/invitations`."""
    passphrase: str | None = None
    """Users who send this passphrase: 4 to 128 characters, at least 6 if all of them are digits. It is stored as a
    hash. Width of characters, blanks at the ends and composed accents make no difference.
    """
    users: list[str] | None = None
    """These users only; at most 5000."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Audit of the node that was asked, with its status."""

    id: str
    """Its id."""
    status: AuditStatus
    """Its status."""
    actor: str
    """The user who requested it."""
    started_at: datetime
    """Time of its start."""
    ended_at: datetime | None = None
    error: str | None = None
    """Error of a failed audit."""
    report: AuditReport | None = None
    """Its report; absent in lists."""


@dataclass(frozen=True, kw_only=True)
class AuditCheck:
    """Result of one check."""

    name: str
    """Name of the check."""
    examined: int
    """Number of rows examined."""
    offending: list[str]
    """The first breaches, one line each."""
    offending_total: int
    """Total number of breaches."""
    not_applicable: str | None = None
    """Reason why the check does not apply."""
    ok: bool | None = None
    """Whether the check found no breach; absent if it does not apply here."""
    remedy: str | None = None
    """Remedy for operators; absent unless there are breaches."""


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """Findings of an audit."""

    subject: str
    """The audited data."""
    refused: int
    """Entries that the ledger refused."""
    waiting: int
    """Entries that wait for refused ones."""
    checks: list[AuditCheck]
    """All checks, in order of execution."""
    in_flight: int | None = None
    """Unsettled entries in the engine's log; absent if no engine was audited."""


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Balance of a user in one currency."""

    available: Money
    """Money that the user can spend."""
    refunds_due: Money
    """Total of refunds due."""


@dataclass(frozen=True, kw_only=True)
class CampaignAudience:
    """Users who may claim of a campaign."""

    audience: AudienceKind | None = None
    """Condition that users must meet; absent if all users may claim."""
    users: list[str] | None = None
    """The named users, for an audience of named users."""


@dataclass(frozen=True, kw_only=True)
class CampaignEvent:
    """An event, in the fields of server-sent events."""

    event: str
    """state or draws."""
    data: str
    """JSON. For `state` a State. For `draws` an object with `claims`, shares ordered by number, and `gap`, which is
    true if shares are missing between these and the last event. The list of claims has them.
    """
    id: str | None = None
    """With `draws`: the number of the newest draw."""


@dataclass(frozen=True, kw_only=True)
class CancellationRefusals:
    """Orders that a cancellation did not change, by reason."""

    paid: int
    """They were paid at that moment."""
    expired: int
    """They had expired at that moment."""
    returned: int
    """They were paid and returned at that moment."""
    unknown: int
    """The engine does not have them, though the ledger does: `qiang reconcile` compares the two."""


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """A challenge."""

    kind: str
    """`proof-of-work`, unless the installation has its own challenge."""
    nonce: str
    """Nonce to send back with the solution."""
    expires_at: datetime
    """Time until which a solution is accepted."""
    difficulty: int | None = None
    """For `proof-of-work`: the number of zero bits."""


@dataclass(frozen=True, kw_only=True)
class ChallengeAnswer:
    """Challenge to solve before a ticket."""

    challenge: Challenge


@dataclass(frozen=True, kw_only=True)
class ChallengeParameters:
    """Parameters of a challenge. An installation's own challenge may have others."""

    difficulty: int | None = None
    """For `proof-of-work`: the number of zero bits."""


@dataclass(frozen=True, kw_only=True)
class ChallengeSolution:
    """Solution of a challenge."""

    nonce: str | None = None
    """Nonce of the challenge, unchanged."""
    solution: str | None = None
    """For `proof-of-work`: a text of at most 128 bytes. SHA-256 over nonce, `:` and this text must start with
    `difficulty` zero bits.
    """


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Share of a red packet that a user has. A repeated claim gets the same one."""

    id: str
    """Its id: that of its red packet, and its number."""
    object: ObjectKind
    """`claim`."""
    campaign: str
    """The red packet."""
    number: int
    """Its number in the red packet, from 1."""
    user: str
    """The user who has it."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of the decision."""
    ack: AckLevel | None = None
    """Acknowledgement level that it has reached. Only in the answer to a claim."""


@dataclass(frozen=True, kw_only=True)
class ClaimLatency:
    """Latency of claims, in milliseconds."""

    p50: float
    """50th percentile."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Clock of a service for development."""

    now: datetime
    """The time of the service."""
    advanced_seconds: int
    """Seconds by which requests have moved it."""


@dataclass(frozen=True, kw_only=True)
class ClockStep:
    """A step of the clock."""

    advance_seconds: int
    """Seconds by which the clock moves forward."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Credentials of a claim for the audience."""

    invitation: str | None = None
    """Invitation, for campaigns by invitation."""
    passphrase: str | None = None
    """Passphrase, for campaigns by passphrase."""


@dataclass(frozen=True, kw_only=True)
class Deposit:
    """A deposit that was made, and how much of it was reversed."""

    id: str
    """Its id."""
    object: ObjectKind
    """`deposit`."""
    user: str
    """The user whose account was credited."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of the deposit."""
    reversed: bool
    """Whether all of it was reversed."""
    reversed_amount: Money
    """Reversed amount."""
    metadata: dict[str, str] | None = None
    """Metadata of the shop. Absent unless the caller may read it."""
    reference: str | None = None
    """Reference of the payment service; absent if it was made without one."""


@dataclass(frozen=True, kw_only=True)
class FieldError:
    """Wrong field of a body, or wrong parameter: of the path, of the query, or a header."""

    detail: str
    """The error."""
    parameter: str | None = None
    """The name of the parameter."""
    pointer: str | None = None
    """Position of the field in the body: `#` and a JSON pointer (RFC 6901)."""


@dataclass(frozen=True, kw_only=True)
class GrabTicket:
    """A grab ticket."""

    ticket: str
    """Value of the header `Grab-Ticket` in claims."""
    expires_at: datetime
    """Time until which it is valid."""


@dataclass(frozen=True, kw_only=True)
class GrantPoint:
    """Grant of a timeline."""

    number: int
    """Its number, which counts the grants up to this one, unless numbers were skipped."""
    created_at: datetime
    """Time of the decision."""
    paid_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class GrantTimeline:
    """Grants of a campaign over its whole life, each with its number and its times."""

    campaign: str
    """The campaign."""
    last_number: int
    """Highest number that a grant may have: of an order so far, or the number of shares."""
    sampled: bool
    """Whether only evenly spaced grants are listed, because there are more."""
    points: list[GrantPoint]
    """The grants, ordered by number."""
    settled: bool
    """Whether all grants from before the request are included. If not, read it again later."""


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """Invitation to a campaign. It admits any user who presents it."""

    invitation: str
    """Text that a claim must present."""
    expires_at: datetime
    """Time from which it is invalid."""


@dataclass(frozen=True, kw_only=True)
class KeyedRedPacket:
    """A red packet to send, under its key."""

    idempotency_key: str
    """Idempotency key, with the meaning of the header `Idempotency-Key` of a single packet. The same key identifies the
    same packet on both routes.
    """
    red_packet: NewRedPacket


@dataclass(frozen=True, kw_only=True)
class KeyedSale:
    """A sale to open, under its key."""

    idempotency_key: str
    """Idempotency key, with the meaning of the header `Idempotency-Key` of a single sale. The same key identifies the
    same sale on both routes.
    """
    sale: NewSale


@dataclass(frozen=True, kw_only=True)
class ListedRedPacket:
    """A red packet in a list."""

    id: str
    """Its id."""
    object: ObjectKind
    """`red_packet`."""
    sender: str
    """The sender."""
    title: str
    """Title that users see."""
    total: Money
    """Total money of all shares."""
    shares: int
    """Number of shares."""
    split: SplitRule
    """Rule that splits the total into shares."""
    cover: Cover
    """Look of the envelope on the pages."""
    created_at: datetime
    """Time of its creation."""
    updated_at: datetime
    """Time of the last change of phase, stock, settings or details."""
    state: State
    """Its counters, as settled."""
    archived_at: datetime | None = None
    metadata: dict[str, str] | None = None
    """Metadata of the shop. Absent unless the caller may read it."""
    reference: str | None = None
    """The shop's own number. Absent unless the caller may read the metadata."""


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Metadata of a campaign or an order."""

    id: str
    """Id of the campaign or the order."""
    object: ObjectKind
    """`sale`, `red_packet` or `order`."""
    metadata: dict[str, str] | None = None
    """Texts of the shop by name."""
    reference: str | None = None
    """The shop's own number."""
    unique_reference: bool | None = None
    """Whether no other object of this kind and owner can have the reference as a unique one."""


@dataclass(frozen=True, kw_only=True)
class MetadataChange:
    """A change of metadata. Absent fields and names do not change."""

    metadata: Mapping[str, str | None] | Unset = UNSET
    """New values by name; null removes a name. An object has at most 20 names."""
    reference: str | None | Unset = UNSET
    """The shop's own number of the object; null removes it. Several objects may have the same one, unless it is unique.
    """
    unique_reference: bool | None | Unset = UNSET
    """Whether the reference is unique, with `reference`: if another campaign of the owner, or another order of the
    seller, has it as a unique one, the change is refused. Default: as before.
    """


@dataclass(frozen=True, kw_only=True)
class Money:
    """Money in whole minor units (fen, cents) of one currency."""

    amount: int
    """Whole minor units."""
    currency: str
    """ISO 4217 code."""


@dataclass(frozen=True, kw_only=True)
class NewCancellation:
    """Units of an order to cancel."""

    quantity: int | None = None
    """At least 1, at most the order's quantity. Default: all units. A request with a quantity needs an
    `Idempotency-Key`.
    """


@dataclass(frozen=True, kw_only=True)
class NewDeposit:
    """Money from outside."""

    amount: int
    """Whole minor units, at least 1."""
    currency: str
    """ISO 4217 code."""
    reference: str
    """The payment service's reference of the deposit, kept forever. The same deposit with it is a replay, at any time
    and from any caller; another deposit with it is refused. If two services may use the same references, prefix them.
    """
    metadata: Mapping[str, str] | None = None
    """Up to 20 texts of the shop by name. Users do not see them."""


@dataclass(frozen=True, kw_only=True)
class NewHoldExtension:
    """Extension of the hold of an order."""

    seconds: int
    """Seconds after the present end of the hold: at least 1, and at most the `hold_seconds` of the sale."""


@dataclass(frozen=True, kw_only=True)
class NewInvitation:
    """An invitation to sign."""

    expires_at: datetime | None = None
    """Time from which it is not valid; default: the end of the campaign."""


@dataclass(frozen=True, kw_only=True)
class NewOrder:
    """An order of units."""

    invitation: str | None = None
    """Invitation, for sales by invitation."""
    passphrase: str | None = None
    """Passphrase, for sales by passphrase."""
    quantity: int | None = None
    """Units, at least 1."""


@dataclass(frozen=True, kw_only=True)
class NewOrderCancellations:
    """Held orders of a sale to cancel. Without a filter these are all of them."""

    after: str | None = None
    """Only orders after this cursor: `next` of the part before."""
    created_after: datetime | None = None
    """Only orders from this time on."""
    created_before: datetime | None = None
    """Only orders from before this time."""
    limit: int | None = None
    """Cancel at most this many orders; default 100."""
    user: str | None = None
    """Only orders of this buyer."""


@dataclass(frozen=True, kw_only=True)
class NewPayment:
    """A payment that arrived."""

    reference: str
    """The payment service's reference of the payment. A report with the same reference is a replay: the money of the
    first report counts, and other money is not recorded. A further payment of the order is refunded. A reference pays
    one order: for another order it is refused.
    """
    amount: Money
    """Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
    `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not change.
    """
    paid_at: datetime | None = None
    """Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
    reported a little later. Default: now.
    """
    user: str | None = None
    """User who paid. If the order is another user's, the report is refused and nothing is recorded."""


@dataclass(frozen=True, kw_only=True)
class NewRedPacket:
    """A red packet to send."""

    title: str
    """Title that users see."""
    total: Money
    """Amount that is taken from the sender's account and split."""
    shares: int
    """Number of shares. A user gets at most one."""
    split: NewSplitRule
    ack: AckLevel | None = None
    """Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis).
    """
    audience: Audience | None = None
    """Users who may take part; default: all users."""
    client_seed: str | None = None
    """32 random bytes of the sender, as 64 hexadecimal digits. All users will see them."""
    cover: Cover | None = None
    """Look of the envelope on the pages; default: `classic`."""
    draws: Draws | None = None
    """Users who may see the draws; default: all users."""
    ends_at: datetime | None = None
    """Time at which unclaimed money returns to the sender. Default: `packets.refund_after_ms` of the configuration
    after the start, which is 24 hours unless configured otherwise.
    """
    id: str | None = None
    """The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
    finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
    """
    metadata: Mapping[str, str] | None = None
    """Up to 20 texts of the shop by name. Users do not see them."""
    reference: str | None = None
    """The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
    see it.
    """
    requirements: list[Requirement] | None = None
    """Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
    Default: none.
    """
    server_seed_hash: str | None = None
    """Hash of the server seed for this `id`; needs `client_seed`. With both, neither side alone chooses the split."""
    starts_at: datetime | None = None
    """Default: now."""
    unique_reference: bool | None = None
    """Whether the reference is unique: if another campaign of the sender has it as a unique one, this one is refused.
    Default: no.
    """
    waiting_room: bool | None = None
    """Whether claims wait in a queue and are decided in order of arrival; default: no."""


@dataclass(frozen=True, kw_only=True)
class NewRedPackets:
    """Red packets to send: 1 to 100, with at most as many shares together as one packet may have (`limits.shares_max`).
    """

    red_packets: list[KeyedRedPacket]
    mode: BatchMode | None = None
    """`each`: a refused packet does not affect the others. `all`: if one packet is refused, none is sent, and the whole
    request is refused. Default: `each`.
    """


@dataclass(frozen=True, kw_only=True)
class NewRefund:
    """A refund that was paid to the buyer of an order."""

    reference: str
    """The payment service's reference of the refund. The same refund with it is a replay; another refund with it is
    refused.
    """
    amount: Money
    """Amount: at least 1 minor unit, at most what is still due for the order in this currency."""


@dataclass(frozen=True, kw_only=True)
class NewReturn:
    """Units of an order to return."""

    quantity: int | None = None
    """At least 1, at most what is not returned yet. Default: all of that. A request with a quantity needs an
    `Idempotency-Key`.
    """


@dataclass(frozen=True, kw_only=True)
class NewReversal:
    """Amount of a deposit to reverse."""

    amount: Money | None = None
    """At least 1 minor unit, at most what is not reversed yet, in the deposit's currency. Default: all of that. A
    request with an amount needs an `Idempotency-Key`.
    """


@dataclass(frozen=True, kw_only=True)
class NewSale:
    """A sale to open."""

    title: str
    """Title that users see."""
    stock: int
    """Units for sale. Their total price is at most 9007199254740991 minor units."""
    unit_price: Money
    ack: AckLevel | None = None
    """Failures that a grant survives before it is acknowledged; default: fsync (embedded), memory or replica (Redis).
    """
    admission_percent: int | None = None
    """Users admitted to a decision at a time for each 100 units that are left: 100 to 10000, or 0 for all; default 150.
    Other claims wait, and most of them end with sold out. A sale that is spread over partitions admits all and ignores
    this value.
    """
    audience: Audience | None = None
    """Users who may take part; default: all users."""
    description: str | None = None
    """Description of the product; may contain line breaks."""
    ends_at: datetime | None = None
    """Default: 24 hours after the start."""
    gallery: list[str] | None = None
    """Further pictures of the product, at most 8, in their order. Each is like `image_url`."""
    hold_seconds: int | None = None
    """Seconds for which an unpaid order keeps its units; default 900."""
    id: str | None = None
    """The campaign's id: a random UUID of version 7 that the caller made within the last day. A user who guesses it
    finds the campaign. Without an `Idempotency-Key`, it also serves as the key. Default: the service makes one.
    """
    image_url: str | None = None
    """Image of the product: `https://…`, or a path of the shop's own site, which begins with `/`."""
    list_price: Money | None = None
    """Price of one unit before the discount: above `unit_price`, in its currency. Buyers see the difference."""
    metadata: Mapping[str, str] | None = None
    """Up to 20 texts of the shop by name. Users do not see them."""
    payment_policy: PaymentPolicy | None = None
    """Payments other than the price that pay an order. `owed`: none; another amount is refunded. `accept_over`: each
    larger amount. `accept_with_tolerance`: amounts that differ from the price by at most `payment_tolerance`. The
    seller receives the whole payment; if the order is returned, all of it is refunded. The policy never changes. A sale
    at 0 has `owed`. Default: `owed`.
    """
    payment_tolerance: Money | None = None
    """For `accept_with_tolerance` only: 0 or more, below the unit price, in its currency. It applies to the whole
    order, for any number of units. An order with an amount not above the tolerance accepts its exact amount only.
    """
    per_user_limit: int | None = None
    """Units that one user may have; default 1."""
    product_id: str | None = None
    """The seller's id of the product. Sales of one product are its rounds. Visible ASCII characters."""
    reference: str | None = None
    """The shop's own number of the campaign. Several campaigns may have the same one, unless it is unique. Users do not
    see it.
    """
    requirements: list[Requirement] | None = None
    """Requirements of a claim before it is decided: `ticket`, a grab ticket; `order_check`, approval by the shop.
    Default: none.
    """
    seller: str | None = None
    """Seller; default: the caller. Another seller needs the scope `campaigns:write:any`."""
    starts_at: datetime | None = None
    """Default: now."""
    unique_reference: bool | None = None
    """Whether the reference is unique: if another campaign of the seller has it as a unique one, this one is refused.
    Default: no.
    """
    waiting_room: bool | None = None
    """Whether claims wait in a queue and are decided in order of arrival; default: no."""


@dataclass(frozen=True, kw_only=True)
class NewSales:
    """Sales to open: 1 to 100."""

    sales: list[KeyedSale]
    mode: BatchMode | None = None
    """`each`: a refused sale does not affect the others. `all`: if one sale is refused, none is created, and the whole
    request is refused. Default: `each`.
    """


@dataclass(frozen=True, kw_only=True)
class NewSplitRule:
    """Rule that splits the total into shares."""

    rule: SplitRuleName
    """normal, double_average, equal or lazy."""
    max: int | None = None
    """The largest share, in minor units; `normal` needs it, the others have none."""
    min: int | None = None
    """The smallest share, in minor units; default 1. Not for `equal`."""


@dataclass(frozen=True, kw_only=True)
class NewTransfer:
    """Money to move to another user."""

    reference: str
    """Your reference of the transfer. The same transfer with it is a replay; another one with it is refused."""
    to: str
    """The user who gets the money."""
    amount: int
    """Whole minor units, at least 1, at most the user's available balance."""
    currency: str
    """ISO 4217 code."""


@dataclass(frozen=True, kw_only=True)
class NewWebhook:
    """An endpoint that receives events."""

    url: str
    """URL of the endpoint: `https:` with a host on the public internet."""
    campaigns: list[str] | None = None
    """Campaigns of events that it receives, at most 100; empty for all campaigns."""
    owner: str | None = None
    """Sender or seller of the campaigns of events that it receives. Without the scope `admin` it is the caller."""
    types: list[WebhookEventType] | None = None
    """Types of events that it receives; empty for all types."""


@dataclass(frozen=True, kw_only=True)
class NewWithdrawal:
    """A withdrawal from a user's account."""

    reference: str
    """The payment service's reference of the withdrawal. The same withdrawal with it is a replay; another one with it
    is refused.
    """
    amount: int
    """Whole minor units, at least 1, at most the user's available balance."""
    currency: str
    """ISO 4217 code."""


@dataclass(frozen=True, kw_only=True)
class NodeSighting:
    """Node as a partition sees it."""

    node: str
    """Its name."""
    seen_at: datetime
    """Time of its last presence call, by the engine's clock."""
    term: int
    """The term in which it has reported."""
    observed: int
    """The last entry that it has observed."""


@dataclass(frozen=True, kw_only=True)
class NotificationReceipt:
    """Receipt of a payment service's notification."""

    recorded: int
    """Reports of payments and refunds that are recorded, by this notification or an earlier one."""
    ignored: str | None = None
    """Reason why a notification without reports is acknowledged."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Order of a sale. A repeated claim gets the same one."""

    id: str
    """Its id: that of its sale, and its number."""
    object: ObjectKind
    """`order`."""
    campaign: str
    """The sale."""
    number: int
    """Its number in the sale, from 1."""
    user: str
    """The buyer."""
    quantity: int
    """Number of units that were granted."""
    returned_quantity: int
    """Units that were returned after the order was paid."""
    cancelled_quantity: int
    """Units cancelled while the order was held. `quantity` and `amount` are without them."""
    amount: Money
    """The price of all granted units."""
    state: OrderState
    """Its state."""
    created_at: datetime
    """Time of the decision."""
    ack: AckLevel | None = None
    """Acknowledgement level that it has reached. Only in the answer to a claim."""
    hold_extension_seconds: int | None = None
    """Seconds by which the seller extended the hold: `hold_until` includes them. Absent if the hold was not extended,
    and in lists.
    """
    hold_until: datetime | None = None
    metadata: dict[str, str] | None = None
    """Metadata of the shop. Only in lists, for callers who may read it."""
    reference: str | None = None
    """The shop's own number. Only in lists, for callers who may read the metadata."""
    refundable_payments: int | None = None
    """Number of its payments with a refund due. Absent in lists and in the answer to a claim."""
    title: str | None = None
    """Title of the sale. Only in lists of several sales' orders."""


@dataclass(frozen=True, kw_only=True)
class OrderCancellations:
    """Result of one part of a cancellation of many orders."""

    matched: int
    """Orders of this part, which were found held."""
    cancelled: int
    """Orders of this part that are cancelled."""
    unchanged: int
    """Orders of this part that did not change: the sum of `refusals`."""
    refusals: CancellationRefusals
    """Orders of this part that did not change, by reason."""
    settled: bool
    """Whether the ledger had all orders. If not, repeat the cancellation later for the newest ones."""
    next: str | None = None
    """Cursor of the next part; absent after the last one."""


@dataclass(frozen=True, kw_only=True)
class OwedMoney:
    """Refunds of an order in one currency."""

    due: Money
    """Total that ever became due."""
    refunded: Money
    """Amount refunded so far."""


@dataclass(frozen=True, kw_only=True)
class OwedOrder:
    """Order with an unpaid refund in one currency."""

    order: str
    """The order."""
    user: str
    """The buyer."""
    due: Money
    """Total that ever became due."""
    refunded: Money
    """Amount refunded so far."""
    outstanding: Money
    """Amount still due."""


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition."""

    partition: int
    """Its number."""
    status: ReadinessStatus
    """Its readiness."""
    refused: int
    """Its entries that the ledger refused."""
    waiting: int
    """Its entries that wait for refused ones."""
    reason: str | None = None
    """Reason of a status other than ready."""
    reconciliation: PartitionReconciliation | None = None
    """Differences between engine and ledger; absent if this process does not reconcile."""
    settlement_lag: int | None = None
    """Its log entries that are not in the ledger yet; absent if the number per partition is unknown."""
    settlement_stuck: str | None = None
    """Reason why its settlement is stuck."""


@dataclass(frozen=True, kw_only=True)
class PartitionDetail:
    """Partition with its nodes and repairs."""

    partition: int
    """Its number."""
    status: ReadinessStatus
    """Its readiness."""
    refused: int
    """Its entries that the ledger refused."""
    waiting: int
    """Its entries that wait for refused ones."""
    settled: int
    """The last entry that is in the ledger."""
    engine: dict[str, str]
    """Fields of the engine's state, as texts."""
    nodes: list[NodeSighting]
    """The nodes that report to it."""
    repairs: list[RepairRecord]
    """The last repairs in the ledger, newest first."""
    withheld: list[Withheld]
    """Withheld units in the ledger."""
    reason: str | None = None
    """Reason of a status other than ready."""
    reconciliation: PartitionReconciliation | None = None
    """Differences between engine and ledger; absent if this process does not reconcile."""
    settlement_lag: int | None = None
    """Its log entries that are not in the ledger yet; absent if the number per partition is unknown."""
    settlement_stuck: str | None = None
    """Reason why its settlement is stuck."""


@dataclass(frozen=True, kw_only=True)
class PartitionReadiness:
    """A partition that is not ready."""

    partition: int
    """Number of the partition."""
    status: ReadinessStatus
    """degraded: something that some grants need is missing, or memory for new ones, while all else works; not_ready:
    nothing is served.
    """
    reason: str
    """Reason of the status."""


@dataclass(frozen=True, kw_only=True)
class PartitionReconciliation:
    """Result of comparing engine and ledger."""

    differences: dict[str, int]
    """Number of differences, by kind."""
    passed_at: datetime | None = None
    ran_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Partitions:
    """All partitions, as the node that answers sees them."""

    partitions: list[Partition]
    """The partitions."""
    queue_length: int
    """Claims and commands that wait for the engine."""
    settlement_lag: int
    """Log entries that are not in the ledger yet."""
    repairable: bool
    """Whether partitions of this engine may lose entries, and can be repaired and resumed."""
    upkeep_stuck: str | None = None
    """Overdue maintenance that the node retries."""


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Result of a payment report."""

    outcome: PaymentOutcome
    """Outcome of the payment."""
    order: Order
    """The order."""


@dataclass(frozen=True, kw_only=True)
class PaymentRecord:
    """Reported payment and its outcome."""

    reference: str
    """Reference of the payment service."""
    object: ObjectKind
    """`payment`."""
    order: str
    """The order."""
    outcome: PaymentRecordOutcome
    """Outcome of the payment."""
    created_at: datetime
    """Time of the decision."""
    amount: Money | None = None
    """Its money; absent if the amount of a refused report could not be read."""
    problem: str | None = None
    """Problem of a refused report."""
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class PaymentReport:
    """A payment that arrived for an order."""

    order: str
    """Order that it pays."""
    reference: str
    """The payment service's reference of the payment. A report with the same reference is a replay: the money of the
    first report counts, and other money is not recorded. A further payment of the order is refunded. A reference pays
    one order: for another order it is refused.
    """
    amount: Money
    """Paid amount, at least 1 minor unit and at most 2^53-1. The order's price, and an amount that the sale's
    `payment_policy` accepts, pay the order. Another amount or currency is refunded, and the order does not change.
    """
    paid_at: datetime | None = None
    """Time of the payment, by the payment service's clock. A payment within the hold pays the order, even if it is
    reported a little later. Default: now.
    """
    user: str | None = None
    """User who paid. If the order is another user's, the report is refused and nothing is recorded."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A user's queue entry."""

    state: PlaceState
    """State of the entry: it waits, or its result."""
    place: int
    """Number of the entry. Entries are decided in this order."""
    ahead: int | None = None
    """Upper bound of the entries before this one; absent once it is decided."""
    claim: Claim | None = None
    """The claimed share, if one was granted."""
    order: Order | None = None
    """The order, if units were granted."""


@dataclass(frozen=True, kw_only=True)
class Posting:
    """Posting on one of a user's accounts."""

    kind: PostingKind
    """Kind of posting."""
    account: UserAccount
    """The user's account with the posting."""
    amount: Money
    """Amount; negative for a debit."""
    at: datetime
    """Time of the posting."""
    campaign: str | None = None
    order: str | None = None
    reference: str | None = None
    """Reference of the payment service; for a deposit and its reversal the deposit's id."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Refusal by the service. Unknown fields are ignored."""

    type: ProblemType
    """Type of the problem: a path of the service with a page about the remedy. See `kind`."""
    title: str
    """Title; the same for all problems of a type."""
    status: int
    """The HTTP status."""
    detail: str | None = None
    """Details of this occurrence."""
    errors: list[FieldError] | None = None
    """Known wrong fields and parameters; for `bad-request` and `invalid`. For a batch with the mode `all`, the refused
    campaigns.
    """
    existing_id: str | None = None
    """Id of the campaign or order that has the reference; for `reference-taken`."""
    held: int | None = None
    """Units of this user; for `limit-reached`."""
    limit: int | None = None
    """Maximum units per user; for `limit-reached`."""
    offered: list[AckLevel] | None = None
    """Offered levels; for `ack-unavailable`."""
    outcome: RefusedOutcome | None = None
    """Outcome; for claims."""
    remaining: int | None = None
    """Remaining units, fewer than requested; for `sold-out`."""
    request_id: str | None = None
    """Id of the request. Log lines of the service contain it."""
    scope: str | None = None
    """Scope that the token must have; for `forbidden`."""
    starts_at: datetime | None = None
    violated_policies: list[str] | None = field(default=None, metadata={"wire": "violated-policies"})
    """Exceeded limits; for status 429."""


@dataclass(frozen=True, kw_only=True)
class QuarantinedEntry:
    """An entry in quarantine."""

    entry: str
    """Its partition and position, such as `0-17`."""
    partition: int
    """Its partition."""
    seq: int
    """Its position in the partition's log."""
    campaign: str
    """The campaign of the entry."""
    event: str
    """Its text in the log."""
    at: datetime
    """Time of the refusal; for a waiting entry the time of the decision."""
    reason: str
    """Reason why it was not settled."""
    discarding: bool
    """Whether the entry is a grant that is being discarded."""
    waits_for: int | None = None
    """Position of the entry that it waits for; absent if it was refused."""


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """Readiness to grant."""

    status: ReadinessStatus
    """ready; degraded: something is missing or a partition grants nothing; not_ready: no partition grants."""
    queue_length: int
    """Claims and commands that wait for the engine."""
    settlement_lag: int
    """Log entries that are not yet in the ledger."""
    campaigns_out_of_service: list[str] | None = None
    """Campaigns that repairs took out of service, if any: the first 20. Their claims are refused, and all others are
    served.
    """
    clock_offset_seconds: float | None = None
    """Seconds by which the clock that opens and ends campaigns is ahead of this machine's. Absent if they differ by one
    second or less.
    """
    partitions: list[PartitionReadiness] | None = None
    """Partitions that are not ready."""
    quarantined_entries: SetAside | None = None
    """Quarantined entries, if any. The ledger lacks them until they are settled."""
    reason: str | None = None
    """Reason for a status other than ready."""
    settlement_stuck: str | None = None
    """Reason why settlement is stuck. Absent if it is not. Grants continue during that time, up to a limit."""
    upkeep_stuck: str | None = None
    """Overdue work that is retried, if any: campaigns that are not open, queues that are not decided, packets that are
    claimed but not closed.
    """


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """Result of reconciling a partition with the ledger."""

    ran_at: datetime
    """Time of its start."""
    complete: bool
    """Whether all live campaigns were compared. False if that takes longer than five seconds."""
    campaigns: int
    """Campaigns compared completely."""
    rows: int
    """Rows compared."""
    differences: dict[str, int]
    """Number of differences, by kind. Each was found twice, with a pause between."""
    examples: list[str]
    """The first hundred differences, one line each."""


@dataclass(frozen=True, kw_only=True)
class RecordedEvent:
    """Recorded event, with the content that endpoints receive."""

    id: str
    """Its id: the `webhook-id` of its deliveries."""
    type: WebhookEventType
    """Its type."""
    timestamp: datetime
    """Time of the decision."""
    data: dict[str, Any]
    """Details. Fields may be added."""


@dataclass(frozen=True, kw_only=True)
class RedPacket:
    """A red packet."""

    id: str
    """Its id."""
    object: ObjectKind
    """`red_packet`."""
    sender: str
    """The sender."""
    title: str
    """Title that users see."""
    total: Money
    """Total money of all shares."""
    shares: int
    """Number of shares."""
    split: SplitRule
    """Rule that splits the total into shares."""
    ack: AckLevel
    """Acknowledgement level of grants."""
    draws: Draws
    """Users who may see the claimed shares."""
    cover: Cover
    """Look of the envelope on the pages."""
    waiting_room: bool
    """Whether claims wait in a queue."""
    requirements: list[Requirement]
    """Requirements of a claim."""
    claimed: Money
    """Money of the claimed shares."""
    remaining: Money
    """Money of the shares that can still be claimed."""
    refunded: Money
    """Money refunded to the sender."""
    withheld: Money
    """Money of the shares that repairs withhold. It goes back to the sender at the close."""
    commitment: str
    """The SHA-256 over split, id, currency and seed."""
    created_at: datetime
    """Time of its creation."""
    updated_at: datetime
    """Time of the last change of phase, stock, settings or details."""
    state: State
    """Its counters."""
    archived_at: datetime | None = None
    audience: AudienceKind | None = None
    """Users who may claim; absent for all users."""
    client_seed: str | None = None
    """The client seed, which the sender added."""
    luckiest: Claim | None = None
    """The largest share, once all are claimed or the packet is closed."""
    metadata: dict[str, str] | None = None
    """Metadata of the shop. Absent unless the caller may read it."""
    reference: str | None = None
    """The shop's own number. Absent unless the caller may read the metadata."""
    seed: str | None = None
    """Seed of all shares. Disclosed once it gives no user an advantage."""
    server_seed: str | None = None
    """The server seed, disclosed together with the seed."""
    server_seed_hash: str | None = None
    """Hash of the server seed."""


@dataclass(frozen=True, kw_only=True)
class RedPacketResult:
    """Result of one red packet of a batch."""

    idempotency_key: str
    """Idempotency key of the red packet."""
    result: CreationResult
    """Result of the creation."""
    problem: Problem | None = None
    """Reason of a refusal."""
    red_packet: RedPacket | None = None
    """The red packet, unless it was refused."""


@dataclass(frozen=True, kw_only=True)
class Redriven:
    """Result of settling an entry again."""

    entry: str
    """The entry."""
    settled: bool
    """Whether it is settled now."""


@dataclass(frozen=True, kw_only=True)
class Refund:
    """Refund that was paid to the buyer of an order."""

    reference: str
    """Reference of the payment service."""
    object: ObjectKind
    """`refund`."""
    order: str
    """The order."""
    user: str
    """The buyer."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of its posting."""
    reversed: bool | None = None
    """Whether the refund was reversed. Its money is due again, or was refunded under another reference."""


@dataclass(frozen=True, kw_only=True)
class RefundReversal:
    """Reversal of a recorded refund: its money is due to the buyer again."""

    reference: str
    """Reference of the refund."""
    object: ObjectKind
    """`refund_reversal`."""
    order: str
    """The order."""
    user: str
    """The buyer."""
    amount: Money
    """Money of the refund."""
    created_at: datetime
    """Time of the reversal."""


@dataclass(frozen=True, kw_only=True)
class Refunds:
    """Refunds of an order: due and paid."""

    order: str
    """The order."""
    due: Money
    """Total that ever became due in the sale's currency."""
    refunded: Money
    """Amount refunded so far."""
    settled: bool
    """Whether the amounts include all changes from before the request. If not, read them again later."""
    other_currencies: list[OwedMoney] | None = None
    """The same in other currencies of payments."""


@dataclass(frozen=True, kw_only=True)
class Released:
    """Result of releasing withheld units."""

    units: int
    """Units that can be claimed again."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    """Result of a repair."""

    result: RepairResult
    """Whether entries were lost, and whether the partition is repaired."""
    campaigns: int
    """Campaigns examined."""
    restored: int
    """Rows that the engine had lost and that were restored."""
    appended: int
    """Entries appended because neither the log nor the ledger had them."""
    unnamed: int
    """Lost entries with unknown content."""
    withheld: int
    """Withheld units."""
    out_of_service: int
    """Campaigns taken out of service because the ledger cannot read them."""
    conflicts: list[str]
    """Conflicts with the ledger that the repair cannot resolve, one line each."""


@dataclass(frozen=True, kw_only=True)
class RepairRecord:
    """Repair in the ledger."""

    epoch: str
    """Epoch under which the partition continues."""
    at: datetime
    """Time of its start."""
    lost: int
    """Number of lost entries that some node had observed."""
    unnamed: int
    """Number of lost entries with unknown content."""
    reason: str
    """Reason of the halt."""
    upto: int | None = None
    """The last entry of the log after the repair; absent until the repair ends."""


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Result of ending a halt."""

    resumed: bool
    """False if the partition was not halted."""


@dataclass(frozen=True, kw_only=True)
class Reversal:
    """A reversal of a deposit, or of a part of it."""

    deposit: str
    """The deposit."""
    object: ObjectKind
    """`reversal`."""
    user: str
    """The user whose account was debited."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of the reversal."""


@dataclass(frozen=True, kw_only=True)
class Sale:
    """A flash sale."""

    id: str
    """Its id."""
    object: ObjectKind
    """`sale`."""
    seller: str
    """The seller."""
    title: str
    """Title that users see."""
    stock: int
    """Total units."""
    per_user_limit: int
    """Maximum units per user."""
    unit_price: Money
    """The price of one unit."""
    hold_seconds: int
    """Time for which an unpaid order keeps its units."""
    ack: AckLevel
    """Acknowledgement level of grants."""
    admission_percent: int
    """Admission permits per remaining unit, in percent; 0 for no limit."""
    payment_policy: PaymentPolicy
    """Payments that pay an order although they differ from its price."""
    waiting_room: bool
    """Whether claims wait in a queue."""
    requirements: list[Requirement]
    """Requirements of a claim."""
    created_at: datetime
    """Time of its creation."""
    updated_at: datetime
    """Time of the last change of phase, stock, settings or details."""
    state: State
    """Its counters."""
    archived_at: datetime | None = None
    audience: AudienceKind | None = None
    """Users who may claim; absent for all users."""
    description: str | None = None
    """Description of the product."""
    gallery: list[str] | None = None
    """URLs of further pictures of the product."""
    image_url: str | None = None
    """URL of a picture of the product."""
    list_price: Money | None = None
    """Price of one unit before the discount."""
    metadata: dict[str, str] | None = None
    """Metadata of the shop. Absent unless the caller may read it."""
    payment_tolerance: Money | None = None
    """The tolerance of the policy `accept_with_tolerance`."""
    product_id: str | None = None
    reference: str | None = None
    """The shop's own number. Absent unless the caller may read the metadata."""


@dataclass(frozen=True, kw_only=True)
class SaleChange:
    """Changes of a sale: its stock, its terms and its description. Absent fields do not change."""

    admission_percent: int | None | Unset = UNSET
    """Users admitted to a decision at a time for each 100 units that are left: 100 to 10,000, or 0 for no limit. Nodes
    follow within seconds.
    """
    description: str | None | Unset = UNSET
    """Description of the product; null removes it."""
    ends_at: datetime | None | Unset = UNSET
    """New end: not in the past, and only before the sale ends."""
    gallery: list[str] | None | Unset = UNSET
    """Further pictures of the product, at most 8; none or null removes them."""
    image_url: str | None | Unset = UNSET
    """Image of the product; null removes it."""
    list_price: Money | None | Unset = UNSET
    """Price of one unit before the discount: above the unit price, in the sale's currency; null removes it."""
    per_user_limit: int | None | Unset = UNSET
    """Units that one user may have: 1 up to the stock. A user with more units keeps them."""
    product_id: str | None | Unset = UNSET
    """The seller's id of the product; null removes it."""
    starts_at: datetime | None | Unset = UNSET
    """New start: not in the past, and only until the sale has opened. A sale of up to a million units can move it until
    it has sold some.
    """
    stock: int | None | Unset = UNSET
    """Total units for sale, units of users included. At least the units that users have, and at least the limit."""
    title: str | None | Unset = UNSET
    """Title that users see."""
    unit_price: Money | None | Unset = UNSET
    """Price of one unit, in the sale's currency, for orders from then on. Earlier orders keep their price. If the sale
    accepts more than its price, the price is at least 1. With a `payment_tolerance`, the price is above it.
    """


@dataclass(frozen=True, kw_only=True)
class SaleResult:
    """Result of one sale of a batch."""

    idempotency_key: str
    """Idempotency key of the sale."""
    result: CreationResult
    """Result of the creation."""
    problem: Problem | None = None
    """Reason of a refusal."""
    sale: Sale | None = None
    """The sale, unless it was refused."""


@dataclass(frozen=True, kw_only=True)
class ServerSeed:
    """Hash of the server seed of a future red packet."""

    id: str
    """Id of the red packet. It must be sent within a day."""
    server_seed_hash: str
    """SHA-256 over the id and the server seed."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """The signed-in user."""

    user: str
    """The user."""
    scopes: list[str]
    """Scopes of the token."""
    expires_at: datetime
    """Time when the session ends."""


@dataclass(frozen=True, kw_only=True)
class SetAside:
    """Quarantined entries of all partitions."""

    refused: int
    """Entries that the ledger refused."""
    waiting: int
    """Entries that wait for refused ones."""


@dataclass(frozen=True, kw_only=True)
class SplitRule:
    """Rule that splits a total into shares."""

    rule: SplitRuleName
    """Name of the rule."""
    max: int | None = None
    """The largest share, in minor units; `normal` needs it, the others have none."""
    min: int | None = None
    """The smallest share, in minor units; default 1. Not for `equal`."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A campaign's numbers. Always supply = granted + remaining + returned + withheld."""

    phase: Phase
    """Phase of the campaign."""
    supply: int
    """Total shares or units."""
    granted: int
    """Shares or units that users have."""
    remaining: int
    """Shares or units that can still be claimed."""
    returned: int
    """Shares or units returned at the close."""
    withheld: int
    """Units that repairs withhold, because a user may have been granted them. They are returned at the close."""
    starts_at: datetime
    """The first instant at which claims are accepted."""
    ends_at: datetime
    """The first instant at which they no longer are."""
    now: datetime
    """The server's time."""


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Statistics of one second."""

    number: int
    """Number of the record; consecutive."""
    at: datetime
    """End of the second."""
    claims_per_s: float
    """Answered claims."""
    outcomes_per_s: dict[str, float]
    """Answered claims by outcome. Outcomes with no claim are absent."""
    settlement_lag_entries: int
    """Log entries that are not in the ledger yet."""
    queue_length: int
    """Claims and commands that wait for the engine."""
    queue_entries: int
    """Queue entries in the queues that the node decides."""
    gate_pass_ratio: float | None = None
    """Fraction of claims that passed the gate and reached the engine; absent if there were none."""
    latency_ms: ClaimLatency | None = None
    """Latency of claims; absent if there were none."""


@dataclass(frozen=True, kw_only=True)
class StatsList:
    """Statistics of the last minutes of a node, or those after an earlier answer."""

    process: str
    """Random id of the process that sampled them, drawn at its start. Numbers of another process do not apply."""
    stats: list[Stats]
    """Earliest first."""


@dataclass(frozen=True, kw_only=True)
class StripeWebhookEvent:
    """Snapshot event of Stripe. Further fields are ignored."""

    type: str
    """Kind of the event. Others than payments and refunds are acknowledged."""
    created: int
    """Seconds since 1970."""
    livemode: bool
    """Whether it is of the live mode."""
    data: Mapping[str, Any]
    """The object in `object`. Its `metadata.qiang-order` is the id of the order."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Money that an operator moved from one user's account to another's."""

    reference: str
    """The operator's reference."""
    object: ObjectKind
    """`transfer`."""
    user: str
    """The user whose account was debited."""
    to: str
    """The user whose account was credited."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of its posting."""


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """Endpoint that receives webhook events, and its delivery status."""

    id: str
    """Its id."""
    url: str
    """URL to which events are posted."""
    types: list[WebhookEventType]
    """Types of events to deliver; empty for all types."""
    campaigns: list[str]
    """Campaigns whose events are delivered; empty for all campaigns."""
    created_at: datetime
    """Time of its creation."""
    status: WebhookStatus
    """Delivery status."""
    behind: int
    """Upper bound of undelivered events."""
    waiting: int
    """Events that failed, or follow a failed event of their order, and wait for a retry."""
    attempts: int
    """Failed attempts since then."""
    disabled_at: datetime | None = None
    failing_since: datetime | None = None
    last_error: str | None = None
    """Error of the last failed attempt."""
    managed_by: str | None = None
    owner: str | None = None
    retry_at: datetime | None = None
    secret: str | None = None


@dataclass(frozen=True, kw_only=True)
class WebhookChange:
    """Changes of a webhook. Absent fields do not change."""

    campaigns: list[str] | None | Unset = UNSET
    """Campaigns of events that it receives, at most 100; empty for all campaigns."""
    enabled: bool | None | Unset = UNSET
    """Whether events are delivered. An endpoint that is enabled again receives the events since it was disabled, as far
    as they are kept.
    """
    owner: str | None | Unset = UNSET
    """Sender or seller of the campaigns of events that it receives; null for all."""
    types: list[WebhookEventType] | None | Unset = UNSET
    """Types of events that it receives; empty for all types."""
    url: str | None | Unset = UNSET
    """New URL of the endpoint: `https:` with a host on the public internet. Events that wait for a retry are due at
    once.
    """


@dataclass(frozen=True, kw_only=True)
class WebhookDelivery:
    """Attempt to deliver an event to a webhook."""

    id: str
    """Its id."""
    event: str
    """Id of the event."""
    type: WebhookEventType
    """Type of the event."""
    campaign: str
    """Campaign of the event."""
    attempted_at: datetime
    """Time of the attempt."""
    duration_ms: int
    """Milliseconds from connecting to the end of the answer."""
    attempt: int
    """Number of the attempt at this event, from 1."""
    state: WebhookDeliveryState
    """State of the event after the attempt."""
    error: str | None = None
    """Error of a failed attempt."""
    next_attempt_at: datetime | None = None
    order: str | None = None
    response_body: str | None = None
    """First characters of the answer's body, at most 256."""
    response_status: int | None = None
    """Status of the endpoint's answer; absent if it did not answer."""


@dataclass(frozen=True, kw_only=True)
class WebhookEvent:
    """A settled change."""

    type: str
    timestamp: datetime
    """Time of the decision."""
    data: WebhookEventData
    """Details of the event. Fields may be added."""


@dataclass(frozen=True, kw_only=True)
class WebhookEventData:
    """Details of the event. Fields may be added."""

    amount: Money | None = None
    campaign: str | None = None
    change: str | None = None
    """stock, terms, paused or resumed."""
    kind: str | None = None
    number: int | None = None
    order: str | None = None
    owner: str | None = None
    payment: str | None = None
    quantity: int | None = None
    reference: str | None = None
    refunded: Money | None = None
    returned: int | None = None
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class WebhookRedelivery:
    """Events to deliver once more: one, or all that were given up."""

    event: str | None = None
    """Id of an event that the log has an attempt at."""
    given_up_since: datetime | None = None
    """All events that were given up from this time on, unless a later attempt succeeded."""


@dataclass(frozen=True, kw_only=True)
class WebhookRedrive:
    """Events to deliver again."""

    since: datetime | None = None
    """Start of the events to deliver, by time of decision, as far as events are kept. Default: those not delivered yet.
    """


@dataclass(frozen=True, kw_only=True)
class WebhookRotation:
    """A change of the secret."""

    overlap_seconds: int | None = None
    """Seconds during which events are also signed with the previous secret; default a day, at most 30 days."""


@dataclass(frozen=True, kw_only=True)
class WebhookTest:
    """Result of a test delivery."""

    delivered: bool
    """Whether the endpoint answered 2xx in time."""
    error: str | None = None
    """Error of a failed delivery."""


@dataclass(frozen=True, kw_only=True)
class WechatPayNotification:
    """Notification of WeChat Pay. Further fields are ignored."""

    event_type: str
    """Kind of the notification. Others than payments and refunds are acknowledged."""
    resource: Mapping[str, Any]
    """The encrypted transaction or refund. `attach` of a transaction is the id of the order."""


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """Withdrawal from an account."""

    reference: str
    """Reference of the payment service."""
    object: ObjectKind
    """`withdrawal`."""
    user: str
    """The user whose account was debited."""
    amount: Money
    """Its money."""
    created_at: datetime
    """Time of its posting."""


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """Units of a campaign that a repair has withheld."""

    epoch: str
    """The repair's epoch."""
    campaign: str
    """The campaign."""
    units: int
    """Number of units."""
    amount_minor: int
    """Value in minor units, for shares."""
    released_at: datetime | None = None
