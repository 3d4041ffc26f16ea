//! Repairs of orders with partial cancellations.

use super::*;

#[track_caller]
fn check(engine: &str, ledger: &str, kept: &str, (expected, append): (&str, &str)) -> Repair {
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
    assert_eq!(found.granted + found.remaining, found.supply, "{case}");
    found
}

/// A cancellation that engine, ledger or node has is kept once, and its unit is back.
#[test]
fn a_cancelled_part_that_one_side_knows_is_kept_once() {
    let (held, one) = ("1 ann 3 held", "1 ann 3 held ~k=1");
    let cut = "part_cancelled 1 1 k";
    check(one, one, "", (one, ""));
    check(one, held, "", (one, cut));
    check(held, one, "", (one, ""));
    check(held, held, cut, (one, cut));
    check(one, one, cut, (one, ""));
    let two = "1 ann 3 held ~k=1 ~l=1";
    check(one, "1 ann 3 held ~l=1", "", (two, cut));
    let gone = "1 ann 3 cancelled ~k=1";
    let both = "part_cancelled 1 1 k, cancelled 1";
    check(gone, held, "", (gone, both));
    check(one, one, "cancelled 1", (gone, "cancelled 1"));
    check(
        "",
        "",
        "granted 1 ann 3 30, part_cancelled 1 1 k",
        (one, "granted 1 ann 3 30, part_cancelled 1 1 k"),
    );
}

/// The payment of the rest follows the cancellation, in any order of answers.
#[test]
fn the_price_of_the_rest_pays_after_its_cancellation() {
    let (held, paid) = ("1 ann 3 held", "1 ann 3 paid ~k=1 p:20");
    let both = "part_cancelled 1 1 k, paid 1 p 20 CNY";
    check(paid, held, "", (paid, both));
    check(held, paid, "", (paid, ""));
    check(held, held, both, (paid, both));
    check(
        held,
        held,
        "paid 1 p 20 CNY, part_cancelled 1 1 k",
        (paid, both),
    );
    let returned = "1 ann 3 paid ~k=1 p:20 r=1";
    check(
        returned,
        held,
        "",
        (returned, &format!("{both}, returned 1 1 r")),
    );
}

/// A node kept a payment of the rest, and no source has each cancellation before it: the missing units are cancelled.
/// So the buyer has the units that the money is for.
#[test]
fn the_price_of_the_rest_pays_for_no_more_units() {
    let held = "1 ann 3 held";
    let sum = "part_cancelled 1 1 cancelled-before-payment";
    let paid = "1 ann 3 paid ~cancelled-before-payment=1 p:20";
    let both = format!("{sum}, paid 1 p 20 CNY");
    check(held, held, &both, (paid, &both));
    check(
        held,
        held,
        &format!("paid 1 p 20 CNY, {sum}"),
        (paid, &both),
    );
    let granted = format!("granted 1 ann 3 30, {both}");
    check("", "", &granted, (paid, &granted));
    // Known parts count first.
    let known = "1 ann 3 paid ~k=1 p:20";
    let cut = "part_cancelled 1 1 k, paid 1 p 20 CNY";
    for kept in [
        format!("{sum}, part_cancelled 1 1 k, paid 1 p 20 CNY"),
        format!("paid 1 p 20 CNY, part_cancelled 1 1 k, {sum}"),
    ] {
        check(held, held, &kept, (known, cut));
    }
    let one = "1 ann 3 held ~k=1";
    check(one, one, &both, (known, "paid 1 p 20 CNY"));
    check(one, held, &both, (known, cut));
    // One of two parts is known; a sum that an earlier payment left does not count again.
    let two = "1 ann 3 paid ~k=1 ~cancelled-before-payment=1 p:10";
    let sums = format!("{sum}, part_cancelled 1 2 cancelled-before-payment, paid 1 p 10 CNY");
    check(one, one, &sums, (two, &format!("{sum}, paid 1 p 10 CNY")));
}

/// The ledger has a cancellation that the engine lost before the price of all units paid the order. The money is no
/// longer its price: it is owed back, and the order waits for the price of the rest.
#[test]
fn the_price_of_all_units_pays_no_rest() {
    let due = "1 ann 3 held ~k=1 -p:30";
    let append = "refund_due 1 p 30 CNY";
    check("1 ann 3 paid p", "1 ann 3 held ~k=1", "", (due, append));
    let cut = "part_cancelled 1 1 k";
    let kept = format!("paid 1 p, {cut}");
    check(
        "1 ann 3 held",
        "1 ann 3 held",
        &kept,
        (due, &format!("{cut}, {append}")),
    );
    // The price of the engine's other units pays nothing.
    let due = "1 ann 3 held ~k=1 -p:10";
    let append = "refund_due 1 p 10 CNY";
    let engine = "1 ann 3 paid ~l=2 p:10";
    let found = check(engine, "1 ann 3 held ~k=1", "", (due, append));
    assert_eq!(found.refused_parts.len(), 1);
}

/// A cancellation that the ledger does not have is not kept if the order left its hold there.
#[test]
fn no_part_of_an_order_that_left_its_hold_is_cancelled() {
    for ledger in ["1 ann 3 paid p", "1 ann 3 expired", "1 ann 3 cancelled"] {
        let found = check("1 ann 3 held ~k=1", ledger, "", (ledger, ""));
        let refused: Vec<_> = found.refused_parts.iter().map(|it| it.1.as_str()).collect();
        assert_eq!(refused, ["k"], "{ledger}");
        assert!(found.changed.contains(&1));
        check("1 ann 3 held", ledger, "part_cancelled 1 1 k", (ledger, ""));
    }
}

/// All cancellations together leave at least one unit, and a key names one part.
#[test]
fn cancellations_leave_a_unit() {
    let found = check(
        "1 ann 3 held ~k=2",
        "1 ann 3 held ~l=1",
        "",
        ("1 ann 3 held ~l=1", ""),
    );
    assert_eq!(found.refused_parts.len(), 1);
    let ledger = "1 ann 3 paid ~k=1 p:20";
    check(ledger, ledger, "returned 1 1 k", (ledger, ""));
}

/// Rows of cancellations that were deleted by hand are put back, and nothing else.
#[test]
fn deleted_cancellations_are_restored() {
    let engine = EnginePart {
        rows: rows("1 ann 3 held ~k=1 ~l=1"),
        shares: Vec::new(),
        supply: 5,
        funded_minor: 0,
        numbered: 1,
    };
    let facts = facts(CampaignKind::Sale, 3);
    let mut ledger = engine.rows.clone();
    assert_eq!(deleted_orders(&facts, &engine, &ledger, true), []);
    ledger
        .cancellations
        .retain(|(_, key), _| key.as_str() == "k");
    let found = deleted_orders(&facts, &engine, &ledger, true);
    let [order] = &found[..] else {
        panic!("{found:?}")
    };
    let keys: Vec<_> = order.cancellations.keys().map(|key| key.as_str()).collect();
    assert_eq!((keys, order.row.cancelled), (vec!["l"], 2));
    // A row of the order that has other units contradicts the engine.
    ledger.grants.get_mut(&1).unwrap().cancelled = 1;
    assert_eq!(deleted_orders(&facts, &engine, &ledger, true), []);
}
