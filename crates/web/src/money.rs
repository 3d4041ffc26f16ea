//! Money in display form: `¥1,234.50`. `assets/qiang.js` formats it in the same way.

use iso_currency::Currency;
use serde_json::Value;

/// Signs of currencies; others are shown by code.
const SIGNS: [(&str, &str); 6] = [
    ("CNY", "¥"),
    ("EUR", "€"),
    ("GBP", "£"),
    ("INR", "₹"),
    ("JPY", "¥"),
    ("USD", "$"),
];

/// Formats an answer's `amount`, in minor units, and `currency`.
pub(crate) fn money(value: &Value) -> String {
    let amount = value["amount"].as_i64().unwrap_or(0);
    let currency = value["currency"].as_str().unwrap_or("");
    // Some ISO 4217 codes, such as gold, have no minor unit; their amounts are whole, as everywhere in the service.
    let known = Currency::from_code(currency);
    let digits = usize::from(known.and_then(Currency::exponent).unwrap_or(0));
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
fn grouped(digits: &str) -> String {
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
        check(1_234, "JPY", "¥1,234");
        check(100, "JPY", "¥100");
        check(1_234, "KWD", "KWD\u{a0}1.234");
        check(12_345, "CLF", "CLF\u{a0}1.2345");
        check(1_234, "UGX", "UGX\u{a0}1,234");
        check(5, "XAU", "XAU\u{a0}5");
        check(i64::MIN, "USD", "-$92,233,720,368,547,758.08");
    }
}
