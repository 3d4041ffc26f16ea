//! Commands to a book, and its replies.

use crate::{
    campaign::{Campaign, CampaignError, CampaignKind, Tally, Terms, TermsChange, TransitionError},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    order::{OrderState, OrderStepError, REFUNDS_DUE_MAX, ReturnPart},
    outcome::Grant,
    payment::{PaymentOutcome, Received},
    time::Timestamp,
};

/// A user's attempt to get something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// From which campaign.
    pub campaign: CampaignId,
    /// What the user takes it for; a campaign of the other kind is unknown.
    pub kind: CampaignKind,
    /// Who claims.
    pub user: UserId,
    /// Units, at least 1; always 1 for a red packet.
    pub quantity: u32,
    /// The request's idempotency key.
    pub key: Option<IdempotencyKey>,
}

/// A campaign as an engine opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The campaign.
    pub campaign: Campaign,
    /// The shares' amounts in the order in which they are handed out; empty for sales and lazy packets.
    pub shares: Vec<i64>,
}

/// What an operator does to a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignAction {
    /// Stop granting for now.
    Pause,
    /// Grant again.
    Resume,
    /// End now, and give back what is left.
    Close,
}

/// A change of a sale that reconciliation makes: it is refused if the sale is not as it was compared.
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
        expected: Terms,
        /// What changes.
        change: TermsChange,
    },
}

/// Anything that a partition does beside deciding claims: those have [`Book::claim`](super::Book::claim) and
/// [`Engine::claim`](crate::ports::Engine::claim) alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Open a campaign. Doing it again changes nothing.
    Open(Box<Setup>),
    /// A payment arrived for an order.
    Pay {
        /// The order.
        order: OrderId,
        /// The payment; the same one twice is a replay, another one is owed back.
        payment: PaymentRef,
        /// When it was made; none: just now. An order whose hold had ended by then expires first.
        paid_at: Option<Timestamp>,
        /// The money. The price, and an accepted amount, pay the order. Other money is owed back; the order stays as it
        /// is.
        received: Received,
    },
    /// Give an order's units back. One that costs nothing is paid: it is returned.
    Cancel {
        /// The order.
        order: OrderId,
    },
    /// Pause, resume or close a campaign.
    Act {
        /// The campaign.
        campaign: CampaignId,
        /// What to do.
        action: CampaignAction,
    },
    /// Do what the time has made due: end windows, close campaigns, expire holds whose [`Grace`](super::Grace) is over.
    Tick {
        /// At most about this many events; the reply says whether more is due.
        events_max: usize,
    },
    /// Return a paid order, or some units of it: they are back in the stock, and what paid them, if anything did, is
    /// owed to the buyer.
    Return {
        /// The order.
        order: OrderId,
        /// The units; `None` for all that were not returned before.
        part: Option<ReturnPart>,
    },
    /// Raise or lower the stock of a sale that is not over. The same stock again changes nothing.
    SetStock {
        /// The sale.
        campaign: CampaignId,
        /// Units for sale in all, those that users have included.
        stock: u64,
    },
    /// Change window, limit or price of a sale that is not over. The same again changes nothing.
    SetTerms {
        /// The sale.
        campaign: CampaignId,
        /// What to change.
        change: TermsChange,
    },
    /// Change stock or terms of a sale that is as reconciliation has compared it.
    Correct {
        /// The sale.
        campaign: CampaignId,
        /// What it must have, and what to change. In another state it is refused as [`Refusal::Changed`].
        correction: Box<SaleCorrection>,
    },
}

/// An order and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderView {
    /// The buyer.
    pub user: UserId,
    /// The grant, with its order.
    pub grant: Grant,
}

impl OrderView {
    /// Whether the order costs nothing and is paid, or was and is returned: payments of nothing change nothing of it,
    /// and it is cancelled by being returned.
    #[must_use]
    pub fn is_paid_for_nothing(&self) -> bool {
        let order = self.grant.order.filter(|_| self.grant.amount_minor == 0);
        order.is_some_and(|order| matches!(order.state, OrderState::Paid | OrderState::Returned))
    }
}

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To `Open`.
    Opened,
    /// To `Pay`.
    Payment(PaymentOutcome, OrderView),
    /// To `Cancel`.
    Cancelled(OrderView),
    /// To `Act`, `SetStock`, `SetTerms` and `Correct`: the campaign's numbers afterwards.
    Acted(Tally),
    /// To `Tick`.
    Ticked {
        /// Whether more is due at once.
        more: bool,
    },
    /// To `Return`.
    Returned(OrderView),
}

/// Why a claim or command is refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such campaign.
    #[error("there is no such campaign")]
    UnknownCampaign,
    /// No such order.
    #[error("there is no such order")]
    UnknownOrder,
    /// The claim is for no unit.
    #[error("a claim is for at least 1 unit")]
    NothingAsked,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used before, for a different request")]
    KeyReused,
    /// The user waits in line with another order.
    #[error("the user waits in line with another order, and keeps that place")]
    WaitsWithAnother,
    /// The campaign's phase does not allow it.
    #[error(transparent)]
    Phase(#[from] TransitionError),
    /// The order's state does not allow it.
    #[error(transparent)]
    Order(#[from] OrderStepError),
    /// More units are to be returned than the order has left.
    #[error("{left} units of the order can be returned")]
    ReturnTooLarge {
        /// Units that were not returned.
        left: u32,
    },
    /// The order has the largest number of payments that are owed back or were. This one would be another.
    #[error("{REFUNDS_DUE_MAX} payments of this order are owed back or were, and no more can be")]
    TooManyPayments,
    /// The stock cannot be so small: users have more units, or there are units that a repair withholds.
    #[error(
        "the stock cannot be less than the {least} units that users have, or may have been told that they have"
    )]
    StockGranted {
        /// The smallest stock at that moment.
        least: u64,
    },
    /// The campaign's rules do not allow it.
    #[error(transparent)]
    Rules(#[from] CampaignError),
    /// The sale has other stock or terms than a correction expects.
    #[error("another change of the sale came first")]
    Changed,
}
