//! Money of payments: the order's price or another amount, and the policies that accept other amounts.

use std::{fmt, str::FromStr};

use crate::{
    money::{Currency, Money},
    string_enum::string_enum,
};

/// Outcome of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentOutcome {
    /// It pays the order.
    Paid,
    /// The order had expired, and its units could be reserved again: it pays the order.
    Reinstated,
    /// It does not pay the order, and a refund of it is due.
    RefundDue,
}

string_enum!(PaymentOutcome { Paid = "paid", Reinstated = "reinstated", RefundDue = "refund_due" });

/// Money of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceivedMoney {
    /// The order's price.
    #[default]
    Price,
    /// Another amount in the order's currency that the sale's policy accepts. It pays the order if the price would.
    Accepted(Money),
    /// Another amount, or another currency. It pays no order, and a refund is due to the buyer.
    Other(Money),
}

/// Amounts, other than the price, that pay an order of a sale in its currency. The policy is fixed when the sale is
/// created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PaymentPolicy {
    /// Only the price pays: for another amount a refund is due.
    #[default]
    Owed,
    /// Every amount above the price.
    AcceptOver,
    /// Amounts that differ from the price by at most this many minor units. An order with a price up to the tolerance
    /// accepts only its price.
    AcceptWithTolerance(i64),
}

/// Name of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentPolicyKind {
    /// See [`PaymentPolicy::Owed`].
    Owed,
    /// See [`PaymentPolicy::AcceptOver`].
    AcceptOver,
    /// See [`PaymentPolicy::AcceptWithTolerance`].
    AcceptWithTolerance,
}

string_enum!(PaymentPolicyKind {
    Owed = "owed",
    AcceptOver = "accept_over",
    AcceptWithTolerance = "accept_with_tolerance",
});

/// Error of a word that is no [`PaymentPolicyKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a payment policy is owed, accept_over or accept_with_tolerance")]
pub struct UnknownPaymentPolicy;

impl FromStr for PaymentPolicyKind {
    type Err = UnknownPaymentPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPaymentPolicy> {
        Self::from_name(name).ok_or(UnknownPaymentPolicy)
    }
}

impl PaymentPolicy {
    /// The policy of this name, with its tolerance in minor units. `None` if a tolerance is missing, is below 0, or
    /// belongs to another policy.
    #[must_use]
    pub fn from_parts(kind: PaymentPolicyKind, tolerance_minor: Option<i64>) -> Option<Self> {
        match (kind, tolerance_minor) {
            (PaymentPolicyKind::Owed, None) => Some(Self::Owed),
            (PaymentPolicyKind::AcceptOver, None) => Some(Self::AcceptOver),
            (PaymentPolicyKind::AcceptWithTolerance, Some(minor)) if minor >= 0 => {
                Some(Self::AcceptWithTolerance(minor))
            }
            _ => None,
        }
    }

    /// Name of the policy.
    #[must_use]
    pub fn kind(self) -> PaymentPolicyKind {
        match self {
            Self::Owed => PaymentPolicyKind::Owed,
            Self::AcceptOver => PaymentPolicyKind::AcceptOver,
            Self::AcceptWithTolerance(_) => PaymentPolicyKind::AcceptWithTolerance,
        }
    }

    /// Tolerance in minor units; `None` for a policy without one.
    #[must_use]
    pub fn tolerance_minor(self) -> Option<i64> {
        match self {
            Self::AcceptWithTolerance(minor) => Some(minor),
            Self::Owed | Self::AcceptOver => None,
        }
    }

    /// Whether a sale with this unit price may have the policy: a price of 0 allows only [`PaymentPolicy::Owed`], and a
    /// tolerance must be below the price.
    #[must_use]
    pub fn fits(self, unit_price_minor: i64) -> bool {
        match self {
            Self::Owed => true,
            Self::AcceptOver => unit_price_minor > 0,
            Self::AcceptWithTolerance(minor) => (0..unit_price_minor).contains(&minor),
        }
    }

    /// Whether an amount other than the price pays an order.
    fn accepts(self, arrived: Money, price: Money) -> bool {
        let difference = arrived.minor.checked_sub(price.minor);
        let is_same_currency = arrived.currency == price.currency;
        is_same_currency
            && self.fits(price.minor)
            && match self {
                Self::Owed => false,
                Self::AcceptOver => arrived.minor > price.minor,
                Self::AcceptWithTolerance(minor) => {
                    difference.is_some_and(|difference| difference.abs() <= minor)
                }
            }
    }
}

/// Outcome of a payment, with its money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentState {
    /// The outcome.
    pub outcome: PaymentOutcome,
    /// The money.
    pub received: ReceivedMoney,
}

impl PaymentState {
    /// State of a payment with this outcome. Money with a refund due becomes [`Received::Other`], and other money that
    /// paid its order becomes [`Received::Accepted`].
    #[must_use]
    pub fn new(outcome: PaymentOutcome, received: ReceivedMoney) -> Self {
        let received = match (outcome, received) {
            (PaymentOutcome::RefundDue, ReceivedMoney::Accepted(money)) => {
                ReceivedMoney::Other(money)
            }
            (PaymentOutcome::Paid | PaymentOutcome::Reinstated, ReceivedMoney::Other(money)) => {
                ReceivedMoney::Accepted(money)
            }
            (_, received) => received,
        };
        Self { outcome, received }
    }
}

impl ReceivedMoney {
    /// Compares received money with the order's price, under the sale's policy. An order that costs nothing accepts no
    /// money.
    #[must_use]
    pub fn new(arrived: Money, price: Money, policy: PaymentPolicy) -> Self {
        if arrived == price {
            Self::Price
        } else if policy.accepts(arrived, price) {
            Self::Accepted(arrived)
        } else {
            Self::Other(arrived)
        }
    }

    /// Whether the money pays a held order.
    #[must_use]
    pub fn pays(self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// The money, if the order has this price.
    #[must_use]
    pub fn money(self, price: Money) -> Money {
        match self {
            Self::Price => price,
            Self::Accepted(money) | Self::Other(money) => money,
        }
    }

    /// The money, if it is not the order's price.
    #[must_use]
    pub fn other(self) -> Option<Money> {
        match self {
            Self::Price => None,
            Self::Accepted(money) | Self::Other(money) => Some(money),
        }
    }

    /// Parses the last words of a text: minor units and currency of another amount, or nothing for the price. Another
    /// amount becomes [`Received::Other`]; [`PaymentState::new`] corrects it by the outcome.
    #[must_use]
    pub fn from_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let Some(minor) = words.next() else {
            return Some(Self::Price);
        };
        let minor = minor.parse().ok().filter(|minor| *minor > 0)?;
        let currency: Currency = words.next()?.parse().ok()?;
        words
            .next()
            .is_none()
            .then_some(Self::Other(Money::new(minor, currency)))
    }

    /// Reads the columns amount and currency of a payment. The currency is null for the price. Returns `None` for an
    /// unknown currency, and for another amount below 1. Another amount becomes [`Received::Other`];
    /// [`PaymentState::new`] corrects it by the outcome.
    #[must_use]
    pub fn from_columns(amount: i64, currency: Option<&str>) -> Option<Self> {
        match currency {
            None => Some(Self::Price),
            Some(_) if amount < 1 => None,
            Some(code) => Some(Self::Other(Money::new(amount, code.parse().ok()?))),
        }
    }
}

/// Writes the words that [`Received::from_words`] reads, each after a space.
impl fmt::Display for ReceivedMoney {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.other().map_or(Ok(()), |money| {
            write!(f, " {} {}", money.minor, money.currency)
        })
    }
}

impl From<PaymentOutcome> for PaymentState {
    /// State of a payment of the order's price.
    fn from(outcome: PaymentOutcome) -> Self {
        Self {
            outcome,
            received: ReceivedMoney::Price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_accept_amounts_of_the_same_currency() {
        let money = |minor, code: &str| Money::new(minor, code.parse().expect("a currency"));
        let within = PaymentPolicy::AcceptWithTolerance;
        for (policy, price, arrived, pays) in [
            (PaymentPolicy::Owed, 2_000, 2_001, false),
            (PaymentPolicy::Owed, 2_000, 2_000, true),
            (PaymentPolicy::AcceptOver, 2_000, 2_001, true),
            (PaymentPolicy::AcceptOver, 2_000, i64::MAX, true),
            (PaymentPolicy::AcceptOver, 2_000, 1_999, false),
            (PaymentPolicy::AcceptOver, 0, 1, false),
            (within(5), 2_000, 1_995, true),
            (within(5), 2_000, 1_994, false),
            (within(5), 2_000, 2_005, true),
            (within(5), 2_000, 2_006, false),
            (within(0), 2_000, 2_000, true),
            (within(0), 2_000, 1_999, false),
            (within(5), 6, 1, true),
            // The price was lowered to the tolerance.
            (within(5), 5, 1, false),
            (within(5), 5, 5, true),
            (within(5), 0, 1, false),
        ] {
            let (arrived, price) = (money(arrived, "CNY"), money(price, "CNY"));
            let received = ReceivedMoney::new(arrived, price, policy);
            assert_eq!(received.pays(), pays, "{arrived} of {price}: {policy:?}");
            assert_eq!(received.money(price), arrived);
            let other = money(arrived.minor, "EUR");
            let received = ReceivedMoney::new(other, price, policy);
            assert_eq!(received, ReceivedMoney::Other(other), "{policy:?}");
        }
    }

    #[test]
    fn policies_are_read_as_written() {
        for policy in [
            PaymentPolicy::Owed,
            PaymentPolicy::AcceptOver,
            PaymentPolicy::AcceptWithTolerance(0),
            PaymentPolicy::AcceptWithTolerance(7),
        ] {
            let (kind, tolerance) = (policy.kind(), policy.tolerance_minor());
            assert_eq!(PaymentPolicy::from_parts(kind, tolerance), Some(policy));
        }
        for (kind, tolerance) in [
            (PaymentPolicyKind::Owed, Some(1)),
            (PaymentPolicyKind::AcceptOver, Some(1)),
            (PaymentPolicyKind::AcceptWithTolerance, None),
            (PaymentPolicyKind::AcceptWithTolerance, Some(-1)),
        ] {
            assert_eq!(PaymentPolicy::from_parts(kind, tolerance), None);
        }
    }

    #[test]
    fn money_of_a_payment_follows_its_outcome() {
        let money = Money::new(7, "CNY".parse().expect("a currency"));
        for (outcome, expected) in [
            (PaymentOutcome::Paid, ReceivedMoney::Accepted(money)),
            (PaymentOutcome::Reinstated, ReceivedMoney::Accepted(money)),
            (PaymentOutcome::RefundDue, ReceivedMoney::Other(money)),
        ] {
            for received in [ReceivedMoney::Accepted(money), ReceivedMoney::Other(money)] {
                assert_eq!(PaymentState::new(outcome, received).received, expected);
            }
            let price = PaymentState::new(outcome, ReceivedMoney::Price);
            assert_eq!(price, outcome.into());
        }
    }

    #[test]
    fn words_are_read_as_written() {
        let other =
            |minor| ReceivedMoney::Other(Money::new(minor, "EUR".parse().expect("a currency")));
        for (received, text) in [(ReceivedMoney::Price, ""), (other(1_999), " 1999 EUR")] {
            assert_eq!(received.to_string(), text);
            let words = text.split_whitespace();
            assert_eq!(ReceivedMoney::from_words(words), Some(received));
        }
        for text in ["1999", "0 EUR", "-1 EUR", "1 EUR more", "1 Euro", "EUR 1"] {
            assert_eq!(ReceivedMoney::from_words(text.split(' ')), None, "{text}");
        }
    }

    #[test]
    fn columns_are_read_as_written() {
        let euro = Money::new(1, "EUR".parse().expect("a currency"));
        for (amount, currency, expected) in [
            (5, None, Some(ReceivedMoney::Price)),
            (0, None, Some(ReceivedMoney::Price)),
            (1, Some("EUR"), Some(ReceivedMoney::Other(euro))),
            (0, Some("EUR"), None),
            (-1, Some("EUR"), None),
            (1, Some("euro"), None),
        ] {
            let read = ReceivedMoney::from_columns(amount, currency);
            assert_eq!(read, expected, "{amount} {currency:?}");
        }
    }
}
