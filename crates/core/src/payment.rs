//! Money of payments: the order's price, or another amount.

use std::fmt;

use crate::{
    money::{Currency, Money},
    words::words,
};

/// What became of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentOutcome {
    /// The order is paid by it.
    Paid,
    /// The order had expired and could be reserved again: it is paid by it.
    Reinstated,
    /// It does not pay the order and is owed back.
    RefundDue,
}

words!(PaymentOutcome { Paid = "paid", Reinstated = "reinstated", RefundDue = "refund_due" });

/// Money that a payment brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Received {
    /// The order's price.
    #[default]
    Price,
    /// Another amount, or another currency. It pays no order and is owed to the buyer.
    Other(Money),
}

/// Outcome of a payment, and the money that it brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentState {
    /// The outcome.
    pub outcome: PaymentOutcome,
    /// The money.
    pub received: Received,
}

impl Received {
    /// Compares the money that arrived with the order's price.
    #[must_use]
    pub fn new(arrived: Money, price: Money) -> Self {
        match arrived == price {
            true => Self::Price,
            false => Self::Other(arrived),
        }
    }

    /// The money, for an order of this price.
    #[must_use]
    pub fn money(self, price: Money) -> Money {
        match self {
            Self::Price => price,
            Self::Other(money) => money,
        }
    }

    /// The money, if it is not the order's price.
    #[must_use]
    pub fn other(self) -> Option<Money> {
        match self {
            Self::Price => None,
            Self::Other(money) => Some(money),
        }
    }

    /// Reads the last words of a text: minor units and currency of another amount, or nothing for the price.
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

    /// Reads the columns amount and currency of a payment. The currency is null if the price arrived. `None` for an
    /// unknown currency, and for another amount that is less than 1.
    #[must_use]
    pub fn from_columns(amount: i64, currency: Option<&str>) -> Option<Self> {
        match currency {
            None => Some(Self::Price),
            Some(_) if amount < 1 => None,
            Some(code) => Some(Self::Other(Money::new(amount, code.parse().ok()?))),
        }
    }
}

/// The words that [`Received::from_words`] reads, each after a space.
impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.other().map_or(Ok(()), |money| {
            write!(f, " {} {}", money.minor, money.currency)
        })
    }
}

impl From<PaymentOutcome> for PaymentState {
    /// The outcome of a payment of the order's price.
    fn from(outcome: PaymentOutcome) -> Self {
        Self {
            outcome,
            received: Received::Price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_written() {
        let other = |minor| Received::Other(Money::new(minor, "EUR".parse().expect("a currency")));
        for (received, text) in [(Received::Price, ""), (other(1_999), " 1999 EUR")] {
            assert_eq!(received.to_string(), text);
            let words = text.split_whitespace();
            assert_eq!(Received::from_words(words), Some(received));
        }
        for text in ["1999", "0 EUR", "-1 EUR", "1 EUR more", "1 Euro", "EUR 1"] {
            assert_eq!(Received::from_words(text.split(' ')), None, "{text}");
        }
    }

    #[test]
    fn columns_are_read_as_written() {
        let euro = Money::new(1, "EUR".parse().expect("a currency"));
        for (amount, currency, expected) in [
            (5, None, Some(Received::Price)),
            (0, None, Some(Received::Price)),
            (1, Some("EUR"), Some(Received::Other(euro))),
            (0, Some("EUR"), None),
            (-1, Some("EUR"), None),
            (1, Some("euro"), None),
        ] {
            let read = Received::from_columns(amount, currency);
            assert_eq!(read, expected, "{amount} {currency:?}");
        }
    }
}
