//! Closed sets of API values. A value that this client does not know parses as `Other`, because services may be newer.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Error of an unknown text. It lists the known values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("choose one of {0}")]
pub struct UnknownWord(String);

macro_rules! words {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal,)* })*) => { $(
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $text)] $word,)*
            /// A value that this client does not know.
            #[serde(other, rename = "other")]
            Other,
        }

        impl $name {
            /// All known values.
            pub const KNOWN: &'static [Self] = &[$(Self::$word,)*];

            /// The value as in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => $text,)* Self::Other => "other" }
            }
        }

        #[cfg(feature = "service")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let description = concat!($($doc),*).trim();
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(description))
                    .enum_values(Some([$($text),*]))
                    .into()
            }
        }

        #[cfg(feature = "service")]
        impl utoipa::ToSchema for $name {}

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($text => Ok(Self::$word),)*
                    _ => Err(UnknownWord([$($text),*].join(", "))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    )* };
}

words! {
    /// Kind of an object.
    ObjectKind {
        /// A flash sale.
        Sale = "sale",
        /// A red packet.
        RedPacket = "red_packet",
        /// An order of a sale.
        Order = "order",
        /// A claimed share of a red packet.
        Claim = "claim",
        /// A payment that was reported for an order.
        Payment = "payment",
        /// Money from outside for a user's account.
        Deposit = "deposit",
        /// A reversal of a deposit.
        Reversal = "reversal",
        /// A reversal of a recorded refund.
        RefundReversal = "refund_reversal",
        /// Money that an operator moved from one user to another.
        Transfer = "transfer",
        /// Money that a user withdrew.
        Withdrawal = "withdrawal",
        /// A refund that was paid.
        Refund = "refund",
    }
    /// Kind of action.
    ActionKind {
        /// Money from outside was credited to an account.
        Deposit = "deposit",
        /// A campaign or a webhook was created.
        Create = "create",
        /// A campaign was changed.
        Change = "change",
        /// A campaign was paused.
        Pause = "pause",
        /// A campaign or a partition was resumed.
        Resume = "resume",
        /// A scheduled sale was started.
        Start = "start",
        /// A campaign was closed.
        Close = "close",
        /// A campaign was archived.
        Archive = "archive",
        /// A payment for an order was reported.
        Pay = "pay",
        /// A refund of an order was reported.
        Refund = "refund",
        /// Money was withdrawn from an account.
        Withdraw = "withdraw",
        /// A deposit or a recorded refund was reversed.
        Reverse = "reverse",
        /// Money was moved from one user's account to another's.
        Transfer = "transfer",
        /// An order was cancelled by another user than its buyer.
        Cancel = "cancel",
        /// The hold of an order was extended.
        ExtendHold = "extend_hold",
        /// An order was returned by another user than its buyer.
        Return = "return",
        /// A webhook was deleted.
        Delete = "delete",
        /// An entry or a webhook delivery was retried on request.
        Redrive = "redrive",
        /// A partition was repaired.
        Repair = "repair",
        /// A partition was reconciled with the ledger.
        Reconcile = "reconcile",
        /// Withheld units of a partition were released.
        Release = "release",
        /// An audit was started.
        Audit = "audit",
        /// A refused grant was discarded.
        Discard = "discard",
        /// A reconciler was run by an operator.
        Run = "run",
    }
    /// Readiness of a partition.
    ReadinessStatus {
        /// It grants.
        Ready = "ready",
        /// Some or all claims are refused temporarily.
        Degraded = "degraded",
        /// Nothing is granted.
        NotReady = "not_ready",
    }
    /// Result of a repair.
    RepairResult {
        /// Nothing was lost.
        Whole = "whole",
        /// Another process repairs the partition.
        Waiting = "waiting",
        /// The partition is repaired.
        Repaired = "repaired",
    }
    /// Status of an audit.
    AuditStatus {
        /// It is running.
        Running = "running",
        /// Every check passed.
        Ok = "ok",
        /// A check found breaches.
        Broken = "broken",
        /// It ended with an error.
        Failed = "failed",
    }
    /// Phase of a campaign.
    Phase {
        /// It is being created.
        Draft = "draft",
        /// It has not started.
        Scheduled = "scheduled",
        /// Claims are accepted.
        Live = "live",
        /// Grants are paused.
        Paused = "paused",
        /// No further claim is accepted; holds continue.
        Ended = "ended",
        /// Remaining shares or units were returned.
        Closed = "closed",
    }
    /// State of an order.
    OrderState {
        /// Reserved until it is paid or its hold ends.
        Held = "held",
        /// Paid.
        Paid = "paid",
        /// Cancelled on request; its units were restocked.
        Cancelled = "cancelled",
        /// Not paid in time; its units were restocked.
        Expired = "expired",
        /// Returned after payment; its units were restocked.
        Returned = "returned",
    }
    /// Acknowledgement level: the failure that a grant survives once it is acknowledged.
    AckLevel {
        /// A crash of a service node.
        Memory = "memory",
        /// The loss of the primary.
        Replica = "replica",
        /// `kill -9` and power loss.
        Fsync = "fsync",
        /// The loss of the engine.
        Ledger = "ledger",
    }
    /// Payments that pay an order of a sale although they differ from its price.
    PaymentPolicy {
        /// None. A different amount becomes a refund due.
        Owed = "owed",
        /// Any larger amount.
        AcceptOver = "accept_over",
        /// Amounts that differ from the price by at most the tolerance.
        AcceptWithTolerance = "accept_with_tolerance",
    }
    /// State of a queue entry.
    PlaceState {
        /// It waits.
        Waiting = "waiting",
        /// The claim was granted.
        Granted = "granted",
        /// No units were left.
        SoldOut = "sold_out",
        /// The user has reached the limit.
        LimitReached = "limit_reached",
        /// The campaign had ended.
        Ended = "ended",
        /// The campaign no longer exists.
        UnknownCampaign = "unknown_campaign",
        /// The key was used for a different request.
        KeyReused = "key_reused",
        /// The user has no queue entry; claim again.
        None = "none",
    }
    /// Outcome of a payment.
    PaymentOutcome {
        /// The payment paid the order.
        Paid = "paid",
        /// The order had expired and could be reserved again.
        Reinstated = "reinstated",
        /// The payment did not pay the order, and a refund is due.
        RefundDue = "refund_due",
    }
    /// Outcome of a reported payment.
    PaymentRecordOutcome {
        /// The payment paid the order.
        Paid = "paid",
        /// The order had expired and could be reserved again.
        Reinstated = "reinstated",
        /// The payment did not pay the order, and a refund is due.
        RefundDue = "refund_due",
        /// The report was refused; its money is not recorded.
        Refused = "refused",
    }
    /// Meaning of a refusal for the other campaigns of a batch.
    BatchMode {
        /// The others are created.
        Each = "each",
        /// None is created.
        All = "all",
    }
    /// Result of one creation of a batch.
    CreationResult {
        /// Created by this request.
        Created = "created",
        /// Created before, under the same key.
        Replayed = "replayed",
        /// Not created; the problem has the reason.
        Refused = "refused",
    }
    /// Kind of posting.
    PostingKind {
        /// Money from outside.
        Deposit = "deposit",
        /// Funding of a red packet.
        Fund = "fund",
        /// A share of a red packet.
        Grant = "grant",
        /// Refund of unclaimed shares of a red packet.
        Refund = "refund",
        /// Remainder that an earlier fault left in a red packet.
        Residue = "residue",
        /// Payment of an order, to its seller.
        Payment = "payment",
        /// Payment that bought nothing; it becomes a refund due.
        RefundDue = "refund_due",
        /// Price of a returned order, from the seller to the buyer's refunds due.
        Return = "return",
        /// Refund that was paid.
        RefundPaid = "refund_paid",
        /// Withdrawal from the account.
        Withdrawal = "withdrawal",
        /// Reversal of a deposit.
        Reversal = "reversal",
        /// Reversal of a recorded refund, which is due again.
        RefundReversal = "refund_reversal",
        /// Money that an operator moved from one user to another.
        Transfer = "transfer",
    }
    /// One of a user's two accounts in a currency.
    UserAccount {
        /// Money that the user can spend.
        Available = "available",
        /// Refunds due.
        RefundsDue = "refunds_due",
    }
    /// Requirement of a claim beside a token.
    Requirement {
        /// A grab ticket. The client gets it automatically.
        Ticket = "ticket",
        /// Approval of the order by the shop.
        OrderCheck = "order_check",
    }
    /// Condition for users to claim.
    AudienceKind {
        /// Users must be named.
        Users = "users",
        /// Users must present an invitation.
        Invitation = "invitation",
        /// Users must enter the passphrase.
        Passphrase = "passphrase",
    }
    /// Users who may see the claimed shares of a red packet.
    Draws {
        /// All users.
        Everybody = "everybody",
        /// Users who have a share, and the sender.
        Grabbers = "grabbers",
        /// Only the sender.
        Sender = "sender",
    }
    /// Look of a red packet's envelope on the pages.
    Cover {
        /// Red, without a picture.
        Classic = "classic",
        /// Plum blossoms.
        Blossom = "blossom",
        /// Lanterns.
        Lantern = "lantern",
        /// Clouds of good luck.
        Cloud = "cloud",
        /// Balloons, for a birthday.
        Birthday = "birthday",
        /// Double happiness, for a wedding.
        Wedding = "wedding",
    }
    /// Type of a webhook event.
    WebhookEventType {
        /// A user got a share of a red packet.
        ShareGranted = "share.granted",
        /// A user got an order of a sale. The order holds its units.
        OrderHeld = "order.held",
        /// An order was paid.
        OrderPaid = "order.paid",
        /// An order was cancelled.
        OrderCancelled = "order.cancelled",
        /// An order was not paid in time.
        OrderExpired = "order.expired",
        /// The seller extended the hold of an order.
        OrderHoldExtended = "order.hold_extended",
        /// A paid order was returned. Its price is a refund due.
        OrderReturned = "order.returned",
        /// A payment bought nothing and is a refund due.
        OrderRefundDue = "order.refund_due",
        /// A refund due was paid, completely or in part.
        OrderRefunded = "order.refunded",
        /// A campaign was opened: it takes claims in its window.
        CampaignOpened = "campaign.opened",
        /// The last unit or share of a campaign was granted.
        CampaignSoldOut = "campaign.sold_out",
        /// A campaign was changed, paused or resumed.
        CampaignChanged = "campaign.changed",
        /// A campaign was closed.
        CampaignClosed = "campaign.closed",
    }
    /// Delivery status of a webhook.
    WebhookStatus {
        /// The last delivery succeeded.
        Ok = "ok",
        /// Deliveries fail and are retried.
        Failing = "failing",
        /// Deliveries are disabled.
        Disabled = "disabled",
    }
    /// State of a webhook event after an attempt to deliver it.
    WebhookDeliveryState {
        /// The endpoint accepted the event.
        Delivered = "delivered",
        /// The attempt failed, and another one follows.
        Failed = "failed",
        /// The attempt failed, and no other one follows.
        GivenUp = "given_up",
    }
    /// Rule that splits a total into shares.
    SplitRuleName {
        /// Bell-shaped distribution around the mean.
        Normal = "normal",
        /// Each share is at most twice the mean of the remaining money.
        DoubleAverage = "double_average",
        /// Equal shares.
        Equal = "equal",
        /// Each share is drawn at its claim.
        Lazy = "lazy",
    }
}
