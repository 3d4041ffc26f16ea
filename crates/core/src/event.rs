//! Events of a partition: the entries of its append-only log.

mod text;

use uuid::Uuid;

pub use self::text::NotAnEntry;
use crate::{
    campaign::SaleSettings,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::ReturnPart,
    payment::{PaymentOutcome, PaymentState, ReceivedMoney},
    time::Timestamp,
};

/// Position of an entry in its partition's log, from 1, without gaps. 0 precedes the first entry.
pub type Seq = u64;

/// A partition: the unit of serialisation, placement and ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

/// One entry of a partition's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its position in the log.
    pub seq: Seq,
    /// Time of the decision, by the engine's clock. It does not always increase, because clocks jump.
    pub at: Timestamp,
    /// The campaign it belongs to.
    pub campaign: CampaignId,
    /// Change that was decided.
    pub event: Event,
}

/// Change of a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An engine opened the campaign.
    Opened {
        /// Number of partitions on which the engine has a shard of it; 1 for most campaigns. Each partition logs this
        /// event, and opens, pauses, ends and closes its shard independently.
        parts: u16,
    },
    /// A claim was granted.
    Granted {
        /// The grant's number in its campaign, from 1.
        number: u32,
        /// User who has it.
        user: UserId,
        /// Units; 1 for a share.
        quantity: u32,
        /// Minor units: the share's money, or the price of the order.
        amount_minor: i64,
        /// The key of the request, if it had one.
        key: Option<IdempotencyKey>,
    },
    /// An order was paid during its hold, or by the step that granted it, because it costs nothing.
    Paid {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The money: the order's price, or another amount that the sale accepts.
        received: ReceivedMoney,
    },
    /// An order was cancelled; its units were restocked.
    Cancelled {
        /// The order's number in its campaign.
        number: u32,
    },
    /// Some units of a held order were cancelled and restocked. The order stays held: it has fewer units now, and costs
    /// less by their price.
    PartCancelled {
        /// The order's number in its campaign.
        number: u32,
        /// The units, fewer than the order had.
        part: ReturnPart,
    },
    /// An order was not paid in time; its units were restocked.
    Expired {
        /// The order's number in its campaign.
        number: u32,
    },
    /// The seller extended the hold of an order, once: it ends later by this time.
    HoldExtended {
        /// The order's number in its campaign.
        number: u32,
        /// Milliseconds, at least 1 and at most the hold of the sale.
        extension_ms: i64,
    },
    /// A payment arrived after expiry and the units could be reserved again: the order is paid.
    Reinstated {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The money: the order's price, or another amount that the sale accepts.
        received: ReceivedMoney,
    },
    /// A payment was received that does not pay the order: too late, cancelled, paid twice, or another amount. A refund
    /// of it is due.
    RefundDue {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The refund due.
        received: ReceivedMoney,
    },
    /// An operator paused the campaign.
    Paused,
    /// An operator resumed the campaign.
    Resumed,
    /// Units left this partition's shard of a campaign for another shard.
    TransferredOut {
        /// Partition that receives them.
        to: PartitionId,
        /// Number of units.
        units: u64,
        /// Their amount, if they are shares.
        amount_minor: i64,
    },
    /// Units arrived from another shard of the campaign.
    TransferredIn {
        /// Partition that sent them.
        from: PartitionId,
        /// Number of units.
        units: u64,
        /// Their amount, if they are shares.
        amount_minor: i64,
    },
    /// Units in transfer returned, because the other shard had closed.
    TransferReturned {
        /// Partition that did not receive them.
        to: PartitionId,
        /// Number of units.
        units: u64,
        /// Their amount, if they are shares.
        amount_minor: i64,
    },
    /// The campaign ended: no claim is granted from then on.
    Ended,
    /// The campaign closed: the rest went back to the owner.
    Closed {
        /// Shares or units that went back.
        returned: u64,
        /// Minor units that went back.
        refunded_minor: i64,
    },
    /// A paid order, or some of its units, was returned. The units were restocked, and a refund of their payment is due
    /// to the buyer.
    Returned {
        /// The order's number in its campaign.
        number: u32,
        /// The units; `None` for all units that were not returned before.
        part: Option<ReturnPart>,
    },
    /// The seller changed the stock of a sale. If the sale has shards, the entry is in the log of its first shard,
    /// which adds or removes the units.
    StockChanged {
        /// Units added to the stock; below 0 if they were removed.
        units: i64,
    },
    /// The seller changed window, limit or price of a sale. If the sale has shards, each shard logs the change, and
    /// applies the terms from that entry on.
    TermsChanged {
        /// Number of the change: the position of its entry in the log of the first shard. The change with the highest
        /// number applies.
        revision: Seq,
        /// All terms from then on.
        terms: SaleSettings,
    },
    /// A change of a campaign under an idempotency key was carried out. The entry is in the same atomic step as the
    /// change's last one, also if the campaign already had the requested values. If the campaign has shards, the entry
    /// is in the log of its first shard.
    ChangeMade {
        /// Id to which the key was bound.
        id: Uuid,
    },
}

impl Event {
    /// Number of the order or the share; `None` for an event of the whole campaign.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Granted { number, .. }
            | Self::Paid { number, .. }
            | Self::Cancelled { number }
            | Self::PartCancelled { number, .. }
            | Self::Expired { number }
            | Self::HoldExtended { number, .. }
            | Self::Reinstated { number, .. }
            | Self::RefundDue { number, .. }
            | Self::Returned { number, .. } => Some(*number),
            Self::Opened { .. }
            | Self::TransferredOut { .. }
            | Self::TransferredIn { .. }
            | Self::TransferReturned { .. }
            | Self::Paused
            | Self::Resumed
            | Self::Ended
            | Self::Closed { .. }
            | Self::StockChanged { .. }
            | Self::TermsChanged { .. }
            | Self::ChangeMade { .. } => None,
        }
    }

    /// The event of a payment.
    #[must_use]
    pub fn payment_recorded(number: u32, payment: PaymentRef, state: PaymentState) -> Self {
        let PaymentState { outcome, received } = PaymentState::new(state.outcome, state.received);
        match outcome {
            PaymentOutcome::Paid => Self::Paid {
                number,
                payment,
                received,
            },
            PaymentOutcome::Reinstated => Self::Reinstated {
                number,
                payment,
                received,
            },
            PaymentOutcome::RefundDue => Self::RefundDue {
                number,
                payment,
                received,
            },
        }
    }

    /// The payment with its outcome and money; `None` for an event without one.
    #[must_use]
    pub fn payment(&self) -> Option<(&PaymentRef, PaymentState)> {
        let (outcome, payment, received) = match self {
            Self::Paid {
                payment, received, ..
            } => (PaymentOutcome::Paid, payment, received),
            Self::Reinstated {
                payment, received, ..
            } => (PaymentOutcome::Reinstated, payment, received),
            Self::RefundDue {
                payment, received, ..
            } => (PaymentOutcome::RefundDue, payment, received),
            _ => return None,
        };
        Some((payment, PaymentState::new(outcome, *received)))
    }

    /// Money of the payment; `None` for an event without one.
    #[must_use]
    pub fn received(&self) -> Option<ReceivedMoney> {
        self.payment().map(|(_, state)| state.received)
    }

    /// Name of the event, as in the ledger.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Granted { .. } => "granted",
            Self::Paid { .. } => "paid",
            Self::Cancelled { .. } => "cancelled",
            Self::PartCancelled { .. } => "part_cancelled",
            Self::Expired { .. } => "expired",
            Self::HoldExtended { .. } => "hold_extended",
            Self::Reinstated { .. } => "reinstated",
            Self::RefundDue { .. } => "refund_due",
            Self::TransferredOut { .. } => "transferred_out",
            Self::TransferredIn { .. } => "transferred_in",
            Self::TransferReturned { .. } => "transfer_returned",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Ended => "ended",
            Self::Closed { .. } => "closed",
            Self::Returned { .. } => "returned",
            Self::StockChanged { .. } => "stock_changed",
            Self::TermsChanged { .. } => "terms_changed",
            Self::ChangeMade { .. } => "change_made",
        }
    }
}
