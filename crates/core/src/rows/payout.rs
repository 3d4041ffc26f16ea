//! Payouts, and the accounts that fund them.

#[cfg(test)]
mod tests;

use super::{AccountKey, AccountPurpose, Contradiction};
use crate::{
    event::{Entry, Event},
    id::{OrderId, UserId},
    money::{AMOUNT_MINOR_MAX, Currency, MONEY_MINOR_MAX, Money},
    order::{OrderState, owed_for_returned},
    payment::PaymentOutcome,
    ports::{
        LedgerError, Payout, PayoutKind, PayoutReceipt, RefundBalance, RefundDueOrder, ReversalPart,
    },
    time::Timestamp,
};

/// Columns: `ref` and currency of a campaign; user, amount and state of its order; quantity and partially returned
/// units. Those of an order that the ledger lacks are null.
pub type OwedColumns = (
    i64,
    String,
    Option<String>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
);

/// Columns of a payment or a refund: `outcome` or `kind`, amount, and currency, null for the campaign's currency.
pub type MovedColumns = (String, i64, Option<String>);

/// Columns: amount and time of a payout's posting; owner and currency of its debit; campaign id and number of its
/// order; owner of its credit.
pub type PaidOutColumns = (
    i64,
    i64,
    String,
    String,
    Option<String>,
    Option<i64>,
    String,
);

/// Refunds due for an order, per currency, with the campaign's currency first, and the `ref` of the campaign. `None` if
/// there is no such order.
///
/// `moved` has the order's payments, its paid refunds and the reversed ones of these. For the payment that paid the
/// order, a refund is due once the order is returned. For a partial return, the returned units' part of it is due. If
/// the ledger lacks the order, it may be among `discarded`, the discarded entries of its campaign.
///
/// # Errors
/// If a column has an invalid value.
pub fn owed_of(
    order: OrderId,
    columns: OwedColumns,
    moved: &[MovedColumns],
    discarded: &[Entry],
) -> Result<Option<(i64, Vec<RefundBalance>)>, Contradiction> {
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
            let state = OrderState::from_name(&state).ok_or_else(|| bad("state"))?;
            is_known = true;
            if state == OrderState::Returned {
                returned = quantity;
            }
            // If the row of the paying payment is missing, the price counts.
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
        } else if word == PayoutKind::RefundReversal.name() {
            sums.add_refunded(Money::new(-money.minor, money.currency));
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

/// Whether a payment with this outcome paid its order.
fn is_paying(word: &str) -> bool {
    let outcome = PaymentOutcome::from_name(word);
    outcome.is_some_and(|outcome| outcome != PaymentOutcome::RefundDue)
}

/// Minor units that became due and that were refunded, by currency. The first currency is the campaign's.
struct Sums(Vec<(Currency, Option<i64>, Option<i64>)>);

impl Sums {
    fn new(currency: Currency) -> Self {
        Self(vec![(currency, Some(0), Some(0))])
    }

    fn for_currency(&mut self, currency: Currency) -> &mut (Currency, Option<i64>, Option<i64>) {
        let known = self.0.iter().position(|(known, ..)| *known == currency);
        let place = known.unwrap_or_else(|| {
            self.0.push((currency, Some(0), Some(0)));
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    fn add_due(&mut self, money: Money) {
        let (_, due, _) = self.for_currency(money.currency);
        *due = due.and_then(|due| due.checked_add(money.minor));
    }

    fn add_refunded(&mut self, money: Money) {
        let (_, _, refunded) = self.for_currency(money.currency);
        *refunded = refunded.and_then(|refunded| refunded.checked_add(money.minor));
    }

    /// Adds the payments of a discarded order, and returns its buyer. If a repair recreated the order and it was
    /// discarded again, its later payments were never posted.
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

    /// Returns `None` if a sum is out of range.
    fn into_owed(self, user: &UserId) -> Option<Vec<RefundBalance>> {
        let owed = |(currency, due, refunded): (Currency, Option<i64>, Option<i64>)| {
            Some(RefundBalance {
                user: user.clone(),
                due: Money::new(due?, currency),
                refunded_minor: refunded?,
            })
        };
        self.0.into_iter().map(owed).collect()
    }
}

/// Columns: campaign id; number, buyer and currency of the order; minor units that became due, and that were refunded.
pub type OwedOrderColumns = (String, i64, String, String, i64, i64);

/// Converts a row to an order with a refund due.
///
/// # Errors
/// If a column has an invalid value.
pub fn owed_order_of(columns: OwedOrderColumns) -> Result<RefundDueOrder, Contradiction> {
    let (campaign, number, user, currency, due, refunded_minor) = columns;
    let bad = |what| Contradiction::new(format!("order {campaign}-{number} has a bad {what}"));
    let currency: Currency = currency.parse().map_err(|_| bad("currency"))?;
    Ok(RefundDueOrder {
        order: OrderId {
            campaign: campaign.parse().map_err(|_| bad("campaign"))?,
            number: number.try_into().map_err(|_| bad("number"))?,
        },
        owed: RefundBalance {
            user: UserId::new(&user).map_err(|_| bad("user"))?,
            due: Money::new(due, currency),
            refunded_minor,
        },
    })
}

/// Compares a payout with the posting that already has its name.
///
/// # Errors
/// [`LedgerError::ReferenceUsed`], or [`LedgerError::UnknownDeposit`] and [`LedgerError::UnknownRefund`] for a
/// reversal, if it is a different payout.
pub fn paid_out_of(payout: &Payout, columns: PaidOutColumns) -> Result<PayoutReceipt, LedgerError> {
    let (minor, at, owner, currency, campaign, number, credited) = columns;
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
        Payout::Transfer {
            user, to, amount, ..
        } => (
            owner == user.as_str() && credited == to.as_str() && *amount == posted,
            LedgerError::ReferenceUsed,
        ),
        Payout::RefundReversal { order, .. } => (
            campaign == Some(order.campaign.to_string()) && number == Some(order.number.into()),
            LedgerError::UnknownRefund,
        ),
    };
    let found = PayoutReceipt {
        amount: posted,
        at: Timestamp::from_millis(at),
        fresh: false,
    };
    same.then_some(found).ok_or(otherwise)
}

/// Amount of a payout, and the account that funds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    /// Owner of the account.
    pub user: UserId,
    /// Purpose of the account.
    pub purpose: AccountPurpose,
    /// Amount.
    pub amount: Money,
    /// `ref` of the campaign and number of the order; `None` without an order.
    pub order: Option<(i64, u32)>,
}

impl Spend {
    /// Refund of `amount` from the refunds due for an order. It must be covered in full.
    ///
    /// # Errors
    /// If less is due in that currency. [`LedgerError::AmountOutOfRange`] for less than one minor unit.
    pub fn refund(
        order: OrderId,
        amount: Money,
        owed: Option<(i64, Vec<RefundBalance>)>,
    ) -> Result<Self, LedgerError> {
        if amount.minor < 1 {
            return Err(LedgerError::AmountOutOfRange);
        }
        let own = owed.and_then(|(campaign_ref, owed)| {
            let is_same = |owed: &RefundBalance| owed.due.currency == amount.currency;
            let place = owed.iter().position(is_same).unwrap_or(0);
            Some((campaign_ref, owed.into_iter().nth(place)?))
        });
        let none = Money::new(0, amount.currency);
        let left = own.as_ref().map_or(none, |(_, owed)| owed.outstanding());
        match own {
            Some((campaign_ref, owed))
                if left.currency == amount.currency && left.minor >= amount.minor =>
            {
                Ok(Self {
                    user: owed.user,
                    purpose: AccountPurpose::RefundsDue,
                    amount,
                    order: Some((campaign_ref, order.number)),
                })
            }
            _ => Err(LedgerError::RefundExceedsDue {
                owed: left,
                asked: amount,
            }),
        }
    }

    /// Withdrawal from a user's account.
    ///
    /// # Errors
    /// If the amount is out of range.
    pub fn withdrawal(user: &UserId, amount: Money) -> Result<Self, LedgerError> {
        in_range(amount)?;
        let user = user.clone();
        Ok(Self {
            user,
            purpose: AccountPurpose::User,
            amount,
            order: None,
        })
    }

    /// Transfer from one user's account to another's.
    ///
    /// # Errors
    /// [`LedgerError::SameUser`], or if the amount is out of range.
    pub fn transfer(user: &UserId, to: &UserId, amount: Money) -> Result<Self, LedgerError> {
        match user == to {
            true => Err(LedgerError::SameUser),
            false => Self::withdrawal(user, amount),
        }
    }

    /// Checks that the account of a user, which holds `held` afterwards, is in its range.
    ///
    /// # Errors
    /// [`LedgerError::Overflow`].
    pub fn check_credited(held: i64) -> Result<(), LedgerError> {
        match held <= MONEY_MINOR_MAX {
            true => Ok(()),
            false => Err(LedgerError::Overflow),
        }
    }

    /// Reversal of a part of a deposit, or of its remainder. `deposit` has the amount, owner and currency, and
    /// `reversed_minor` the minor units that were reversed before.
    ///
    /// # Errors
    /// [`LedgerError::UnknownDeposit`] if there is no deposit, or it is another user's.
    /// [`LedgerError::DepositExceeded`] if the remainder is less than the part, nothing remains, or the currency
    /// differs. [`LedgerError::AmountOutOfRange`].
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

    /// Account that funds the payout.
    #[must_use]
    pub fn account(&self) -> AccountKey<'_> {
        AccountKey::new(self.user.as_str(), self.purpose, self.amount.currency)
    }

    /// Checks that the account has enough money.
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
            // The order has more refunds due than the account of all its buyer's orders.
            AccountPurpose::RefundsDue => {
                LedgerError::damaged(format!("{} is owed {held}, less than {needed}", self.user))
            }
            _ => LedgerError::InsufficientFunds { held, needed },
        })
    }

    /// Checks that the outside account, which holds `held`, stays in its range.
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

/// A refund that was posted, to be reversed: its amount, and the account that it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedRefund {
    /// The buyer.
    pub user: UserId,
    /// Amount.
    pub amount: Money,
}

impl PostedRefund {
    /// Reads the refund of an order from the columns of its posting; `None` if there is no such refund.
    ///
    /// # Errors
    /// [`LedgerError::UnknownRefund`] if there is none, or it is of another order.
    pub fn from_columns(
        order: OrderId,
        columns: Option<PaidOutColumns>,
    ) -> Result<Self, LedgerError> {
        let columns = columns.ok_or(LedgerError::UnknownRefund)?;
        let (minor, _, owner, currency, campaign, number, _) = columns;
        let is_of_order =
            campaign == Some(order.campaign.to_string()) && number == Some(i64::from(order.number));
        if !is_of_order {
            return Err(LedgerError::UnknownRefund);
        }
        let damaged = |what: &str| LedgerError::damaged(format!("a refund has a bad {what}"));
        let currency: Currency = currency.parse().map_err(|_| damaged("currency"))?;
        Ok(Self {
            user: UserId::new(&owner).map_err(|_| damaged("user"))?,
            amount: Money::new(minor, currency),
        })
    }

    /// Account of the buyer's refunds due, which gets the money again.
    #[must_use]
    pub fn account(&self) -> AccountKey<'_> {
        let (owner, currency) = (self.user.as_str(), self.amount.currency);
        AccountKey::new(owner, AccountPurpose::RefundsDue, currency)
    }

    /// Checks that both accounts stay in their range: refunds due that hold `due`, and the outside account that holds
    /// `outside`.
    ///
    /// # Errors
    /// [`LedgerError::Overflow`].
    pub fn check(&self, due: i64, outside: i64) -> Result<(), LedgerError> {
        let room = -MONEY_MINOR_MAX..=MONEY_MINOR_MAX;
        let sums = [
            due.checked_add(self.amount.minor),
            outside.checked_sub(self.amount.minor),
        ];
        let fits = |sum: Option<i64>| sum.is_some_and(|sum| room.contains(&sum));
        match sums.into_iter().all(fits) {
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
