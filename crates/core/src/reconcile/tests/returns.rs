//! Repairs of orders with partial returns.

use super::*;

fn check(engine: &str, ledger: &str, kept: &str, (expected, append): (&str, &str)) {
    let case = format!("{engine} | {ledger} | {kept}");
    let found = repair(&Case {
        engine,
        ledger,
        kept,
        limit: Some(3),
        ..SALE
    });
    assert_eq!(found.rows, rows(expected), "{case}");
    assert_eq!(appended(&found), append, "{case}");
    assert_eq!(found.granted, found.rows.granted(), "{case}");
    assert_eq!(
        found.granted + found.remaining + found.withheld.units,
        found.supply + found.withheld.units,
        "{case}"
    );
}

/// A return that engine, ledger or node has is kept once, and its units are back.
#[test]
fn a_return_of_a_part_that_one_side_knows_is_kept_once() {
    let (paid, one) = ("1 ann 3 paid p", "1 ann 3 paid p k=1");
    let two = "1 ann 3 paid p k=1 l=1";
    check(one, paid, "", (one, "returned 1 1 k"));
    check(one, one, "", (one, ""));
    check(paid, paid, "returned 1 1 k", (one, "returned 1 1 k"));
    check(
        one,
        one,
        "returned 1 1 k, returned 1 1 l",
        (two, "returned 1 1 l"),
    );
    check(one, "1 ann 3 held", "", (one, "paid 1 p, returned 1 1 k"));
    check(
        "",
        "",
        "granted 1 ann 3 30, paid 1 p, returned 1 1 k",
        (one, "granted 1 ann 3 30, paid 1 p, returned 1 1 k"),
    );
}

/// The last partial return returns the order. A return of the rest follows the partial ones.
#[test]
fn parts_and_the_rest_return_the_order() {
    let (paid, one) = ("1 ann 3 paid p", "1 ann 3 paid p k=1");
    let all = "1 ann 3 returned p k=1";
    check(one, one, "returned 1", (all, "returned 1"));
    check(
        paid,
        paid,
        "returned 1, returned 1 1 k",
        (all, "returned 1 1 k, returned 1"),
    );
    check(all, paid, "", (all, "returned 1 1 k, returned 1"));
    let parts = "1 ann 3 paid p k=1 l=2";
    check(one, one, "returned 1 2 l", (parts, "returned 1 2 l"));
}

/// An order never returns more than it has, and the ledger's returns take precedence.
#[test]
fn returns_of_more_than_the_order_has_are_refused() {
    let one = "1 ann 3 paid p k=1";
    check(one, one, "returned 1 3 l", (one, ""));
    let returned = "1 ann 3 returned p";
    check(returned, returned, "returned 1 1 k", (returned, ""));
    let ledger = "1 ann 3 paid p l=2";
    let found = repair(&Case {
        engine: "1 ann 3 paid p k=2",
        ledger,
        ahead: true,
        limit: Some(3),
        ..SALE
    });
    assert_eq!(found.rows, rows(ledger));
    let refused = found.refused_returns.iter();
    let refused: Vec<_> = refused
        .map(|(number, key)| (*number, key.as_str()))
        .collect();
    assert_eq!(refused, [(1, "k")]);
    assert!(found.changed.contains(&1));
}

/// Without a payment no refund can be due, so the units stay with the held order.
#[test]
fn a_return_of_a_part_needs_the_payment() {
    let held = "1 ann 3 held";
    check(held, held, "returned 1 1 k", (held, ""));
}
