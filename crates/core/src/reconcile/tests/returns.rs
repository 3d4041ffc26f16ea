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
    let refused = found.refused_parts.iter();
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

/// The order's row in the ledger has the number of returned units. A return whose own row was deleted restocks nothing
/// again, in any order of answers. A larger return is another one.
#[test]
fn a_return_whose_row_was_deleted_gives_no_units_again() {
    let check = |(returned, ledger): (u32, &str), engine: &str, kept: &str, append: &str, left| {
        let mut ledger = rows(ledger);
        for row in ledger.grants.values_mut() {
            row.returned = returned;
        }
        ledger.count_parts();
        let case = Case {
            engine,
            kept,
            limit: Some(4),
            ..SALE
        };
        let found = repair_with(&case, ledger);
        assert_eq!(appended(&found), append, "{engine} | {kept}");
        assert_eq!(found.remaining, left, "{engine} | {kept}");
        assert_eq!(found.granted + found.remaining, found.supply);
        // No key is forgotten: a repeated request is a replay.
        assert_eq!(found.refused_parts, []);
        found
    };
    let paid = "1 ann 4 paid p";
    let (one, two) = ("1 ann 4 paid p k=1", "1 ann 4 paid p k=1 l=1");
    check((1, paid), one, "", "", 2);
    check((1, paid), paid, "", "", 2);
    check((1, paid), paid, "returned 1 1 k", "", 2);
    check((2, paid), two, "", "", 3);
    check((2, one), two, "", "", 3);
    // Which one of the two is settled is not known: the other one returns nothing either, and is named.
    let found = check((1, paid), two, "", "", 2);
    assert_eq!(found.conflicts.len(), 1);
    for kept in [
        "returned 1 1 k, returned 1 1 l",
        "returned 1 1 l, returned 1 1 k",
    ] {
        let found = check((1, paid), paid, kept, "", 2);
        assert_eq!(found.conflicts.len(), 1, "{kept}");
        let found = check((2, paid), paid, kept, "", 3);
        assert_eq!(found.conflicts, [], "{kept}");
    }
    // Engine and node have one each.
    let found = check((1, paid), one, "returned 1 1 l", "", 2);
    let named = found.conflicts[0].to_string();
    let rows = "engine ann 4 40 paid, 2 returned; ledger ann 4 40 paid, 1 returned";
    assert!(named.contains(rows), "{named}");
    for kept in [
        "returned 1 1 k, returned 1 2 l",
        "returned 1 2 l, returned 1 1 k",
    ] {
        let found = check((1, paid), paid, kept, "returned 1 2 l", 4);
        assert_eq!(found.rows.grants[&1].returned, 3);
        assert_eq!(found.conflicts, []);
    }
    // The rest is returned in one entry, which owes what the settled returns have left.
    let all = "1 ann 4 returned p k=1 l=1 m=2";
    check((1, paid), all, "", "returned 1 2 m, returned 1", 5);
}

/// Nodes do not know the places of steps in the log. The return and its payment count before the grant that had the
/// returned units, or the room in the user's limit.
#[test]
fn kept_answers_in_any_order_keep_a_return() {
    let steps = [
        "granted 1 ann 5 50",
        "granted 2 ann 1 10",
        "paid 1 p",
        "returned 1 1 k",
    ];
    let all = "1 ann 5 paid p k=1, 2 ann 1 held";
    let entry = "granted 1 ann 5 50, paid 1 p, returned 1 1 k, granted 2 ann 1 10";
    let both = |order: [usize; 4]| order.map(|place| steps[place]).join(", ");
    for order in [
        [0, 1, 2, 3],
        [3, 2, 0, 1],
        [2, 3, 0, 1],
        [3, 0, 2, 1],
        [0, 2, 3, 1],
        [0, 1, 3, 2],
    ] {
        let kept = both(order);
        let found = repair(&Case {
            kept: &kept,
            limit: Some(5),
            ..SALE
        });
        assert_eq!(found.rows, rows(all), "{kept}");
        assert_eq!(appended(&found), entry, "{kept}");
    }
    // A chain: each return gives the room that the next payment needs.
    let known = "1 ann 3 expired, 2 bob 3 expired, 3 cat 3 held";
    let kept = [
        "reinstated 1 p1",
        "returned 1 2 k",
        "reinstated 2 p2",
        "returned 2 2 l",
        "returned 3 1 m",
        "paid 3 p3",
    ];
    let expected = rows("1 ann 3 paid p1 k=2, 2 bob 3 paid p2 l=2, 3 cat 3 paid p3 m=1");
    for turn in 0..kept.len() {
        let mut kept = kept;
        kept.rotate_left(turn);
        for _ in 0..2 {
            kept.reverse();
            let kept = kept.join(", ");
            let found = repair(&Case {
                engine: known,
                ledger: known,
                kept: &kept,
                limit: Some(5),
                ..SALE
            });
            assert_eq!(found.rows.returns, expected.returns, "{kept}");
            let units = |rows: &PartRows| {
                rows.grants
                    .values()
                    .map(GrantRow::units)
                    .collect::<Vec<_>>()
            };
            assert_eq!(units(&found.rows), units(&expected), "{kept}");
        }
    }
}
