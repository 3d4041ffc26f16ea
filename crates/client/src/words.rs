//! Closed sets of words. A word that this client does not know reads as `Other`: services are newer than clients.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A text that is none of the words. It says which there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("choose one of {0}")]
pub struct UnknownWord(String);

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident = $text:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$word_doc])* #[serde(rename = $text)] $word,)*
            /// A word that this client does not know.
            #[serde(other, rename = "other")]
            Other,
        }

        impl $name {
            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => $text,)* Self::Other => "other" }
            }
        }

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
    /// What somebody did.
    ActionKind {
        /// Money from outside came into an account.
        Deposit = "deposit",
        /// A campaign or a webhook was made.
        Create = "create",
        /// It was changed.
        Change = "change",
        /// It was paused.
        Pause = "pause",
        /// It went on; also a partition.
        Resume = "resume",
        /// It was closed.
        Close = "close",
        /// It was archived.
        Archive = "archive",
        /// A payment for an order arrived.
        Pay = "pay",
        /// What was owed for an order was paid back.
        Refund = "refund",
        /// A user was paid out.
        Withdraw = "withdraw",
        /// A deposit was taken back.
        Reverse = "reverse",
        /// An order was cancelled by somebody else than its buyer.
        Cancel = "cancel",
        /// An order was taken back by somebody else than its buyer.
        Return = "return",
        /// A webhook was deleted.
        Delete = "delete",
        /// It was to be tried again, or told again.
        Redrive = "redrive",
        /// A partition was repaired.
        Repair = "repair",
        /// A partition was held against the ledger.
        Reconcile = "reconcile",
        /// What repairs withheld was given back.
        Release = "release",
        /// Everything was audited.
        Audit = "audit",
        /// A grant that the ledger refused was to be taken back.
        Discard = "discard",
        /// A reconciler was run by hand.
        Run = "run",
    }
    /// How ready a partition is.
    ReadinessStatus {
        /// It grants.
        Ready = "ready",
        /// Some or all claims are refused for a while.
        Degraded = "degraded",
        /// Nothing is granted.
        NotReady = "not_ready",
    }
    /// What a repair may come to.
    RepairResult {
        /// Nothing was lost.
        Whole = "whole",
        /// Another process repairs it.
        Waiting = "waiting",
        /// It is repaired.
        Repaired = "repaired",
    }
    /// How an audit stands.
    AuditStatus {
        /// It has not ended.
        Running = "running",
        /// Every check holds.
        Ok = "ok",
        /// A check does not hold.
        Broken = "broken",
        /// It could not be made.
        Failed = "failed",
    }
    /// Where a campaign is in its life.
    Phase {
        /// It is being made.
        Draft = "draft",
        /// It has not started.
        Scheduled = "scheduled",
        /// Claims are accepted.
        Live = "live",
        /// Nothing is granted for now.
        Paused = "paused",
        /// No claim is accepted any more; holds run on.
        Ended = "ended",
        /// What was left has gone back.
        Closed = "closed",
    }
    /// Where an order is in its life.
    OrderState {
        /// Reserved until it is paid, or its hold ends.
        Held = "held",
        /// Paid.
        Paid = "paid",
        /// Its units went back on demand.
        Cancelled = "cancelled",
        /// Its units went back because it was not paid in time.
        Expired = "expired",
        /// Its units came back after it was paid.
        Returned = "returned",
    }
    /// What a grant survives before it is acknowledged.
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
    /// Which payments pay an order of a sale, beside its price.
    PaymentPolicy {
        /// None: another amount is owed back.
        Owed = "owed",
        /// Each larger amount.
        AcceptOver = "accept_over",
        /// Amounts that differ from the price by at most the tolerance.
        AcceptWithTolerance = "accept_with_tolerance",
    }
    /// What became of a place in line.
    PlaceState {
        /// It waits.
        Waiting = "waiting",
        /// The claim was granted.
        Granted = "granted",
        /// Nothing was left.
        SoldOut = "sold_out",
        /// The user has as much as allowed.
        LimitReached = "limit_reached",
        /// The campaign had ended.
        Ended = "ended",
        /// There is no such campaign any more.
        UnknownCampaign = "unknown_campaign",
        /// The key was used for a different request.
        KeyReused = "key_reused",
        /// The user is not in line any more; claim again.
        None = "none",
    }
    /// What became of a payment.
    PaymentOutcome {
        /// It paid the order.
        Paid = "paid",
        /// The order had expired and could be reserved again.
        Reinstated = "reinstated",
        /// It did not pay the order and is owed back.
        RefundDue = "refund_due",
    }
    /// What became of one thing of several that were to be made.
    CreationResult {
        /// It was made now.
        Created = "created",
        /// It was made before, under the same key.
        Replayed = "replayed",
        /// It was not made; the problem says why.
        Refused = "refused",
    }
    /// Why money moved.
    PostingKind {
        /// It came from outside.
        Deposit = "deposit",
        /// It went into a red packet.
        Fund = "fund",
        /// A share of a red packet.
        Grant = "grant",
        /// What nobody took of a red packet.
        Refund = "refund",
        /// What an earlier fault had left in a red packet.
        Residue = "residue",
        /// An order was paid: to its seller.
        Payment = "payment",
        /// A payment that bought nothing is owed back.
        RefundDue = "refund_due",
        /// The price of a returned order: from its seller to what is owed to its buyer.
        Return = "return",
        /// What was owed was paid back.
        RefundPaid = "refund_paid",
        /// It was paid out.
        Withdrawal = "withdrawal",
        /// A deposit was taken back.
        Reversal = "reversal",
    }
    /// Which of a user's two accounts in a currency.
    UserAccount {
        /// What can be spent.
        Available = "available",
        /// Payments that are owed back.
        RefundsDue = "refunds_due",
    }
    /// What a claim needs beside a token.
    Requirement {
        /// A grab ticket. The client gets it by itself.
        Ticket = "ticket",
        /// That the shop allows the order.
        OrderCheck = "order_check",
    }
    /// Who may take part.
    AudienceKind {
        /// Users that are named.
        Users = "users",
        /// Whoever shows an invitation.
        Invitation = "invitation",
        /// Whoever says the passphrase.
        Passphrase = "passphrase",
    }
    /// Who may see the draws of a packet.
    Draws {
        /// Everybody.
        Everybody = "everybody",
        /// Those who have a share, and the sender.
        Grabbers = "grabbers",
        /// The sender alone.
        Sender = "sender",
    }
    /// What an event of a webhook is about.
    WebhookEventType {
        /// A user got a share of a red packet.
        ShareGranted = "share.granted",
        /// A user got an order of a sale, which holds its units.
        OrderHeld = "order.held",
        /// An order was paid.
        OrderPaid = "order.paid",
        /// An order was given back.
        OrderCancelled = "order.cancelled",
        /// An order was not paid in time.
        OrderExpired = "order.expired",
        /// A paid order was returned: its price is owed to the buyer.
        OrderReturned = "order.returned",
        /// A payment arrived that buys nothing: it is owed to the buyer.
        OrderRefundDue = "order.refund_due",
        /// What was owed for an order was paid back, all of it or a part.
        OrderRefunded = "order.refunded",
        /// A campaign was closed.
        CampaignClosed = "campaign.closed",
    }
    /// How the endpoint of a webhook stands.
    WebhookStatus {
        /// What it was sent got through.
        Ok = "ok",
        /// Nothing gets through; it is tried again.
        Failing = "failing",
        /// It is not tried any more.
        Disabled = "disabled",
    }
    /// How a total becomes shares.
    SplitRuleName {
        /// Bell-shaped around the mean.
        Normal = "normal",
        /// Each share up to twice the mean of what remains.
        DoubleAverage = "double_average",
        /// All the same.
        Equal = "equal",
        /// Drawn at the claim.
        Lazy = "lazy",
    }
}
