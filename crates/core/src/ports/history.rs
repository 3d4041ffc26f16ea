//! What users have done, as settled, newest first: their orders, and what moved in their accounts. Deposits and
//! payments by the names that they have.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use uuid::Uuid;

use super::{GrantRecord, LedgerError};
use crate::{
    book::PaymentOutcome,
    id::{CampaignId, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    time::Timestamp,
    words::words,
};

/// Which orders of a user to list, newest first, and where the page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuery {
    /// Whose.
    pub user: UserId,
    /// In this state, as settled.
    pub state: Option<OrderState>,
    /// Older than this one.
    pub after: Option<OrderPlace>,
    /// At most so many.
    pub limit: u32,
}

/// An order of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOrder {
    /// The sale.
    pub campaign: CampaignId,
    /// What people see of the sale.
    pub title: String,
    /// Of the price.
    pub currency: Currency,
    /// The grant.
    pub grant: GrantRecord,
}

impl UserOrder {
    /// Where it is among the orders of its user.
    #[must_use]
    pub fn place(&self) -> OrderPlace {
        let (campaign, number) = (self.campaign, self.grant.number);
        OrderPlace {
            at: self.grant.granted_at,
            order: OrderId { campaign, number },
        }
    }
}

/// Where an order is among those of its user, printed `<milliseconds>.<order id>`. It stays there for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderPlace {
    /// When it was granted.
    pub at: Timestamp,
    /// The order.
    pub order: OrderId,
}

/// Why a text is no place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page begins at `next` of the page before")]
pub struct PlaceError;

impl fmt::Display for OrderPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.as_millis(), self.order)
    }
}

impl FromStr for OrderPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (at, order) = text.split_once('.').ok_or(PlaceError)?;
        let place = Self {
            at: Timestamp::from_millis(at.parse().map_err(|_| PlaceError)?),
            order: order.parse().map_err(|_| PlaceError)?,
        };
        canonical(place, text)
    }
}

/// One place is one text.
fn canonical<T: fmt::Display>(place: T, text: &str) -> Result<T, PlaceError> {
    (place.to_string() == text)
        .then_some(place)
        .ok_or(PlaceError)
}

/// Why money moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingKind {
    /// It came from outside.
    Deposit,
    /// It went into a red packet.
    Fund,
    /// A share of a red packet.
    Grant,
    /// What nobody took of a red packet.
    Refund,
    /// What an earlier fault had left in a red packet.
    Residue,
    /// An order was paid: to its seller.
    Payment,
    /// A payment that bought nothing is owed back.
    RefundDue,
    /// The price of a returned order: from its seller to what is owed to its buyer.
    Return,
    /// What was owed was paid back.
    RefundPaid,
    /// It was paid out.
    Withdrawal,
    /// A deposit was taken back.
    Reversal,
}

words!(PostingKind {
    Deposit = "deposit",
    Fund = "fund",
    Grant = "grant",
    Refund = "refund",
    Residue = "residue",
    Payment = "payment",
    RefundDue = "refund_due",
    Return = "return",
    RefundPaid = "refund_paid",
    Withdrawal = "withdrawal",
    Reversal = "reversal",
});

/// Which of a user's two accounts in a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAccount {
    /// What can be spent.
    Available,
    /// Payments that are owed back.
    RefundsDue,
}

words!(UserAccount { Available = "available", RefundsDue = "refunds_due" });

/// Which postings of a user's accounts to list, newest first, and where the page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingQuery {
    /// Whose.
    pub user: UserId,
    /// Of this kind.
    pub kind: Option<PostingKind>,
    /// Older than this one.
    pub after: Option<PostingPlace>,
    /// At most so many.
    pub limit: u32,
}

/// What moved in one of a user's accounts. A return between two accounts of one user is two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// Where it is in the list, and when it was.
    pub place: PostingPlace,
    /// Why.
    pub kind: PostingKind,
    /// In which account.
    pub account: UserAccount,
    /// What came; what went is below 0.
    pub amount: Money,
    /// The campaign that it was about, if it was about one.
    pub campaign: Option<CampaignId>,
    /// The number of the share or of the order.
    pub number: Option<u32>,
    /// The payment's or the payout's reference, or the deposit's id.
    pub reference: Option<String>,
}

/// Where a posting is among those of a user, printed `<milliseconds>.<source>.<seq>.<in or out>`: see the ledger's
/// table. It stays there for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PostingPlace {
    /// When it was decided.
    pub at: Timestamp,
    /// The partition whose log it follows from; -1 if it follows from none.
    pub source: i64,
    /// Its place there.
    pub seq: i64,
    /// Whether it came. What moves between two accounts of one user is listed as what came, and then as what went.
    pub comes: bool,
}

impl fmt::Display for PostingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.comes { "in" } else { "out" };
        let (at, source, seq) = (self.at.as_millis(), self.source, self.seq);
        write!(f, "{at}.{source}.{seq}.{side}")
    }
}

impl FromStr for PostingPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (numbers, side) = text.rsplit_once('.').ok_or(PlaceError)?;
        let mut numbers = numbers.splitn(3, '.').map(str::parse::<i64>);
        let mut next = || numbers.next().ok_or(PlaceError)?.map_err(|_| PlaceError);
        let place = Self {
            at: Timestamp::from_millis(next()?),
            source: next()?,
            seq: next()?,
            comes: side == "in",
        };
        canonical(place, text)
    }
}

/// A deposit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepositRecord {
    /// Whose account it went to.
    pub user: UserId,
    /// How much.
    pub amount: Money,
    /// When.
    pub at: Timestamp,
    /// Minor units of it that were taken back.
    pub reversed_minor: i64,
}

impl DepositRecord {
    /// Whether all of it was taken back.
    #[must_use]
    pub fn is_reversed(&self) -> bool {
        self.reversed_minor >= self.amount.minor
    }
}

/// A payment that arrived for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRecord {
    /// The order.
    pub order: OrderId,
    /// Who bought.
    pub buyer: UserId,
    /// Who sells.
    pub seller: UserId,
    /// What became of it.
    pub outcome: PaymentOutcome,
    /// The money that arrived.
    pub amount: Money,
    /// When it was decided.
    pub at: Timestamp,
}

/// What users have done, as settled.
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// A page of a user's orders, newest first.
    async fn orders_of(&self, query: &OrderQuery) -> Result<Vec<UserOrder>, LedgerError>;

    /// A page of what moved in a user's accounts, newest first.
    async fn postings_of(&self, query: &PostingQuery) -> Result<Vec<Posting>, LedgerError>;

    /// A deposit, if it was made.
    async fn deposit_of(&self, id: Uuid) -> Result<Option<DepositRecord>, LedgerError>;

    /// The payment of that reference that was decided first, if there is one.
    async fn payment_of(
        &self,
        reference: &PaymentRef,
    ) -> Result<Option<PaymentRecord>, LedgerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_parse_and_print() {
        fn check<T: FromStr + fmt::Display>(text: &str, good: bool) {
            let parsed = text.parse::<T>().ok();
            let printed = parsed.map(|place| place.to_string());
            assert_eq!(printed.as_deref(), good.then_some(text), "{text}");
        }
        check::<PostingPlace>("1795262400000.-1.17.in", true);
        check::<PostingPlace>("1.0.9223372036854775807.out", true);
        for bad in [
            "",
            "1",
            "1.2",
            "1.2.3",
            "1.2.3.4.in",
            "1.2.3.on",
            "01.2.3.in",
            "+1.2.3.in",
            "1.2.x.in",
            "1.-0.3.out",
        ] {
            check::<PostingPlace>(bad, false);
        }
        let order = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3";
        check::<OrderPlace>(&format!("1795262400000.{order}"), true);
        for bad in [
            order.to_owned(),
            format!(".{order}"),
            format!("01.{order}"),
            "1.2".to_owned(),
        ] {
            check::<OrderPlace>(&bad, false);
        }
    }
}
