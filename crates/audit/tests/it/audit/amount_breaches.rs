//! Breaches of payments of other amounts, in a file that has a log.

use super::breaches::entry;

/// What each breach is, the checks that must report it and no others, and how it is made.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = str::to_owned;
    let due = |amount: &str, note: &str| {
        let values = format!("1, NULL, NULL, {amount}, '{note}'");
        entry("@held", 6, &values)
    };
    vec![
        (
            "another amount as the price",
            &["payments_follow_log"],
            sql("UPDATE payments SET currency = NULL WHERE payment = 'p-less'"),
        ),
        (
            "another amount owed in part",
            &["balances", "payment_postings"],
            sql(
                "UPDATE postings SET amount = 1 WHERE kind = 'refund_due' AND campaign = @amounts AND amount = 7",
            ),
        ),
        (
            "the price as another amount",
            &["order_steps"],
            due(
                "(SELECT amount FROM orders WHERE campaign = @held)",
                "p-x CNY",
            ),
        ),
        (
            "a currency without an amount",
            &["log_entries"],
            due("NULL", "p-x EUR"),
        ),
        (
            "an amount without a currency",
            &["log_entries", "order_steps"],
            due("5", "p-x"),
        ),
        (
            "a payment of nothing",
            &["log_entries"],
            due("0", "p-x EUR"),
        ),
    ]
}
