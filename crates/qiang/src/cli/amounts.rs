//! Reads and prints amounts of money: `299.00 CNY`, `300 JPY`.
//!
//! An amount has all decimals of its currency. So minor units are never confused with yuan.

use qiang::UsageError;
use qiang_client::{Currency, Money};
use qiang_core::money;

/// An amount as text, with its currency's decimals. If this program does not know the currency, the text has minor
/// units and says so.
pub(crate) fn shown(amount: &Money) -> String {
    match amount.currency.to_string().parse() {
        Ok(currency) => money::Money::new(amount.amount, currency).to_string(),
        Err(money::UnknownCurrency) => format!("{amount} (minor units)"),
    }
}

/// An amount with its currency's decimals, without the code. [`money`] parses it with the code.
///
/// # Errors
/// If this program does not know the currency.
pub(crate) fn decimal(amount: &Money) -> anyhow::Result<String> {
    let code = amount.currency;
    let currency: money::Currency = code.as_str().parse().map_err(|_| {
        anyhow::anyhow!("this program does not know the decimals of {code}: update it")
    })?;
    let shown = money::Money::new(amount.amount, currency).to_string();
    Ok(shown.split(' ').next().unwrap_or_default().to_owned())
}

/// Parses two words of the command line: an amount and its currency.
///
/// # Errors
/// [`UsageError`] that shows the right form.
pub(crate) fn money(words: &[String]) -> anyhow::Result<Money> {
    let [amount, code] = words else {
        return Err(UsageError::new("give an amount and a currency, such as 299.00 CNY").into());
    };
    let unknown = |error: &dyn std::fmt::Display| UsageError::new(format!("{code}: {error}"));
    let known = code.parse::<money::Currency>();
    let known = known.map_err(|error| unknown(&error))?;
    let digits = known.exponent() as usize;
    let minor = minor_units(amount, digits).ok_or_else(|| {
        let example = money::Money::new(299 * 10_i64.pow(known.exponent()), known);
        UsageError::new(match digits {
            0 => format!("{amount} is not an amount of {code}: it has no decimals, as in {example}"),
            1 => {
                format!("{amount} is not an amount of {code}: write it with 1 decimal, as in {example}")
            }
            _ => format!(
                "{amount} is not an amount of {code}: write it with {digits} decimals, as in {example}"
            ),
        })
    })?;
    let currency = code.parse::<Currency>();
    let currency = currency.map_err(|error| unknown(&error))?;
    Ok(Money::new(minor, currency))
}

/// Minor units of an amount with exactly `digits` decimals.
fn minor_units(text: &str, digits: usize) -> Option<i64> {
    let (whole, decimals) = match digits {
        0 => (text, ""),
        _ => text.split_once('.')?,
    };
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_amount = !whole.is_empty() && are_digits(whole) && are_digits(decimals);
    let is_exact = is_amount && decimals.len() == digits;
    is_exact
        .then(|| format!("{whole}{decimals}").parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly() {
        let check = |amount: &str, currency: &str, expected: Option<i64>| {
            let read = money(&[amount.to_owned(), currency.to_owned()]);
            assert_eq!(
                read.ok().map(|money| money.amount),
                expected,
                "{amount} {currency}"
            );
        };
        check("2.99", "CNY", Some(299));
        check("299.00", "CNY", Some(29_900));
        check("0.05", "CNY", Some(5));
        check("0.00", "CNY", Some(0));
        check("300", "JPY", Some(300));
        check("1.234", "KWD", Some(1_234));
        check("92233720368547758.07", "CNY", Some(i64::MAX));
        // Minor units or yuan: the program does not guess.
        check("299", "CNY", None);
        for wrong in [
            "299.",
            "299.0",
            "299.000",
            ".99",
            "-2.99",
            "+2.99",
            "2,99",
            "2.9x",
            "1e2.00",
            "",
            ".",
            "92233720368547758.08",
            "2.99 ",
        ] {
            check(wrong, "CNY", None);
        }
        check("300.00", "JPY", None);
        check("1.23", "KWD", None);
        check("2.99", "QQQ", None);
        check("2.99", "cny", None);
    }

    #[test]
    fn amounts_are_shown_as_they_are_written() {
        let check = |minor, currency: &str, expected: &str| {
            let amount = Money::new(minor, currency.parse().unwrap());
            assert_eq!(shown(&amount), expected);
        };
        check(299, "CNY", "2.99 CNY");
        check(-5, "CNY", "-0.05 CNY");
        check(300, "JPY", "300 JPY");
        check(7, "QQQ", "7 QQQ (minor units)");
        let decimal_of = |minor, code: &str| decimal(&Money::new(minor, code.parse().unwrap()));
        for (minor, code, expected) in [
            (299, "CNY", "2.99"),
            (-5, "CNY", "-0.05"),
            (300, "JPY", "300"),
        ] {
            assert_eq!(decimal_of(minor, code).unwrap(), expected);
        }
        assert!(decimal_of(7, "QQQ").is_err());
    }

    #[test]
    fn what_is_meant_is_said() {
        let said = |amount: &str, currency: &str| {
            let read = money(&[amount.to_owned(), currency.to_owned()]);
            read.unwrap_err().to_string()
        };
        let expected = "299 is not an amount of CNY: write it with 2 decimals, as in 299.00 CNY";
        assert_eq!(said("299", "CNY"), expected);
        let expected = "3.00 is not an amount of JPY: it has no decimals, as in 299 JPY";
        assert_eq!(said("3.00", "JPY"), expected);
    }
}
