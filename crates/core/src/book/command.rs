//! Commands to a book, and their replies.

use uuid::Uuid;

use crate::{
    campaign::{
        Campaign, CampaignError, CampaignKind, SaleSettings, SaleSettingsChange, Tally,
        TransitionError,
    },
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    order::{
        EXTENDED_HOLDS_MAX, OrderState, OrderStepError, REFUNDS_DUE_MAX, RETURNS_MAX, ReturnPart,
    },
    outcome::Grant,
    payment::{PaymentOutcome, ReceivedMoney},
    time::Timestamp,
};

/// A user's claim of a share or of units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Campaign that the user claims from.
    pub campaign: CampaignId,
    /// Kind that the user expects. If the campaign is of the other kind, it counts as unknown.
    pub kind: CampaignKind,
    /// User who claims.
    pub user: UserId,
    /// Units, at least 1; always 1 for a red packet.
    pub quantity: u32,
    /// The request's idempotency key.
    pub key: Option<IdempotencyKey>,
}

/// A campaign with its shares, in the form in which an engine opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The campaign.
    pub campaign: Campaign,
    /// Amounts of the shares in the order in which they are granted; empty for sales and lazy red packets.
    pub shares: Vec<i64>,
}

/// Action of an operator on a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignAction {
    /// Pause: grant no claims for now.
    Pause,
    /// Resume: grant claims again, or wait for the start if the window has not started.
    Resume,
    /// Start a scheduled sale now: its window begins at this moment.
    Start,
    /// End now, and return the rest to the owner.
    Close,
}

/// A change of a sale by reconciliation, or by a request with a condition. It is refused if the sale has changed since
/// the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaleCorrection {
    /// Sets the stock.
    Stock {
        /// The stock that the sale must have.
        expected: u64,
        /// The stock that it gets.
        stock: u64,
    },
    /// Changes terms.
    Terms {
        /// The terms that the sale must have.
        expected: SaleSettings,
        /// Change of the terms.
        change: SaleSettingsChange,
    },
}

/// All commands of a partition except claims. Claims are decided only by [`Book::claim`](super::Book::claim) and
/// [`Engine::claim`](crate::ports::Engine::claim).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Open a campaign. Idempotent.
    Open(Box<Setup>),
    /// Record a payment for an order.
    Pay {
        /// The order.
        order: OrderId,
        /// Reference of the payment. A repeated reference is a replay; a refund of any further payment is due.
        payment: PaymentRef,
        /// Time of the payment; `None` for now. If the order's hold had ended by then, the order expires first.
        paid_at: Option<Timestamp>,
        /// Money of the payment. The price or an accepted amount pays the order. For other money a refund is due, and
        /// the order does not change.
        received: ReceivedMoney,
        /// Units of the order that were cancelled when the money was compared with its price. If it has other cancelled
        /// units now, the command is refused as [`Refusal::OrderChanged`]. The money of an order with cancelled units
        /// is never [`ReceivedMoney::Price`], so that entries name it.
        cancelled: u32,
    },
    /// Cancel a held order, or some of its units, and restock them. An order that costs nothing is already paid, so it
    /// is returned.
    Cancel {
        /// The order.
        order: OrderId,
        /// The units; `None` for all units that the order has. If these are all its units, the order is cancelled.
        part: Option<ReturnPart>,
    },
    /// Extend the hold of a held order, once. The same extension again changes nothing.
    ExtendHold {
        /// The order.
        order: OrderId,
        /// Milliseconds after the present end of the hold: at least 1, and at most the hold of the sale.
        extension_ms: i64,
    },
    /// Pause, resume, start or close a campaign.
    Act {
        /// The campaign.
        campaign: CampaignId,
        /// Requested action.
        action: CampaignAction,
    },
    /// Apply changes that are due by time: end windows, close campaigns, and expire holds after their
    /// [`Grace`](super::Grace).
    Tick {
        /// Approximate maximum of events. The reply reports whether more changes are due.
        events_max: usize,
    },
    /// Return a paid order, or some of its units: they are restocked, and a refund of their payment, if any, is due to
    /// the buyer.
    Return {
        /// The order.
        order: OrderId,
        /// The units; `None` for all units that were not returned before.
        part: Option<ReturnPart>,
    },
    /// Raise or lower the stock of a sale that has not ended. A repeated command changes nothing.
    SetStock {
        /// The sale.
        campaign: CampaignId,
        /// Total units for sale, including units that users have.
        stock: u64,
    },
    /// Change window, limit or price of a sale that has not ended. A repeated command changes nothing.
    SetTerms {
        /// The sale.
        campaign: CampaignId,
        /// Change of the terms.
        change: SaleSettingsChange,
    },
    /// Change the stock and the terms of a sale that has not ended, in one step. A repeated command changes nothing.
    SetSale {
        /// The sale.
        campaign: CampaignId,
        /// Total units for sale, including units that users have.
        stock: u64,
        /// Change of the terms.
        change: SaleSettingsChange,
    },
    /// Correct stock or terms of a sale that has not changed since it was compared.
    Correct {
        /// The sale.
        campaign: CampaignId,
        /// Expected state and correction. In another state the command is refused as [`Refusal::Changed`].
        correction: Box<SaleCorrection>,
    },
    /// Change a campaign under an idempotency key. The step that carries it out also logs
    /// [`Event::ChangeMade`](crate::event::Event::ChangeMade).
    Keyed {
        /// Id to which the key was bound.
        id: Uuid,
        /// `Act`, `SetStock`, `SetTerms`, `SetSale` or `Correct`.
        change: Box<Command>,
    },
}

impl Command {
    /// The command under an idempotency key that is bound to `id`. Only `Act`, `SetStock`, `SetTerms`, `SetSale`
    /// and `Correct` have one.
    #[must_use]
    pub fn keyed(self, id: Uuid) -> Self {
        match self {
            Self::Act { .. }
            | Self::SetStock { .. }
            | Self::SetTerms { .. }
            | Self::SetSale { .. }
            | Self::Correct { .. } => Self::Keyed {
                id,
                change: Box::new(self),
            },
            other => other,
        }
    }

    /// The command without its key.
    #[must_use]
    pub fn without_key(&self) -> &Self {
        match self {
            Self::Keyed { change, .. } => change.without_key(),
            plain => plain,
        }
    }

    /// The command without its key, and the id to which the key is bound.
    #[must_use]
    pub fn into_parts(self) -> (Self, Option<Uuid>) {
        match self {
            Self::Keyed { id, change } => (*change, Some(id)),
            plain => (plain, None),
        }
    }

    /// The campaign that the command is about; `None` for a tick.
    #[must_use]
    pub fn campaign(&self) -> Option<CampaignId> {
        match self {
            Self::Open(setup) => Some(setup.campaign.id),
            Self::Pay { order, .. }
            | Self::Cancel { order, .. }
            | Self::ExtendHold { order, .. }
            | Self::Return { order, .. } => Some(order.campaign),
            Self::Act { campaign, .. }
            | Self::SetStock { campaign, .. }
            | Self::SetTerms { campaign, .. }
            | Self::SetSale { campaign, .. }
            | Self::Correct { campaign, .. } => Some(*campaign),
            Self::Keyed { change, .. } => change.campaign(),
            Self::Tick { .. } => None,
        }
    }
}

/// An order and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderView {
    /// The buyer.
    pub user: UserId,
    /// The grant, with its order.
    pub grant: Grant,
}

impl OrderView {
    /// Whether the order costs nothing and is paid or returned. A payment of its price does not change it, and a
    /// cancellation returns it.
    #[must_use]
    pub fn is_paid_for_nothing(&self) -> bool {
        let order = self.grant.order.filter(|_| self.grant.amount_minor == 0);
        order.is_some_and(|order| matches!(order.state, OrderState::Paid | OrderState::Returned))
    }
}

/// Reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Reply to `Open`.
    Opened,
    /// Reply to `Pay`.
    Payment(PaymentOutcome, OrderView),
    /// Reply to `Cancel`.
    Cancelled(OrderView),
    /// Reply to `Act`, `SetStock`, `SetTerms`, `SetSale` and `Correct`: the campaign's counters afterwards.
    Acted(Tally),
    /// Reply to `Tick`.
    Ticked {
        /// Whether more changes are already due.
        more: bool,
    },
    /// Reply to `Return`.
    Returned(OrderView),
    /// Reply to `ExtendHold`.
    HoldExtended(OrderView),
}

/// Reason why a claim or a command is refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such campaign.
    #[error("there is no such campaign")]
    UnknownCampaign,
    /// No such order.
    #[error("there is no such order")]
    UnknownOrder,
    /// The claim has quantity 0.
    #[error("a claim is for at least 1 unit")]
    NothingAsked,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used before, for a different request")]
    KeyReused,
    /// The user waits in the queue with another order.
    #[error("the user already waits in the queue with another order")]
    WaitsWithAnother,
    /// The campaign's phase does not allow the command.
    #[error(transparent)]
    Phase(#[from] TransitionError),
    /// The order's state does not allow the command.
    #[error(transparent)]
    Order(#[from] OrderStepError),
    /// The return exceeds the order's units that are not returned yet.
    #[error("{left} units of the order can be returned")]
    ReturnTooLarge {
        /// Units that are not returned yet.
        left: u32,
    },
    /// The cancellation exceeds the units that the held order has.
    #[error("{left} units of the order can be cancelled")]
    CancelTooLarge {
        /// Units that it has.
        left: u32,
    },
    /// The hold was already extended, by another time.
    #[error("the hold of this order was already extended by {extension_ms} ms")]
    AlreadyExtended {
        /// Milliseconds of the extension.
        extension_ms: i64,
    },
    /// The hold has ended, so it cannot be extended.
    #[error("the hold of this order has ended")]
    HoldOver,
    /// The extension is not within its bounds.
    #[error("a hold of this sale can be extended by 1 to {max_ms} ms")]
    ExtensionOutOfRange {
        /// Longest extension in milliseconds.
        max_ms: i64,
    },
    /// The sale has the maximum number of extended holds.
    #[error("{EXTENDED_HOLDS_MAX} holds of this sale are extended, which is the maximum")]
    TooManyExtensions,
    /// Units of the order were cancelled after a payment's money was compared with its price.
    #[error("units of the order were cancelled since its price was compared")]
    OrderChanged,
    /// The order already has the maximum number of partial cancellations and returns.
    #[error(
        "{RETURNS_MAX} parts of this order were cancelled or returned: the rest can be so whole"
    )]
    TooManyReturns,
    /// The order already has the maximum number of payments with a refund due, including refunded ones. This payment
    /// would be one more.
    #[error("{REFUNDS_DUE_MAX} payments of this order needed a refund, which is the maximum")]
    TooManyPayments,
    /// The new stock is too small: users have more units, or a repair withholds units.
    #[error(
        "the stock cannot be less than the {least} units that users have or that repairs withhold"
    )]
    StockGranted {
        /// Smallest possible stock at that moment.
        least: u64,
    },
    /// The campaign's rules do not allow the command.
    #[error(transparent)]
    Rules(#[from] CampaignError),
    /// The sale's stock or terms differ from the values that a correction expects.
    #[error("the sale has changed since it was compared")]
    Changed,
}
