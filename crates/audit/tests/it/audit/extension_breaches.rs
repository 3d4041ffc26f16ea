//! Breaches of orders with extended holds, in a file that has a log.

use qiang_core::{
    book::{Command, PaymentOutcome},
    id::OrderId,
};

use super::{breaches::entry, history::World};

fn extend(world: &World, order: OrderId, extension_ms: i64) {
    let command = Command::ExtendHold {
        order,
        extension_ms,
    };
    world.submit(command).unwrap();
}

/// Adds a sale with two extended holds: the first order is paid, and the second is cancelled.
pub(crate) fn extended(world: &mut World) {
    let sale = world.sale("held longer", (300, 5_000), 9, 3, 33);
    let paid = world.buy(sale, "ann", 1);
    extend(world, paid, 1_000);
    extend(world, paid, 1_000); // a replay
    world.pay(paid, "p-longer", PaymentOutcome::Paid);
    let gone = world.buy(sale, "bob", 1);
    extend(world, gone, 2_000);
    world.cancel(gone);
}

/// Each breach: its name, exactly the checks that must report it, and its changes.
pub(crate) fn breaches() -> Vec<(&'static str, &'static [&'static str], String)> {
    let sql = str::to_owned;
    let extended = |values: &str| entry("@held longer", 19, values);
    vec![
        (
            "an extension that its order lacks",
            &["orders_follow_log"],
            sql(
                "UPDATE orders SET hold_until = hold_until - 1000, extension_ms = 0
                 WHERE campaign = @held longer AND number = 1",
            ),
        ),
        (
            "an end of a hold without the extension",
            &["orders_follow_log"],
            sql("UPDATE orders SET hold_until = hold_until - 1000
                 WHERE campaign = @held longer AND number = 1"),
        ),
        (
            "a hold extended twice",
            &["order_steps"],
            extended("1, NULL, NULL, 1, NULL"),
        ),
    ]
}
