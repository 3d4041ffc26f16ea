//! Money: whole minor units of one currency.

use std::{fmt, str::FromStr};

/// The largest single amount that Qiang accepts, such as a deposit or a red packet's total. It equals ten trillion
/// units of a currency with two digits; an account can hold thousands of such amounts.
pub const AMOUNT_MINOR_MAX: i64 = 1_000_000_000_000_000;
/// The maximum total of all accounts of a currency when a deposit or a payment is received: half of the range of 64
/// bits. The other half is for entries that are in flight to the ledger then.
pub const MONEY_MINOR_MAX: i64 = i64::MAX / 2;

/// Error of a text that is no ISO 4217 code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a currency is an ISO 4217 code in capitals, such as CNY")]
pub struct UnknownCurrency;

/// An ISO 4217 currency.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// Number of decimal digits of the minor unit: 2 for CNY, 0 for JPY. 0 also if ISO 4217 has no minor unit, as for
    /// gold. The service has no other table of digits, and pages read this one.
    pub fn exponent(self) -> u32 {
        self.0.exponent().map_or(0, u32::from)
    }

    /// Whether it is a real currency: `XXX` means no currency. Older rows may have it.
    pub fn is_money(self) -> bool {
        self.0 != iso_currency::Currency::XXX
    }

    /// The three-letter code.
    pub fn code(self) -> &'static str {
        self.0.code()
    }
}

impl FromStr for Currency {
    type Err = UnknownCurrency;
    fn from_str(code: &str) -> Result<Self, UnknownCurrency> {
        iso_currency::Currency::from_code(code)
            .map(Self)
            .ok_or(UnknownCurrency)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// An amount in whole minor units (fen, cents) of one currency. May be negative; never a float.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    /// Minor units.
    pub minor: i64,
    /// The currency that the minor units belong to.
    pub currency: Currency,
}

impl Money {
    /// An amount in minor units.
    pub fn new(minor: i64, currency: Currency) -> Self {
        Self { minor, currency }
    }
}

impl fmt::Display for Money {
    /// Major units with the currency's digits, then the code: `12.30 CNY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.minor < 0 { "-" } else { "" };
        let digits = self.currency.exponent();
        let scale = 10_u64.pow(digits);
        let (major, minor) = (
            self.minor.unsigned_abs() / scale,
            self.minor.unsigned_abs() % scale,
        );
        if digits == 0 {
            write!(f, "{sign}{major} {}", self.currency)
        } else {
            write!(
                f,
                "{sign}{major}.{minor:0width$} {}",
                self.currency,
                width = digits as usize
            )
        }
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(minor: i64, code: &str) -> Money {
        Money::new(minor, code.parse().unwrap())
    }

    #[test]
    fn prints_by_the_currencys_digits() {
        let check = |minor, code, text: &str| assert_eq!(money(minor, code).to_string(), text);
        check(1230, "CNY", "12.30 CNY");
        check(-5, "CNY", "-0.05 CNY");
        check(1230, "JPY", "1230 JPY");
        check(1230, "KWD", "1.230 KWD");
        check(i64::MIN, "CNY", "-92233720368547758.08 CNY");
    }

    /// The full list of ISO 4217. Currencies in no line have two digits.
    #[test]
    fn digits_are_those_of_iso_4217() {
        let lines = [
            (
                0,
                "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
            ),
            (3, "BHD IQD JOD KWD LYD OMR TND"),
            (4, "CLF UYW"),
            // No minor unit.
            (0, "XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX"),
        ];
        let digits_of = |code: &str| {
            let mut lines = lines.iter();
            let line = lines.find(|(_, codes)| codes.split(' ').any(|it| it == code));
            line.map_or(2, |(digits, _)| *digits)
        };
        let letters = || 'A'..='Z';
        let (mut known, mut listed) = (0, 0);
        for code in letters().flat_map(|a| {
            letters().flat_map(move |b| letters().map(move |c| String::from_iter([a, b, c])))
        }) {
            if let Ok(currency) = code.parse::<Currency>() {
                assert_eq!(currency.exponent(), digits_of(&code), "{code}");
                known += 1;
                listed += u32::from(digits_of(&code) != 2);
            }
        }
        assert_eq!((known > 170, listed), (true, 39), "{known}");
    }

    #[test]
    fn currencies_are_iso_4217() {
        assert_eq!("cny".parse::<Currency>(), Err(UnknownCurrency));
        assert_eq!("QQQ".parse::<Currency>(), Err(UnknownCurrency));
        assert_eq!("CNY".parse::<Currency>().map(Currency::exponent), Ok(2));
        assert_eq!("CNY".parse::<Currency>().map(Currency::is_money), Ok(true));
        assert_eq!("XXX".parse::<Currency>().map(Currency::is_money), Ok(false));
    }
}
