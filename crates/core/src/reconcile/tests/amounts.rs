//! Repairs of payments with other amounts than the order's price.

use super::*;

/// A node has answered the payments. Their refunds are due as they arrived, and the order stays held.
#[test]
fn a_payment_of_another_amount_keeps_its_money() {
    let kept = "granted 1 ann 1 100, refund_due 1 p 99 CNY, refund_due 1 q 7 EUR";
    let found = repair(&Case { kept, ..SALE });
    assert_eq!(appended(&found), kept);
    assert_eq!(found.rows.grants[&1].state, OrderState::Held);
    assert!(found.conflicts.is_empty());
}

/// A payment was answered as paid, and after a loss as a due refund. The ledger's outcome stays. Without one the order
/// is paid, and no refund is due.
#[test]
fn a_payment_pays_or_is_owed_back() {
    let check = |case: &Case<'_>, expected: (&str, OrderState, &str)| {
        let found = repair(case);
        let (appended_as, state, payments) = expected;
        assert_eq!(appended(&found), appended_as, "{:?}", case.engine);
        assert_eq!(found.rows.grants[&1].state, state, "{:?}", case.engine);
        let known = found.rows.payments_of(1);
        let known: Vec<_> = known
            .map(|(payment, state)| format!("{payment} {}", state.outcome.name()))
            .collect();
        assert_eq!(known.join(", "), payments, "{:?}", case.engine);
        assert!(found.conflicts.is_empty());
    };
    let held = Case {
        engine: "1 ann 1 held",
        ledger: "1 ann 1 held",
        ..SALE
    };
    // The engine or a node has the refund as due.
    let engine = Case {
        engine: "1 ann 1 held -p",
        kept: "paid 1 p",
        ..held
    };
    check(&engine, ("paid 1 p", OrderState::Paid, "p paid"));
    let kept = Case {
        kept: "refund_due 1 p 99 CNY, paid 1 p",
        ..held
    };
    check(&kept, ("paid 1 p", OrderState::Paid, "p paid"));
    let expired = Case {
        engine: "1 ann 1 expired -p",
        ledger: "1 ann 1 expired",
        kept: "reinstated 1 p",
        ..held
    };
    let expected = ("reinstated 1 p", OrderState::Paid, "p reinstated");
    check(&expired, expected);
    // The ledger has, or will have, the refund as due.
    let owed = ("", OrderState::Held, "p refund_due");
    let settled = Case {
        ledger: "1 ann 1 held -p",
        ..engine
    };
    check(&settled, owed);
    let flying = Case {
        flight: "refund_due 1 p 99 CNY",
        ..engine
    };
    check(&flying, owed);
    let engine_paid = Case {
        engine: "1 ann 1 paid p",
        kept: "",
        ..settled
    };
    check(&engine_paid, owed);
    // Another payment pays the order.
    for kept in [
        "refund_due 1 p, paid 1 p",
        "paid 1 p, refund_due 1 p",
        "paid 1 p",
    ] {
        let other = Case {
            engine: "1 ann 1 paid q",
            kept,
            ..held
        };
        let both = "p refund_due, q paid";
        check(&other, ("paid 1 q, refund_due 1 p", OrderState::Paid, both));
    }
}

/// Money that paid an order instead of its price is kept with the payment, in every order of steps.
#[test]
fn accepted_money_is_kept() {
    for kept in [
        "granted 1 ann 1 100, paid 1 p 99 CNY",
        "granted 1 ann 1 100, paid 1 p 101 CNY, returned 1",
        "granted 1 ann 1 100, expired 1, reinstated 1 p 101 CNY",
    ] {
        let found = repair(&Case { kept, ..SALE });
        assert_eq!(appended(&found), kept);
        assert!(found.conflicts.is_empty());
    }
    // The order has released its units for good, so the refund is due as the money arrived.
    let late = Case {
        engine: "1 ann 1 cancelled",
        ledger: "1 ann 1 cancelled",
        kept: "paid 1 p 99 CNY",
        ..SALE
    };
    assert_eq!(appended(&repair(&late)), "refund_due 1 p 99 CNY");
}
