//! Breaches of payments with other amounts, in a file that has a log.

use qiang_core::{
    book::PaymentOutcome,
    money::Money,
    payment::{PaymentPolicy, ReceivedMoney},
};

use super::{breaches::entry, history::World};

/// Adds sales that accept amounts other than their price.
pub(crate) fn accepted(world: &mut World) {
    let money = |minor| Money::new(minor, "CNY".parse().unwrap());
    world.payment_policy = PaymentPolicy::AcceptWithTolerance(3);
    let tolerant = world.sale("tolerant", (300, 5_000), 3, 1, 11);
    for (user, payment, received, outcome) in [
        (
            "ann",
            "p-10",
            ReceivedMoney::Accepted(money(10)),
            PaymentOutcome::Paid,
        ),
        (
            "bob",
            "p-13",
            ReceivedMoney::Accepted(money(13)),
            PaymentOutcome::Paid,
        ),
        (
            "cid",
            "p-15",
            ReceivedMoney::Other(money(15)),
            PaymentOutcome::RefundDue,
        ),
    ] {
        let order = world.buy(tolerant, user, 1);
        world.report(order, payment, received, outcome);
        if user == "bob" {
            world.take_back(order);
        }
    }
    world.payment_policy = PaymentPolicy::AcceptOver;
    let generous = world.sale("generous", (300, 5_000), 1, 1, 11);
    let order = world.buy(generous, "ann", 1);
    world.report(
        order,
        "p-500",
        ReceivedMoney::Accepted(money(500)),
        PaymentOutcome::Paid,
    );
    world.payment_policy = PaymentPolicy::default();
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
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
        (
            "an order paid beyond the tolerance",
            &["order_steps"],
            sql("UPDATE campaigns SET payment_tolerance = 1 WHERE ref = @tolerant"),
        ),
        (
            "an order paid by money that the sale does not accept",
            &["order_steps"],
            sql("UPDATE campaigns SET payment_policy = NULL WHERE ref = @generous"),
        ),
        (
            "accepted money owed back by an order that waits",
            &["order_steps"],
            sql("UPDATE campaigns SET payment_tolerance = 4 WHERE ref = @tolerant"),
        ),
        (
            "a return that owes the price instead of what was paid",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET amount = 11 WHERE kind = 'return' AND campaign = @tolerant"),
        ),
        (
            "an unknown payment policy",
            &["campaign_rules"],
            sql("UPDATE campaigns SET payment_policy = 'none' WHERE ref = @held"),
        ),
        (
            "a tolerance of another payment policy",
            &["campaign_rules"],
            sql("UPDATE campaigns SET payment_tolerance = 1 WHERE ref = @held"),
        ),
        (
            "a tolerance that is not below the first price",
            &["campaign_rules"],
            sql(
                "UPDATE campaigns SET payment_policy = 'accept_with_tolerance', payment_tolerance = 1000000 \
                 WHERE ref = @held",
            ),
        ),
    ]
}
