//! Money in display form: `¥1,234.50`. `assets/qiang.js` formats it in the same way, by the tables of this module.

use std::fmt::Write as _;

use iso_currency::Currency;
use serde_json::Value;

/// Signs of currencies, each of one currency only; others are shown by code.
const SIGNS: [(&str, &str); 6] = [
    ("CNY", "¥"),
    ("EUR", "€"),
    ("GBP", "£"),
    ("INR", "₹"),
    ("JPY", "JP¥"),
    ("USD", "$"),
];

/// Digits of the minor unit; `None` if pages take no amounts of the currency. Some ISO 4217 codes, such as gold, have
/// no minor unit: their amounts are whole, as in the whole service.
fn digits(code: &str) -> Option<usize> {
    let known = Currency::from_code(code).filter(|known| *known != Currency::XXX)?;
    Some(usize::from(known.exponent().unwrap_or(0)))
}

/// All codes of three capitals.
fn codes() -> impl Iterator<Item = String> {
    let letters = || 'A'..='Z';
    let pairs = letters().flat_map(move |a| letters().map(move |b| (a, b)));
    pairs.flat_map(move |(a, b)| letters().map(move |c| String::from_iter([a, b, c])))
}

/// Codes of all currencies, in groups with the number of their digits: `0 BIF CLP|2 AED`.
pub(crate) fn digits_for_scripts() -> String {
    let mut groups: [String; 5] = std::array::from_fn(|digits| digits.to_string());
    for code in codes() {
        if let Some(group) = digits(&code).and_then(|digits| groups.get_mut(digits)) {
            // Writing into a string does not fail.
            let _ = write!(group, " {code}");
        }
    }
    let groups = groups.into_iter().filter(|group| group.len() > 1);
    groups.collect::<Vec<_>>().join("|")
}

/// Currencies with signs: `CNY¥ EUR€`.
pub(crate) fn signs_for_scripts() -> String {
    SIGNS.map(|(code, sign)| format!("{code}{sign}")).join(" ")
}

/// Formats an answer's `amount`, in minor units, and `currency`.
pub(crate) fn money(value: &Value) -> String {
    let amount = value["amount"].as_i64().unwrap_or(0);
    let currency = value["currency"].as_str().unwrap_or("");
    let digits = digits(currency).unwrap_or(0);
    let text = format!("{:0width$}", amount.unsigned_abs(), width = digits + 1);
    let (whole, rest) = text.split_at(text.len() - digits);
    let point = if digits > 0 { "." } else { "" };
    let minus = if amount < 0 { "-" } else { "" };
    let sign = SIGNS.iter().find(|(code, _)| *code == currency);
    let sign = sign.map_or_else(
        || format!("{currency}\u{a0}"),
        |(_, sign)| (*sign).to_owned(),
    );
    format!("{minus}{sign}{}{point}{rest}", grouped(whole))
}

/// Digits in groups of three.
pub(crate) fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn money_is_written_in_its_currencys_digits() {
        let check = |amount: i64, currency: &str, expected: &str| {
            assert_eq!(
                money(&json!({ "amount": amount, "currency": currency })),
                expected
            );
        };
        check(1_234, "CNY", "¥12.34");
        check(500, "CNY", "¥5.00");
        check(123_456_789, "CNY", "¥1,234,567.89");
        check(-5, "EUR", "-€0.05");
        check(1_234, "JPY", "JP¥1,234");
        check(100, "JPY", "JP¥100");
        check(1_234, "KWD", "KWD\u{a0}1.234");
        check(12_345, "CLF", "CLF\u{a0}1.2345");
        check(1_234, "UGX", "UGX\u{a0}1,234");
        check(5, "XAU", "XAU\u{a0}5");
        check(i64::MIN, "USD", "-$92,233,720,368,547,758.08");
    }

    #[test]
    fn each_sign_is_of_one_currency() {
        let signs: std::collections::BTreeSet<_> = SIGNS.iter().map(|(_, sign)| sign).collect();
        assert_eq!(signs.len(), SIGNS.len());
    }

    /// The core's table of digits is the service's. Pages and their scripts have the same one.
    #[test]
    fn pages_and_scripts_have_the_digits_of_the_core() {
        let for_scripts = digits_for_scripts();
        let mut listed = std::collections::BTreeMap::new();
        for group in for_scripts.split('|') {
            let (digits, codes) = group.split_once(' ').unwrap();
            listed.extend(codes.split(' ').map(|code| (code, digits.parse().unwrap())));
        }
        for code in codes() {
            let known = code.parse::<qiang_core::money::Currency>().ok();
            let known = known.filter(|known| known.is_money());
            let expected = known.map(|known| known.exponent() as usize);
            assert_eq!(digits(&code), expected, "{code}");
            assert_eq!(listed.remove(&*code), expected, "{code} in scripts");
        }
        assert!(listed.is_empty(), "{listed:?}");
    }
}
