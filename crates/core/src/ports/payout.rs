//! Money that leaves Qiang: refunds, withdrawals and reversals of deposits. A reversed refund is due
//! again. A transfer stays inside, and moves between two users.

use async_trait::async_trait;
use uuid::Uuid;

use super::{Action, LedgerError};
use crate::{
    id::{IdempotencyKey, OrderId, PaymentRef, UserId},
    money::Money,
    string_enum::string_enum,
    time::Timestamp,
};

/// A payment to the outside, or what an operator moves under a reference like one. The reference identifies it
/// permanently: a repeated payout is the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payout {
    /// All or part of the refund due for an order was paid to its buyer. Identified by the payment's reference.
    Refund {
        /// The order.
        order: OrderId,
        /// Reference of the payment at the payment service.
        reference: PaymentRef,
        /// Amount paid.
        amount: Money,
    },
    /// A user withdrew available money. Identified by the payment's reference.
    Withdrawal {
        /// The user.
        user: UserId,
        /// Reference of the payment at the payment service.
        reference: PaymentRef,
        /// Amount paid.
        amount: Money,
    },
    /// A recorded refund was not paid, or was returned: its money is due to the buyer again. Identified by the
    /// reference of the refund, which is reversed once and whole.
    RefundReversal {
        /// The order.
        order: OrderId,
        /// Reference of the refund.
        reference: PaymentRef,
    },
    /// An operator moved available money of one user to another, such as that of a seller who has left. Identified by
    /// the operator's reference.
    Transfer {
        /// User who has the money.
        user: UserId,
        /// User who gets it.
        to: UserId,
        /// The operator's reference.
        reference: PaymentRef,
        /// Amount moved.
        amount: Money,
    },
    /// All or part of the rest of a deposit went back to its source. Identified by the deposit; a part also by its key.
    Reversal {
        /// Owner of the deposit.
        user: UserId,
        /// The deposit.
        deposit: Uuid,
        /// Part to reverse; `None` for the rest of the deposit.
        part: Option<ReversalPart>,
    },
}

/// A part of a deposit to reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReversalPart {
    /// Identifies it among the parts of its deposit: at most 64 characters, so that references stay short.
    pub key: IdempotencyKey,
    /// Amount of the part.
    pub amount: Money,
}

/// Kind of a payout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayoutKind {
    /// See [`Payout::Refund`].
    Refund,
    /// See [`Payout::Withdrawal`].
    Withdrawal,
    /// See [`Payout::Reversal`].
    Reversal,
    /// See [`Payout::RefundReversal`].
    RefundReversal,
    /// See [`Payout::Transfer`].
    Transfer,
}

string_enum!(PayoutKind {
    Refund = "refund_paid",
    Withdrawal = "withdrawal",
    Reversal = "reversal",
    RefundReversal = "refund_reversal",
    Transfer = "transfer",
});

impl Payout {
    /// Range of the references of all reversals of a deposit: the first reference, and the first one after the range.
    #[must_use]
    pub fn reversals_of(deposit: Uuid) -> [String; 2] {
        // '0' follows '/' in ASCII, and each id has the same length.
        [deposit.to_string(), format!("{deposit}0")]
    }

    /// Kind of the payout, which is also the kind of its posting.
    #[must_use]
    pub fn kind(&self) -> PayoutKind {
        match self {
            Self::Refund { .. } => PayoutKind::Refund,
            Self::Withdrawal { .. } => PayoutKind::Withdrawal,
            Self::Reversal { .. } => PayoutKind::Reversal,
            Self::RefundReversal { .. } => PayoutKind::RefundReversal,
            Self::Transfer { .. } => PayoutKind::Transfer,
        }
    }

    /// Reference that identifies it among the payouts of its kind.
    #[must_use]
    pub fn reference(&self) -> String {
        match self {
            Self::Refund { reference, .. }
            | Self::Withdrawal { reference, .. }
            | Self::RefundReversal { reference, .. }
            | Self::Transfer { reference, .. } => reference.to_string(),
            Self::Reversal { deposit, part, .. } => match part {
                Some(ReversalPart { key, .. }) => format!("{deposit}/{key}"),
                None => deposit.to_string(),
            },
        }
    }
}

/// A payout in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayoutReceipt {
    /// Amount paid.
    pub amount: Money,
    /// Time of its posting.
    pub at: Timestamp,
    /// Whether this call posted it.
    pub fresh: bool,
}

/// Refund due to the buyer of an order in one currency, and the part of it that was paid, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundBalance {
    /// The buyer.
    pub user: UserId,
    /// Total of all refunds that were ever due for the order in this currency: payments that did not pay it, and
    /// payments for its returned units.
    pub due: Money,
    /// Minor units of it that were refunded, without reversed refunds.
    pub refunded_minor: i64,
}

impl RefundBalance {
    /// Refund that is still due.
    #[must_use]
    pub fn outstanding(&self) -> Money {
        Money::new(self.due.minor - self.refunded_minor, self.due.currency)
    }
}

/// Filter and first position of a page of orders with refunds due, by sale and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundBalanceQuery {
    /// Seller of the sales; `None` for all sellers.
    pub owner: Option<UserId>,
    /// Order after which the page begins.
    pub after: Option<OrderId>,
    /// Maximum number of orders.
    pub limit: u32,
}

impl RefundBalanceQuery {
    /// The seller, or an empty text; campaign and number of the order after which the page begins.
    #[must_use]
    pub fn begins(&self) -> (&str, String, i64) {
        let owner = self.owner.as_ref().map_or("", UserId::as_str);
        let campaign = self.after.map(|after| after.campaign.to_string());
        let number = self.after.map_or(0, |after| after.number);
        (owner, campaign.unwrap_or_default(), number.into())
    }
}

/// An order with a refund due in one currency, as settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundDueOrder {
    /// The order.
    pub order: OrderId,
    /// The refund due, and the part of it that was paid.
    pub owed: RefundBalance,
}

/// Store of payments to the outside.
#[async_trait]
pub trait PayoutStore: Send + Sync + 'static {
    /// Posts a payout and records the action, once. It never takes more than the account holds.
    ///
    /// # Errors
    /// - [`LedgerError::ReferenceUsed`] if its reference names another payout
    /// - [`LedgerError::RefundExceedsDue`] if a refund exceeds the refund due
    /// - [`LedgerError::InsufficientFunds`] if the user's account holds less
    /// - [`LedgerError::UnknownDeposit`] if the user has no such deposit
    /// - [`LedgerError::SameUser`] if a transfer is to the same user
    /// - [`LedgerError::UnknownRefund`] if the order has no refund with the reference
    /// - [`LedgerError::DepositExceeded`] if less of the deposit is left
    /// - [`LedgerError::AmountOutOfRange`] if the amount is out of range
    async fn pay_out_by(
        &self,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError>;

    /// [`PayoutStore::pay_out_by`] without an action.
    async fn pay_out(&self, payout: &Payout) -> Result<PayoutReceipt, LedgerError> {
        self.pay_out_by(payout, None).await
    }

    /// Refunds due to the buyer of an order: first in the sale's currency, then in other currencies of its payments.
    /// Empty if the ledger does not have the order.
    async fn owed(&self, order: OrderId) -> Result<Vec<RefundBalance>, LedgerError>;

    /// A page of the orders with refunds due. An order appears once per currency, and the limit counts it once.
    async fn owed_orders(
        &self,
        query: &RefundBalanceQuery,
    ) -> Result<Vec<RefundDueOrder>, LedgerError>;
}
