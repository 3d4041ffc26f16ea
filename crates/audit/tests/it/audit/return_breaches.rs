//! Breaches of partially returned orders, in a file that has a log.

use qiang_core::{
    book::{Command, PaymentOutcome},
    id::{IdempotencyKey, OrderId},
    money::Money,
    order::ReturnPart,
    payment::{PaymentPolicy, ReceivedMoney},
};

use super::{breaches::entry, history::World};

fn give(world: &World, order: OrderId, quantity: u32, key: &str) {
    let key = IdempotencyKey::new(key).unwrap();
    let part = Some(ReturnPart { quantity, key });
    world.submit(Command::Return { order, part }).unwrap();
}

/// Adds a sale with partially returned orders: some units of the first, all of the second in parts, and all of the
/// third at once.
pub(crate) fn returned(world: &mut World) {
    world.payment_policy = PaymentPolicy::AcceptOver;
    let sale = world.sale("returned in parts", (300, 5_000), 9, 3, 33);
    world.payment_policy = PaymentPolicy::default();
    let more = ReceivedMoney::Accepted(Money::new(100, "CNY".parse().unwrap()));
    let buy = |user: &str, payment: &str, received| {
        let order = world.buy(sale, user, 3);
        world.report(order, payment, received, PaymentOutcome::Paid);
        order
    };
    let some = buy("ann", "p-some", more);
    give(world, some, 1, "k1");
    give(world, some, 1, "k1"); // a replay
    give(world, some, 1, "k2");
    let all = buy("bob", "p-all", more);
    give(world, all, 1, "k1");
    world.take_back(all);
    let once = buy("cid", "p-once", ReceivedMoney::Price);
    give(world, once, 3, "k1");
}

/// Adds a sale with one order of very many units, nearly all of which are returned.
pub(crate) fn returned_of_many(world: &mut World) {
    const UNITS: u32 = 4_000_000_000;
    world.payment_policy = PaymentPolicy::AcceptOver;
    let sale = world.sale("many", (0, 5_000), UNITS, UNITS, 1);
    let order = world.buy(sale, "ann", UNITS);
    let paid = Money::new(2 * i64::from(UNITS) - 1, "CNY".parse().unwrap());
    world.report(
        order,
        "p",
        ReceivedMoney::Accepted(paid),
        PaymentOutcome::Paid,
    );
    give(world, order, UNITS - 9, "k1");
    give(world, order, 1, "k2");
    give(world, order, 7, "k3");
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = str::to_owned;
    let returned = |values: &str| entry("@returned in parts", 16, values);
    vec![
        (
            "a return of a part gone",
            &["order_returns", "returns_follow_log"],
            sql(
                "DELETE FROM order_returns WHERE campaign = @returned in parts AND number = 1 AND key = 'k1'",
            ),
        ),
        (
            "a part for more than it is worth",
            &["order_returns", "returns_follow_log"],
            sql(
                "UPDATE order_returns SET amount = amount + 1 WHERE campaign = @returned in parts AND number = 2",
            ),
        ),
        (
            "a return under another key",
            &["returns_follow_log"],
            sql(
                "UPDATE order_returns SET key = 'x' WHERE campaign = @returned in parts AND number = 2",
            ),
        ),
        (
            "a unit returned without a return",
            &["order_returns"],
            sql(
                "UPDATE orders SET returned_in_parts = 2 WHERE campaign = @returned in parts AND number = 2",
            ),
        ),
        (
            "a return that its order forgot",
            &["order_returns", "refunds_due"],
            sql(
                "UPDATE orders SET returned_in_parts = 1 WHERE campaign = @returned in parts AND number = 1",
            ),
        ),
        (
            "a part posted for less",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET amount = 1
                 WHERE kind = 'return' AND campaign = @returned in parts AND number = 1"),
        ),
        (
            "the rest posted for all",
            &["balances", "payment_postings"],
            sql("UPDATE postings SET amount = 100
                 WHERE kind = 'return' AND campaign = @returned in parts AND number = 2 AND amount = 67"),
        ),
        (
            "one key that returns twice",
            &["order_steps"],
            returned("1, NULL, 1, NULL, 'k1'"),
        ),
        (
            "more units returned than bought",
            &["no_oversell", "order_steps", "user_limit"],
            returned("1, NULL, 2, NULL, 'k3'"),
        ),
        (
            "a part of an order that is returned",
            &["order_steps", "user_limit"],
            returned("2, NULL, 1, NULL, 'k3'"),
        ),
        (
            "a part without a key",
            &["log_entries"],
            returned("1, NULL, 1, NULL, NULL"),
        ),
        (
            "a return of no unit",
            &["log_entries", "order_steps"],
            returned("1, NULL, 0, NULL, 'k3'"),
        ),
    ]
}
