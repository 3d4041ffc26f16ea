//! Differences and repairs of orders with extended holds.

use super::*;

#[track_caller]
fn check(engine: &str, ledger: &str, kept: &str, (expected, append): (&str, &str)) -> Repair {
    let case = format!("{engine} | {ledger} | {kept}");
    let found = repair(&Case {
        engine,
        ledger,
        kept,
        ..SALE
    });
    assert_eq!(found.rows, rows(expected), "{case}");
    assert_eq!(appended(&found), append, "{case}");
    found
}

#[test]
fn an_extension_that_one_side_lacks_is_a_difference() {
    let (held, longer) = ("1 ann 1 held", "1 ann 1 held +500");
    let kinds = |engine: &str, ledger: &str, flight: &str| {
        let found = compare(id(), &rows(engine), &rows(ledger), &entries(flight));
        let kinds: Vec<_> = found.iter().map(|it| it.kind).collect();
        kinds
    };
    assert_eq!(kinds(longer, longer, ""), []);
    let differs = [DifferenceKind::StateDiffers];
    assert_eq!(kinds(longer, held, ""), differs);
    assert_eq!(kinds(held, longer, ""), differs);
    let flying = kinds(longer, held, "hold_extended 1 500");
    assert_eq!(flying, [DifferenceKind::InFlight]);
}

/// An extension that engine, ledger or node has counts once, before the order's other steps.
#[test]
fn an_extension_that_one_side_knows_is_kept_once() {
    let (held, longer) = ("1 ann 1 held", "1 ann 1 held +500");
    let extended = "hold_extended 1 500";
    check(longer, longer, "", (longer, ""));
    check(longer, held, "", (longer, extended));
    let found = check(held, longer, "", (longer, ""));
    assert!(found.changed.contains(&1));
    check(held, held, extended, (longer, extended));
    check(longer, longer, extended, (longer, ""));
    let granted = "granted 1 ann 1 10, hold_extended 1 500";
    check("", "", granted, (longer, granted));
    let paid = "1 ann 1 paid p +500";
    let both = "hold_extended 1 500, paid 1 p";
    check(paid, held, "", (paid, both));
    check(held, held, both, (paid, both));
    check(held, held, "paid 1 p, hold_extended 1 500", (paid, both));
    let expired = "1 ann 1 expired +500";
    let both = "hold_extended 1 500, expired 1";
    let found = check(expired, held, "", (expired, both));
    // It is not dated before the end of the hold.
    let (at, _) = found.append.last().unwrap();
    assert!(at.as_millis() >= 1_000 + 500 + 500);
}

/// The ledger has settled that the order left its hold. An extension that it lacks is not kept.
#[test]
fn no_hold_that_has_ended_is_extended() {
    for ledger in ["1 ann 1 paid p", "1 ann 1 expired", "1 ann 1 cancelled"] {
        let found = check("1 ann 1 held +500", ledger, "", (ledger, ""));
        assert!(found.changed.contains(&1));
        check("1 ann 1 held", ledger, "hold_extended 1 500", (ledger, ""));
    }
}

/// An order expired at the new end, was paid late and was returned. Its extension precedes its expiry.
#[test]
fn an_extension_precedes_the_expiry_of_a_reinstated_order() {
    let all = "hold_extended 1 500, expired 1, reinstated 1 p, returned 1";
    let found = repair(&Case {
        engine: "1 ann 1 held",
        ledger: "1 ann 1 held",
        kept: all,
        ..SALE
    });
    assert_eq!(appended(&found), all);
}
