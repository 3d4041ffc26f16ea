//! Settled history, newest first: orders, payments, the postings of a user's accounts, and money that came in or left.
//! Also deposits by id, and payments by reference.

use std::{fmt, str::FromStr};

use async_trait::async_trait;
use uuid::Uuid;

use super::{GrantRecord, LedgerError, TimeRange};
use crate::{
    book::PaymentOutcome,
    id::{CampaignId, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    string_enum::string_enum,
    time::Timestamp,
};

/// Page of a history, newest first. A filter that rejects most of what is read ends a page early: see
/// [`OrderQuery::reads_max`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryPage<T> {
    /// Items of the page.
    pub items: Vec<T>,
    /// If the page ended early: the instant from which on everything was read. Older items may match the filter.
    pub read_from: Option<Timestamp>,
}

impl<T> From<Vec<T>> for HistoryPage<T> {
    /// A page that did not end early.
    fn from(items: Vec<T>) -> Self {
        let read_from = None;
        Self { items, read_from }
    }
}

/// Filter and first position of a page of orders, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderQuery {
    /// The buyer; `None` for all.
    pub user: Option<UserId>,
    /// The sale; `None` for all.
    pub campaign: Option<CampaignId>,
    /// State of the orders, as settled.
    pub state: Option<OrderState>,
    /// Times of the grants.
    pub created: TimeRange,
    /// Order after which the page begins; the page has older ones.
    pub after: Option<OrderPlace>,
    /// Maximum number of orders.
    pub limit: u32,
    /// If a state is given and no user: the number of orders that are read. Further ones are read if they were granted
    /// at the same instant as the last one.
    pub reads_max: u32,
}

/// An order with its sale.
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
    /// Position of the order in a list.
    #[must_use]
    pub fn place(&self) -> OrderPlace {
        let (campaign, number) = (self.campaign, self.grant.number);
        OrderPlace {
            at: self.grant.granted_at,
            order: Some(OrderId { campaign, number }),
        }
    }
}

/// Position of an order in a list, printed `<milliseconds>.<order id>`. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderPlace {
    /// Time of the grant.
    pub at: Timestamp,
    /// The order; `None` for the position after all orders of that time.
    pub order: Option<OrderId>,
}

/// Error of a text that is no position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page begins at `next` of the page before")]
pub struct PlaceError;

impl fmt::Display for OrderPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.at.as_millis())?;
        self.order.map_or(Ok(()), |order| write!(f, "{order}"))
    }
}

impl FromStr for OrderPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (at, order) = text.split_once('.').ok_or(PlaceError)?;
        let place = Self {
            at: Timestamp::from_millis(at.parse().map_err(|_| PlaceError)?),
            order: match order {
                "" => None,
                order => Some(order.parse().map_err(|_| PlaceError)?),
            },
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
    /// A recorded refund was reversed: it is due again.
    RefundReversal,
    /// An operator moved money from one user to another.
    Transfer,
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
    RefundReversal = "refund_reversal",
    Transfer = "transfer",
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
    /// Reference of the payment service, if the deposit was made with one.
    pub reference: Option<PaymentRef>,
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
    /// Reference of the payment service.
    pub reference: PaymentRef,
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

impl PaymentRecord {
    /// Position of the payment in a list.
    #[must_use]
    pub fn place(&self) -> PaymentPlace {
        PaymentPlace {
            at: self.at,
            payment: Some((self.order, self.reference.clone())),
        }
    }
}

/// Position of a payment in a list, printed `<milliseconds>.<order id>.<reference>`. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentPlace {
    /// Time of the decision.
    pub at: Timestamp,
    /// The payment; `None` for the position after all payments of that time.
    pub payment: Option<(OrderId, PaymentRef)>,
}

impl fmt::Display for PaymentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.at.as_millis())?;
        match &self.payment {
            Some((order, reference)) => write!(f, "{order}.{reference}"),
            None => Ok(()),
        }
    }
}

impl FromStr for PaymentPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (at, payment) = text.split_once('.').ok_or(PlaceError)?;
        let payment = match payment {
            "" => None,
            payment => {
                let (order, reference) = payment.split_once('.').ok_or(PlaceError)?;
                let order = order.parse().map_err(|_| PlaceError)?;
                Some((order, PaymentRef::new(reference).map_err(|_| PlaceError)?))
            }
        };
        let at = Timestamp::from_millis(at.parse().map_err(|_| PlaceError)?);
        canonical(Self { at, payment }, text)
    }
}

/// Filter and first position of a page of payments, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentQuery {
    /// The buyer; `None` for all.
    pub user: Option<UserId>,
    /// Result of the payments.
    pub outcome: Option<PaymentOutcome>,
    /// Reference of the payment service. Payments of several orders may have it.
    pub reference: Option<PaymentRef>,
    /// Times of the decisions.
    pub created: TimeRange,
    /// Payment after which the page begins; the page has older ones.
    pub after: Option<PaymentPlace>,
    /// Maximum number of payments.
    pub limit: u32,
    /// If an outcome is given, and neither a user nor a reference: the number of payments that are read. Further ones
    /// are read if they were decided at the same instant as the last one.
    pub reads_max: u32,
}

/// Kind of money that came in or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovementKind {
    /// Money came from outside into a user's account.
    Deposit,
    /// A user withdrew money.
    Withdrawal,
    /// A refund was paid to the buyer of an order.
    Refund,
}

string_enum!(MovementKind { Deposit = "deposit", Withdrawal = "withdrawal", Refund = "refund_paid" });

/// Filter and first position of a page of deposits, withdrawals or refunds, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovementQuery {
    /// Kind of the movements.
    pub kind: MovementKind,
    /// Owner of the account; `None` for all.
    pub user: Option<UserId>,
    /// Reference of the payment service.
    pub reference: Option<PaymentRef>,
    /// Times of the postings.
    pub created: TimeRange,
    /// Movement after which the page begins; the page has older ones.
    pub after: Option<MovementPlace>,
    /// Maximum number of movements.
    pub limit: u32,
}

/// Position of a movement in a list, printed `<milliseconds>.<number>`. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MovementPlace {
    /// Time of the posting.
    pub at: Timestamp,
    /// Number of the posting.
    pub seq: i64,
}

impl fmt::Display for MovementPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.as_millis(), self.seq)
    }
}

impl FromStr for MovementPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let (at, seq) = text.split_once('.').ok_or(PlaceError)?;
        let place = Self {
            at: Timestamp::from_millis(at.parse().map_err(|_| PlaceError)?),
            seq: seq.parse().map_err(|_| PlaceError)?,
        };
        canonical(place, text)
    }
}

/// A deposit, a withdrawal or a refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// Position in the list, with the time of the posting.
    pub place: MovementPlace,
    /// Owner of the account.
    pub user: UserId,
    /// Amount.
    pub amount: Money,
    /// Reference of the payment service. A deposit may have none.
    pub reference: Option<PaymentRef>,
    /// Id of a deposit.
    pub deposit: Option<Uuid>,
    /// Minor units of a deposit or a refund that were reversed.
    pub reversed_minor: i64,
    /// Order of a refund.
    pub order: Option<OrderId>,
}

/// Store of histories, as settled.
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// A page of orders, newest first.
    async fn orders_of(&self, query: &OrderQuery) -> Result<HistoryPage<UserOrder>, LedgerError>;

    /// A page of payments, newest first.
    async fn payments(
        &self,
        query: &PaymentQuery,
    ) -> Result<HistoryPage<PaymentRecord>, LedgerError>;

    /// A page of deposits, withdrawals or refunds, newest first.
    async fn movements(&self, query: &MovementQuery) -> Result<Vec<Movement>, LedgerError>;

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
        check::<OrderPlace>("1795262400000.", true);
        check::<PaymentPlace>(&format!("1795262400000.{order}.pay.1/a"), true);
        check::<PaymentPlace>("1795262400000.", true);
        for bad in [
            order.to_owned(),
            format!(".{order}"),
            format!("01.{order}"),
            "1.2".to_owned(),
        ] {
            check::<OrderPlace>(&bad, false);
            check::<PaymentPlace>(&format!("{bad}.pay"), false);
        }
        check::<PaymentPlace>(&format!("1.{order}"), false);
        check::<PaymentPlace>(&format!("1.{order}."), false);
        check::<MovementPlace>("1795262400000.17", true);
        for bad in ["", "1", "1.", "01.2", "1.02", "1.2.3", "x.2"] {
            check::<MovementPlace>(bad, false);
        }
    }
}
