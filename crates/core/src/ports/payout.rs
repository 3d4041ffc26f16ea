//! Money that leaves Qiang: refunds that are made, withdrawals, deposits that are reversed.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    id::{IdempotencyKey, OrderId, PaymentRef, UserId},
    money::Money,
    time::Timestamp,
    words::words,
};

/// A payment to somebody outside. What names it stands for it for good: repeated, it is the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payout {
    /// What is owed for an order was paid back to its buyer, all of it or a part. Named by the payment's reference.
    Refund {
        /// The order.
        order: OrderId,
        /// The payment service's name for it.
        reference: PaymentRef,
        /// How much.
        amount: Money,
    },
    /// A user was paid out what the user could spend. Named by the payment's reference.
    Withdrawal {
        /// The user.
        user: UserId,
        /// The payment service's name for it.
        reference: PaymentRef,
        /// How much.
        amount: Money,
    },
    /// A deposit went back to where it came from: a part of it, or all that is left of it. Named by the deposit; a part
    /// by the deposit and its key.
    Reversal {
        /// Whose deposit it was.
        user: UserId,
        /// The deposit.
        deposit: Uuid,
        /// The part; `None` for all that is left of the deposit.
        part: Option<ReversalPart>,
    },
}

/// A part of a deposit that goes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReversalPart {
    /// Names it among the parts of its deposit: at most 64 characters, so that references stay short.
    pub key: IdempotencyKey,
    /// How much.
    pub amount: Money,
}

/// What a payout is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayoutKind {
    /// See [`Payout::Refund`].
    Refund,
    /// See [`Payout::Withdrawal`].
    Withdrawal,
    /// See [`Payout::Reversal`].
    Reversal,
}

words!(PayoutKind { Refund = "refund_paid", Withdrawal = "withdrawal", Reversal = "reversal" });

impl Payout {
    /// Range of the references of all reversals of a deposit: the first one, and the first behind the last.
    #[must_use]
    pub fn reversals_of(deposit: Uuid) -> [String; 2] {
        // '0' follows '/' in ASCII, and each id has the same length.
        [deposit.to_string(), format!("{deposit}0")]
    }

    /// What it is for: also the kind of its posting.
    #[must_use]
    pub fn kind(&self) -> PayoutKind {
        match self {
            Self::Refund { .. } => PayoutKind::Refund,
            Self::Withdrawal { .. } => PayoutKind::Withdrawal,
            Self::Reversal { .. } => PayoutKind::Reversal,
        }
    }

    /// What names it among those of its kind.
    #[must_use]
    pub fn reference(&self) -> String {
        match self {
            Self::Refund { reference, .. } | Self::Withdrawal { reference, .. } => {
                reference.to_string()
            }
            Self::Reversal { deposit, part, .. } => match part {
                Some(ReversalPart { key, .. }) => format!("{deposit}/{key}"),
                None => deposit.to_string(),
            },
        }
    }
}

/// A payout that is in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaidOut {
    /// How much.
    pub amount: Money,
    /// When it was posted.
    pub at: Timestamp,
    /// Whether it was posted just now.
    pub fresh: bool,
}

/// What the buyer of an order is owed in one currency, as settled, and what of it was paid back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The buyer.
    pub user: UserId,
    /// All that ever was owed for the order in this currency: payments that did not pay it, and what paid its returned
    /// units.
    pub due: Money,
    /// Minor units of it that were paid back.
    pub refunded_minor: i64,
}

impl Owed {
    /// What is still owed.
    #[must_use]
    pub fn left(&self) -> Money {
        Money::new(self.due.minor - self.refunded_minor, self.due.currency)
    }
}

/// Which orders to list of those that something is still owed for, in the order of their sales and numbers, and where
/// the page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedQuery {
    /// Of sales of this seller; of everybody's if there is none.
    pub owner: Option<UserId>,
    /// Behind this one.
    pub after: Option<OrderId>,
    /// At most so many.
    pub limit: u32,
}

impl OwedQuery {
    /// The seller, or an empty text; the campaign and the number that the page is behind.
    #[must_use]
    pub fn begins(&self) -> (&str, String, i64) {
        let owner = self.owner.as_ref().map_or("", UserId::as_str);
        let campaign = self.after.map(|after| after.campaign.to_string());
        let number = self.after.map_or(0, |after| after.number);
        (owner, campaign.unwrap_or_default(), number.into())
    }
}

/// An order that something is still owed for in one currency, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwedOrder {
    /// The order.
    pub order: OrderId,
    /// What was ever owed, and what of it was paid back.
    pub owed: Owed,
}

/// Payments to the outside.
#[async_trait]
pub trait PayoutStore: Send + Sync + 'static {
    /// Posts a payout, and writes the action down, once. It takes what is there and no more.
    ///
    /// # Errors
    /// [`LedgerError::ReferenceUsed`] if its reference stands for another payout, [`LedgerError::NotOwed`] if a refund
    /// is more than is still owed for the order, [`LedgerError::InsufficientFunds`] if the user's account holds less,
    /// [`LedgerError::UnknownDeposit`] if the user has no such deposit, [`LedgerError::DepositExceeded`] if less of the
    /// deposit is left, and [`LedgerError::AmountOutOfRange`].
    async fn pay_out_by(
        &self,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PaidOut, LedgerError>;

    /// The same without an action.
    async fn pay_out(&self, payout: &Payout) -> Result<PaidOut, LedgerError> {
        self.pay_out_by(payout, None).await
    }

    /// What the buyer of an order is owed: first in the sale's currency, then in others that payments came in. Empty if
    /// the ledger does not have the order.
    async fn owed(&self, order: OrderId) -> Result<Vec<Owed>, LedgerError>;

    /// A page of the orders that something is still owed for. An order appears once per currency, and the limit counts
    /// it once.
    async fn owed_orders(&self, query: &OwedQuery) -> Result<Vec<OwedOrder>, LedgerError>;
}
