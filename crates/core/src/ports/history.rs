//! Settled history of users, newest first: their orders and the postings of their accounts. Also deposits by id, and
//! payments by reference.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use uuid::Uuid;

use super::{GrantRecord, LedgerError};
use crate::{
    book::PaymentOutcome,
    id::{CampaignId, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    string_enum::string_enum,
    time::Timestamp,
};

/// Filter and first position of a page of a user's orders, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuery {
    /// The buyer.
    pub user: UserId,
    /// State of the orders, as settled.
    pub state: Option<OrderState>,
    /// Order after which the page begins; the page has older ones.
    pub after: Option<OrderPlace>,
    /// Maximum number of orders.
    pub limit: u32,
}

/// An order of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOrder {
    /// The sale.
    pub campaign: CampaignId,
    /// Title of the sale that users see.
    pub title: String,
    /// Currency of the price.
    pub currency: Currency,
    /// The grant.
    pub grant: GrantRecord,
}

impl UserOrder {
    /// Position of the order among the orders of its user.
    #[must_use]
    pub fn place(&self) -> OrderPlace {
        let (campaign, number) = (self.campaign, self.grant.number);
        OrderPlace {
            at: self.grant.granted_at,
            order: OrderId { campaign, number },
        }
    }
}

/// Position of an order among the orders of its user, printed `<milliseconds>.<order id>`. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderPlace {
    /// Time of the grant.
    pub at: Timestamp,
    /// The order.
    pub order: OrderId,
}

/// Error of a text that is no position in a list.
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

/// Returns the position if the text is its canonical form, so that each position has one text.
fn canonical<T: fmt::Display>(place: T, text: &str) -> Result<T, PlaceError> {
    (place.to_string() == text)
        .then_some(place)
        .ok_or(PlaceError)
}

/// Reason of a posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingKind {
    /// Money came from outside.
    Deposit,
    /// Money moved into a red packet.
    Fund,
    /// A share was claimed.
    Grant,
    /// Unclaimed shares of a closed red packet were refunded to its sender.
    Refund,
    /// Money that an earlier fault had left in a red packet.
    Residue,
    /// An order was paid; its seller received the price.
    Payment,
    /// A payment did not pay its order, and a refund of it is due.
    RefundDue,
    /// An order was returned; its price moved from its seller to the buyer's refunds due.
    Return,
    /// A refund was paid.
    RefundPaid,
    /// Money was withdrawn.
    Withdrawal,
    /// A deposit was reversed.
    Reversal,
}

string_enum!(PostingKind {
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

/// One of a user's two accounts in a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAccount {
    /// Money that the user can spend.
    Available,
    /// Refunds that are due.
    RefundsDue,
}

string_enum!(UserAccount { Available = "available", RefundsDue = "refunds_due" });

/// Filter and first position of a page of a user's postings, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingQuery {
    /// Owner of the accounts.
    pub user: UserId,
    /// Kind of the postings.
    pub kind: Option<PostingKind>,
    /// Posting after which the page begins; the page has older ones.
    pub after: Option<PostingPlace>,
    /// Maximum number of postings.
    pub limit: u32,
}

/// A change of one of a user's accounts. A return between two accounts of one user has two postings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posting {
    /// Position in the list, with the time of the posting.
    pub place: PostingPlace,
    /// Reason of the posting.
    pub kind: PostingKind,
    /// Account that changed.
    pub account: UserAccount,
    /// Amount; below 0 if money left the account.
    pub amount: Money,
    /// Campaign of the posting, if it has one.
    pub campaign: Option<CampaignId>,
    /// Number of the share or the order.
    pub number: Option<u32>,
    /// Reference of the payment or the payout, or the deposit's id.
    pub reference: Option<String>,
}

/// Position of a posting among the postings of a user, printed `<milliseconds>.<source>.<seq>.<in or out>`: see the
/// ledger's table. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PostingPlace {
    /// Time of the decision.
    pub at: Timestamp,
    /// Partition whose log has its entry; -1 if no log has one.
    pub source: i64,
    /// Position of the entry in that log.
    pub seq: i64,
    /// Whether the money came in. A move between two accounts of one user is listed as incoming, and then as outgoing.
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
    /// Owner of the credited account.
    pub user: UserId,
    /// Amount of the deposit.
    pub amount: Money,
    /// Time of the deposit.
    pub at: Timestamp,
    /// Minor units that were reversed.
    pub reversed_minor: i64,
}

impl DepositRecord {
    /// Whether the whole deposit was reversed.
    #[must_use]
    pub fn is_reversed(&self) -> bool {
        self.reversed_minor >= self.amount.minor
    }
}

/// A payment that was received for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRecord {
    /// The order.
    pub order: OrderId,
    /// The buyer.
    pub buyer: UserId,
    /// The seller.
    pub seller: UserId,
    /// Result of the payment.
    pub outcome: PaymentOutcome,
    /// Money that was received.
    pub amount: Money,
    /// Time of the decision.
    pub at: Timestamp,
}

/// Store of users' history, as settled.
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// A page of a user's orders, newest first.
    async fn orders_of(&self, query: &OrderQuery) -> Result<Vec<UserOrder>, LedgerError>;

    /// A page of the postings of a user's accounts, newest first.
    async fn postings_of(&self, query: &PostingQuery) -> Result<Vec<Posting>, LedgerError>;

    /// A deposit, if it exists.
    async fn deposit_of(&self, id: Uuid) -> Result<Option<DepositRecord>, LedgerError>;

    /// The first decided payment with that reference, if it exists.
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
