//! Payouts, and what they take from.

#[cfg(test)]
mod tests;

use super::{AccountKey, Contradiction, Purpose};
use crate::{
    event::{Entry, Event},
    id::{OrderId, UserId},
    money::{AMOUNT_MINOR_MAX, Currency, MONEY_MINOR_MAX, Money},
    order::{OrderState, owed_for_returned},
    payment::PaymentOutcome,
    ports::{LedgerError, Owed, OwedOrder, PaidOut, Payout, PayoutKind, ReversalPart},
    time::Timestamp,
};

/// A campaign's `ref` and currency; user, amount and state of an order of it, if the ledger has that, and its quantity
/// and the units that returns of parts have returned, else null.
pub type OwedColumns = (
    i64,
    String,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
);

/// A payment of an order, or a refund: the word in `outcome` or `kind`, the amount, and its
/// currency, null if it is the campaign's.
pub type MovedColumns = (String, i64, Option<String>);

/// Amount and time of a payout's posting; owner and currency of its debit; id of its campaign and number of its order.
pub type PaidOutColumns = (i64, i64, String, String, Option<String>, Option<i64>);

/// What the buyer of an order is owed in each currency, the campaign's first, and the campaign's `ref`; none if there
/// is no such order.
///
/// `moved` has the payments of the order and the refunds that were made. The payment that paid the order is owed back
/// once the order is returned, and for units that are returned before, their part of it. Of an order that is not in the
/// ledger `discarded` has the discarded entries of its campaign: it may be among them.
///
/// # Errors
/// When a column holds what was never written.
pub fn owed_of(
    order: OrderId,
    columns: OwedColumns,
    moved: &[MovedColumns],
    discarded: &[Entry],
) -> Result<Option<(i64, Vec<Owed>)>, Contradiction> {
    let bad = |what| Contradiction::new(format!("order {order} has a bad {what}"));
    let (campaign_ref, currency, user, amount, state, quantity, in_parts) = columns;
    let currency: Currency = currency.parse().map_err(|_| bad("currency"))?;
    let mut sums = Sums::new(currency);
    let count = |units: Option<i64>, what| u32::try_from(units.unwrap_or(0)).map_err(|_| bad(what));
    let quantity = count(quantity, "quantity")?;
    let mut returned = count(in_parts, "number of returned units")?;
    let mut is_known = false;
    let user = match (user, amount, state) {
        (Some(user), Some(amount), Some(state)) => {
            let state = OrderState::of_name(&state).ok_or_else(|| bad("state"))?;
            is_known = true;
            if state == OrderState::Returned {
                returned = quantity;
            }
            // Without a row of the payment that paid it, the price is owed.
            let is_paid_by = |(word, ..): &MovedColumns| is_paying(word);
            if !moved.iter().any(is_paid_by) {
                let owed = owed_for_returned(amount, returned, quantity);
                sums.add_due(Money::new(owed, currency));
            }
            UserId::new(&user).map_err(|_| bad("user"))?
        }
        _ => match sums.add_discarded(order.number, discarded) {
            Some(user) => user,
            None => return Ok(None),
        },
    };
    for (word, minor, code) in moved {
        let own = code.as_ref().map(|code| code.parse()).transpose();
        let own = own.map_err(|_| bad("currency"))?;
        let money = Money::new(*minor, own.unwrap_or(currency));
        if word == PayoutKind::Refund.name() {
            sums.add_refunded(money);
        } else if is_paying(word) {
            let owed = owed_for_returned(money.minor, returned, quantity);
            sums.add_due(Money::new(if is_known { owed } else { 0 }, money.currency));
        } else {
            sums.add_due(money);
        }
    }
    let owed = sums.into_owed(&user).ok_or_else(|| bad("sum"))?;
    Ok(Some((campaign_ref, owed)))
}

/// Whether the outcome of a payment is that it paid its order.
fn is_paying(word: &str) -> bool {
    let outcome = PaymentOutcome::of_name(word);
    outcome.is_some_and(|outcome| outcome != PaymentOutcome::RefundDue)
}

/// Minor units that were ever owed and that were paid back, by currency. The first one is the campaign's.
struct Sums(Vec<(Currency, Option<i64>, Option<i64>)>);

impl Sums {
    fn new(currency: Currency) -> Self {
        Self(vec![(currency, Some(0), Some(0))])
    }

    fn of(&mut self, currency: Currency) -> &mut (Currency, Option<i64>, Option<i64>) {
        let known = self.0.iter().position(|(known, ..)| *known == currency);
        let place = known.unwrap_or_else(|| {
            self.0.push((currency, Some(0), Some(0)));
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    fn add_due(&mut self, money: Money) {
        let (_, due, _) = self.of(money.currency);
        *due = due.and_then(|due| due.checked_add(money.minor));
    }

    fn add_refunded(&mut self, money: Money) {
        let (_, _, refunded) = self.of(money.currency);
        *refunded = refunded.and_then(|refunded| refunded.checked_add(money.minor));
    }

    /// Adds the payments for a discarded order; returns its buyer. What came for one that a repair made anew, and that
    /// was discarded again, was never posted.
    fn add_discarded(&mut self, number: u32, entries: &[Entry]) -> Option<UserId> {
        let mut own = entries
            .iter()
            .map(|entry| &entry.event)
            .filter(|event| event.number() == Some(number));
        let Event::Granted {
            user, amount_minor, ..
        } = own.next()?
        else {
            return None;
        };
        let price = Money::new(*amount_minor, self.0[0].0);
        let first = own.take_while(|event| !matches!(event, Event::Granted { .. }));
        for received in first.filter_map(Event::received) {
            self.add_due(received.money(price));
        }
        Some(user.clone())
    }

    /// None if a sum is out of range.
    fn into_owed(self, user: &UserId) -> Option<Vec<Owed>> {
        let owed = |(currency, due, refunded): (Currency, Option<i64>, Option<i64>)| {
            Some(Owed {
                user: user.clone(),
                due: Money::new(due?, currency),
                refunded_minor: refunded?,
            })
        };
        self.0.into_iter().map(owed).collect()
    }
}

/// A campaign's id and an order's number; the buyer; the currency; minor units that ever were owed, and that were paid
/// back.
pub type OwedOrderColumns = (String, i64, String, String, i64, i64);

/// An order that something is owed for.
///
/// # Errors
/// When a column holds what was never written.
pub fn owed_order_of(columns: OwedOrderColumns) -> Result<OwedOrder, Contradiction> {
    let (campaign, number, user, currency, due, refunded_minor) = columns;
    let bad = |what| Contradiction::new(format!("order {campaign}-{number} has a bad {what}"));
    let currency: Currency = currency.parse().map_err(|_| bad("currency"))?;
    Ok(OwedOrder {
        order: OrderId {
            campaign: campaign.parse().map_err(|_| bad("campaign"))?,
            number: number.try_into().map_err(|_| bad("number"))?,
        },
        owed: Owed {
            user: UserId::new(&user).map_err(|_| bad("user"))?,
            due: Money::new(due, currency),
            refunded_minor,
        },
    })
}

/// The payout that has this name already: the same one, or another.
///
/// # Errors
/// [`LedgerError::ReferenceUsed`] if it is another one.
pub fn paid_out_of(payout: &Payout, columns: PaidOutColumns) -> Result<PaidOut, LedgerError> {
    let (minor, at, owner, currency, campaign, number) = columns;
    let currency: Result<Currency, _> = currency.parse();
    let currency = currency.map_err(|_| LedgerError::damaged("a payout has a bad currency"))?;
    let posted = Money::new(minor, currency);
    let (same, otherwise) = match payout {
        Payout::Refund { order, amount, .. } => (
            campaign == Some(order.campaign.to_string())
                && number == Some(order.number.into())
                && *amount == posted,
            LedgerError::ReferenceUsed,
        ),
        Payout::Withdrawal { user, amount, .. } => (
            owner == user.as_str() && *amount == posted,
            LedgerError::ReferenceUsed,
        ),
        Payout::Reversal {
            part: Some(part), ..
        } if part.amount != posted => (false, LedgerError::ReferenceUsed),
        Payout::Reversal { user, .. } => (owner == user.as_str(), LedgerError::UnknownDeposit),
    };
    let found = PaidOut {
        amount: posted,
        at: Timestamp::from_millis(at),
        fresh: false,
    };
    same.then_some(found).ok_or(otherwise)
}

/// What a payout takes, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// Whose account it is.
    pub user: UserId,
    /// Which one of the user's.
    pub purpose: Purpose,
    /// How much is taken.
    pub amount: Money,
    /// The campaign's `ref` and the order's number; none if it is for no order.
    pub order: Option<(i64, u32)>,
}

impl Spend {
    /// A refund out of what is owed for an order: all of it at once, however much it is.
    ///
    /// # Errors
    /// When less is owed in that currency; [`LedgerError::AmountOutOfRange`] for less than one minor unit.
    pub fn refund(
        order: OrderId,
        amount: Money,
        owed: Option<(i64, Vec<Owed>)>,
    ) -> Result<Self, LedgerError> {
        if amount.minor < 1 {
            return Err(LedgerError::AmountOutOfRange);
        }
        let own = owed.and_then(|(campaign_ref, owed)| {
            let is_same = |owed: &Owed| owed.due.currency == amount.currency;
            let place = owed.iter().position(is_same).unwrap_or(0);
            Some((campaign_ref, owed.into_iter().nth(place)?))
        });
        let none = Money::new(0, amount.currency);
        let left = own.as_ref().map_or(none, |(_, owed)| owed.left());
        match own {
            Some((campaign_ref, owed))
                if left.currency == amount.currency && left.minor >= amount.minor =>
            {
                Ok(Self {
                    user: owed.user,
                    purpose: Purpose::RefundsDue,
                    amount,
                    order: Some((campaign_ref, order.number)),
                })
            }
            _ => Err(LedgerError::NotOwed {
                owed: left,
                asked: amount,
            }),
        }
    }

    /// A withdrawal.
    ///
    /// # Errors
    /// When the amount is out of range.
    pub fn withdrawal(user: &UserId, amount: Money) -> Result<Self, LedgerError> {
        in_range(amount)?;
        let user = user.clone();
        Ok(Self {
            user,
            purpose: Purpose::User,
            amount,
            order: None,
        })
    }

    /// The reversal of a part of a deposit, or of all that is left of it. Amount, owner and currency of the deposit are
    /// known, and the minor units of it that were reversed before.
    ///
    /// # Errors
    /// [`LedgerError::UnknownDeposit`] if there is none, or it is another user's; [`LedgerError::DepositExceeded`] if
    /// less is left of it, nothing is left, or the part is in another currency; [`LedgerError::AmountOutOfRange`].
    pub fn reversal(
        user: &UserId,
        part: Option<&ReversalPart>,
        deposit: Option<(i64, String, String)>,
        reversed_minor: i64,
    ) -> Result<Self, LedgerError> {
        let deposit = deposit.filter(|(_, owner, _)| owner == user.as_str());
        let (minor, _, currency) = deposit.ok_or(LedgerError::UnknownDeposit)?;
        let currency = currency.parse();
        let currency =
            currency.map_err(|_| LedgerError::damaged("a deposit has a bad currency"))?;
        let left = Money::new(minor - reversed_minor, currency);
        let asked = match part {
            Some(part) => part.amount,
            None if left.minor < 1 => Money::new(minor, currency),
            None => left,
        };
        if asked.currency != currency || asked.minor > left.minor {
            return Err(LedgerError::DepositExceeded { left, asked });
        }
        Self::withdrawal(user, asked)
    }

    /// The account that it takes from.
    #[must_use]
    pub fn account(&self) -> AccountKey<'_> {
        AccountKey::new(self.user.as_str(), self.purpose, self.amount.currency)
    }

    /// Refuses to take more than the account holds.
    ///
    /// # Errors
    /// [`LedgerError::InsufficientFunds`].
    pub fn check(&self, held: i64) -> Result<(), LedgerError> {
        if held >= self.amount.minor {
            return Ok(());
        }
        let held = Money::new(held, self.amount.currency);
        let needed = self.amount;
        Err(match self.purpose {
            // More is owed for the order than for all orders of its buyer.
            Purpose::RefundsDue => {
                LedgerError::damaged(format!("{} is owed {held}, less than {needed}", self.user))
            }
            _ => LedgerError::InsufficientFunds { held, needed },
        })
    }

    /// Refuses what brings the outside, which has so much, out of its range: all others would owe it that together.
    ///
    /// # Errors
    /// [`LedgerError::Overflow`].
    pub fn check_outside(&self, held: i64) -> Result<(), LedgerError> {
        let sum = held.checked_add(self.amount.minor);
        match sum.is_some_and(|sum| sum <= MONEY_MINOR_MAX) {
            true => Ok(()),
            false => Err(LedgerError::Overflow),
        }
    }
}

fn in_range(amount: Money) -> Result<(), LedgerError> {
    match (1..=AMOUNT_MINOR_MAX).contains(&amount.minor) {
        true => Ok(()),
        false => Err(LedgerError::AmountOutOfRange),
    }
}
