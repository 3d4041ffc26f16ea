//! Breaches of partially cancelled orders, in a file that has a log.

use qiang_core::{
    book::{Command, PaymentOutcome},
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::ReturnPart,
    payment::ReceivedMoney,
};

use super::{breaches::entry, history::World};

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).unwrap();
    Some(ReturnPart { quantity, key })
}

fn cancel(world: &World, order: OrderId, quantity: u32, key: &str) {
    let part = part(quantity, key);
    world.submit(Command::Cancel { order, part }).unwrap();
}

/// Pays money for an order with these cancelled units.
fn pay(world: &World, order: OrderId, (payment, minor, cancelled): (&str, i64, u32), pays: bool) {
    let money = Money::new(minor, "CNY".parse().unwrap());
    world
        .submit(Command::Pay {
            order,
            payment: PaymentRef::new(payment).unwrap(),
            paid_at: None,
            received: match pays {
                true => ReceivedMoney::Accepted(money),
                false => ReceivedMoney::Other(money),
            },
            cancelled,
        })
        .unwrap();
}

/// Adds a sale with partially cancelled orders: the first is paid and partially returned, the second is cancelled after
/// a payment of its old price, and the third is held after an early payment of what its rest costs.
pub(crate) fn cancelled(world: &mut World) {
    let sale = world.sale("cancelled in parts", (300, 5_000), 9, 3, 33);
    let paid = world.buy(sale, "ann", 3);
    cancel(world, paid, 1, "k1");
    cancel(world, paid, 1, "k1"); // a replay
    pay(world, paid, ("p-paid", 66, 1), true);
    let part = part(1, "r1");
    world.submit(Command::Return { order: paid, part }).unwrap();
    let gone = world.buy(sale, "bob", 3);
    cancel(world, gone, 1, "k1");
    pay(world, gone, ("p-gone", 99, 1), false);
    world.cancel(gone);
    let held = world.buy(sale, "cid", 3);
    pay(world, held, ("p-held", 33, 0), false);
    cancel(world, held, 1, "k1");
    cancel(world, held, 1, "k2");
    let late = world.buy(sale, "dan", 1);
    world.pay(late, "p-late", PaymentOutcome::Paid);
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = str::to_owned;
    let cancelled = |values: &str| entry("@cancelled in parts", 18, values);
    vec![
        (
            "a cancellation of a part gone",
            &["order_returns", "returns_follow_log"],
            sql("DELETE FROM order_returns
                 WHERE campaign = @cancelled in parts AND number = 1 AND kind = 'cancellation'"),
        ),
        (
            "a cancellation that owes money",
            &["order_returns", "returns_follow_log"],
            sql("UPDATE order_returns SET amount = 33
                 WHERE campaign = @cancelled in parts AND number = 3 AND key = 'k1'"),
        ),
        (
            "a cancellation that became a return",
            &["order_returns", "returns_follow_log"],
            sql("UPDATE order_returns SET kind = 'return'
                 WHERE campaign = @cancelled in parts AND number = 2 AND key = 'k1'"),
        ),
        (
            "a cancelled unit that its order kept",
            &["orders_follow_log"],
            sql("UPDATE orders SET quantity = 2, amount = 66
                 WHERE campaign = @cancelled in parts AND number = 3"),
        ),
        (
            "a price that did not fall",
            &["orders_follow_log"],
            sql("UPDATE orders SET amount = 99
                 WHERE campaign = @cancelled in parts AND number = 3"),
        ),
        (
            "the last unit cancelled as a part",
            &["order_steps"],
            cancelled("3, NULL, 1, NULL, 'k3'"),
        ),
        (
            "a part cancelled of a paid order",
            &["order_steps"],
            cancelled("1, NULL, 1, NULL, 'k3'"),
        ),
        (
            "one key that cancels twice",
            &["order_steps"],
            cancelled("3, NULL, 1, NULL, 'k1'"),
        ),
        (
            "a part cancelled without a key",
            &["log_entries", "order_steps"],
            cancelled("3, NULL, 1, NULL, NULL"),
        ),
        (
            "the price of all units for the rest",
            &[
                "order_steps",
                "payment_postings",
                "payments_follow_log",
                "returns_follow_log",
            ],
            sql("UPDATE events SET amount = NULL, note = 'p-paid' WHERE note = 'p-paid CNY'"),
        ),
    ]
}
