//! What happened in a partition: the entries of its append-only log.

mod text;

pub use self::text::NotAnEntry;
use crate::{
    campaign::Terms,
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    order::ReturnPart,
    payment::{PaymentOutcome, PaymentState, Received},
    time::Timestamp,
};

/// The place of an entry in its partition's log, from 1, without gaps. 0 stands before the first.
pub type Seq = u64;

/// A partition: the unit of serialisation, placement and ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

/// One entry of a partition's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided, by the engine's clock. Not always increasing: clocks jump.
    pub at: Timestamp,
    /// The campaign it belongs to.
    pub campaign: CampaignId,
    /// What happened.
    pub event: Event,
}

/// What happened to a campaign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An engine took the campaign up.
    Opened {
        /// Over how many partitions the engine has spread it, 1 for most. Each of them says so in its own log, and
        /// opens, pauses, ends and closes its part for itself.
        parts: u16,
    },
    /// A claim was granted.
    Granted {
        /// The grant's number in its campaign, from 1.
        number: u32,
        /// Who has it.
        user: UserId,
        /// Units; 1 for a share.
        quantity: u32,
        /// Minor units: the share's money, or the price of the order.
        amount_minor: i64,
        /// The key of the request, if it had one.
        key: Option<IdempotencyKey>,
    },
    /// An order was paid during its hold; or in the step that granted it, because it costs nothing.
    Paid {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The money: the order's price, or another amount that the sale accepts.
        received: Received,
    },
    /// An order was given back; its units returned to the stock.
    Cancelled {
        /// The order's number in its campaign.
        number: u32,
    },
    /// An order was not paid in time; its units returned to the stock.
    Expired {
        /// The order's number in its campaign.
        number: u32,
    },
    /// A payment arrived after expiry and the units could be reserved again: the order is paid.
    Reinstated {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The money: the order's price, or another amount that the sale accepts.
        received: Received,
    },
    /// A payment arrived that does not pay the order (too late, cancelled, paid twice, or another amount): it is owed
    /// back.
    RefundDue {
        /// The order's number in its campaign.
        number: u32,
        /// The payment.
        payment: PaymentRef,
        /// The money that is owed back.
        received: Received,
    },
    /// An operator stopped the campaign.
    Paused,
    /// An operator let it go on.
    Resumed,
    /// Units left this partition's part of a spread campaign for another part.
    TransferredOut {
        /// The partition that they go to.
        to: PartitionId,
        /// How many.
        units: u64,
        /// What they are worth, where they are shares.
        amount_minor: i64,
    },
    /// Units arrived from another part of a spread campaign.
    TransferredIn {
        /// The partition that they come from.
        from: PartitionId,
        /// How many.
        units: u64,
        /// What they are worth, where they are shares.
        amount_minor: i64,
    },
    /// Units that had left came back: the other part had closed.
    TransferReturned {
        /// The partition that they did not go to.
        to: PartitionId,
        /// How many.
        units: u64,
        /// What they are worth, where they are shares.
        amount_minor: i64,
    },
    /// Nothing is handed out any more.
    Ended,
    /// What was left went back to the owner.
    Closed {
        /// Shares or units that went back.
        returned: u64,
        /// Minor units that went back.
        refunded_minor: i64,
    },
    /// A paid order was returned, or some of its units were: they are back in the stock, and what paid them is owed to
    /// the buyer.
    Returned {
        /// The order's number in its campaign.
        number: u32,
        /// The units; `None` for all that were not returned before.
        part: Option<ReturnPart>,
    },
    /// The seller changed the stock of a sale. Of a spread one it stands in the log of its first part, which gives or
    /// takes the units.
    StockChanged {
        /// Units that came to the stock, or, below 0, that were taken out of it.
        units: i64,
    },
    /// The seller changed window, limit or price of a sale. Of a spread one every part says so in its own log, from
    /// which on it goes by them.
    TermsChanged {
        /// Which of the sale's changes this is: the place of the entry in the log of its first part. The change with
        /// the highest one counts.
        revision: Seq,
        /// All terms from then on.
        terms: Terms,
    },
}

impl Event {
    /// The number of the order or share that it is about; none where it is about the campaign.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Granted { number, .. }
            | Self::Paid { number, .. }
            | Self::Cancelled { number }
            | Self::Expired { number }
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
            | Self::TermsChanged { .. } => None,
        }
    }

    /// The event of a payment.
    #[must_use]
    pub fn of_payment(number: u32, payment: PaymentRef, state: PaymentState) -> Self {
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

    /// The payment that it is about, with its outcome and money; `None` if it is about something else.
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

    /// The money of the payment that it is about; none where it is about something else.
    #[must_use]
    pub fn received(&self) -> Option<Received> {
        self.payment().map(|(_, state)| state.received)
    }

    /// The word for it, as in the ledger.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Granted { .. } => "granted",
            Self::Paid { .. } => "paid",
            Self::Cancelled { .. } => "cancelled",
            Self::Expired { .. } => "expired",
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
        }
    }
}
