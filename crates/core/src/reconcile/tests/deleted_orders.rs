//! Orders that count as deleted from the ledger.

use super::*;

fn facts(limit: Option<u32>) -> PartFacts {
    PartFacts {
        campaign: id(),
        kind: CampaignKind::Sale,
        limit,
        hold_ms: 60_000,
        currency: "CNY".parse().ok(),
        fixed_shares: false,
        parts: 1,
        index: 0,
    }
}

fn engine(text: &str, supply: u64) -> EnginePart {
    EnginePart {
        rows: rows(text),
        shares: Vec::new(),
        supply,
        funded_minor: 0,
        numbered: 100,
    }
}

/// Number, state and payments of each order.
fn found(orders: &[DeletedOrder]) -> String {
    let order = |it: &DeletedOrder| {
        let payments = it
            .payments
            .iter()
            .map(|(payment, state)| match state.outcome {
                PaymentOutcome::RefundDue => format!(" -{payment}"),
                _ => format!(" {payment}"),
            });
        let payments: String = payments.collect();
        format!("{} {}{payments}", it.number, it.row.state)
    };
    let orders: Vec<_> = orders.iter().map(order).collect();
    orders.join(", ")
}

/// Rows of returns are put back if the order's row says that exactly these units were returned.
#[test]
fn returns_that_the_ledger_lacks_are_deleted_ones() {
    let check = |ours: &str, (ledger, returned): (&str, u32), expected: &[(&str, u32)]| {
        let mut ledger = rows(ledger);
        for row in ledger.grants.values_mut() {
            row.returned = returned;
        }
        ledger.count_parts();
        for is_settled in [true, false] {
            let engine = engine(ours, 100);
            let orders = deleted_orders(&facts(Some(4)), &engine, &ledger, is_settled);
            let returns = orders.iter().flat_map(|order| &order.returns);
            let returns: Vec<_> = returns.map(|(key, units)| (key.as_str(), *units)).collect();
            let expected = if is_settled { expected } else { &[] };
            assert_eq!(returns, expected, "{ours}, {returned}");
        }
    };
    let (paid, one) = ("1 ann 4 paid p", "1 ann 4 paid p k=1");
    let two = "1 ann 4 paid p k=1 l=2";
    check(one, (one, 1), &[]);
    check(one, (paid, 1), &[("k", 1)]);
    check(two, (one, 3), &[("l", 2)]);
    check(two, (paid, 3), &[("k", 1), ("l", 2)]);
    // Which of them the ledger has settled is not known.
    check(two, (paid, 2), &[]);
    check(one, (paid, 0), &[]);
    // The other side has another payment.
    check(one, ("1 ann 4 paid q", 1), &[]);
}

/// A payment of an order with partial returns is restored if the order's row is there and its returns are known. All
/// others are left as they are: as entries, their money would move again.
#[test]
fn payments_of_partly_returned_orders_are_restored_or_left() {
    let check = |ours: &str, (ledger, returned): (&str, u32), restored: &str, left: &[u32]| {
        let mut ledger = rows(ledger);
        for row in ledger.grants.values_mut() {
            row.returned = returned;
        }
        for is_settled in [true, false] {
            let engine = engine(ours, 100);
            let orders = deleted_orders(&facts(Some(3)), &engine, &ledger, is_settled);
            let others = unrestorable_orders(&engine, &ledger, is_settled);
            let expected = match is_settled {
                true => (restored.to_owned(), left),
                false => (String::new(), &[][..]),
            };
            assert_eq!(
                (found(&orders), &others[..]),
                expected,
                "{ours}, {returned}"
            );
        }
    };
    let ours = "1 ann 3 paid p -q k=1";
    check(ours, (ours, 1), "", &[]);
    check(ours, ("1 ann 3 paid p k=1", 1), "1 paid p -q", &[]);
    check(ours, ("1 ann 3 paid k=1", 1), "1 paid p -q", &[]);
    check(ours, ("1 ann 3 paid", 1), "1 paid p -q", &[]);
    check(ours, ("", 0), "", &[1]);
    // The ledger has a return without a key.
    check(ours, ("1 ann 3 paid p k=1", 2), "", &[1]);
    // The sides contradict each other.
    check(ours, ("1 ann 3 paid q k=1", 1), "", &[1]);
    check(ours, ("1 bob 3 paid p k=1", 1), "", &[]);
    // The engine has lost the second payment.
    check("1 ann 3 paid p k=1", (ours, 1), "", &[]);
    let all = "1 ann 3 returned p -q k=1";
    check(all, ("1 ann 3 returned p k=1", 3), "1 returned p -q", &[]);
    check(all, ("1 ann 3 returned p", 3), "", &[1]);
}

#[test]
fn settled_orders_that_the_ledger_lacks_are_deleted_ones() {
    let check = |ours: &str, ledger: &str, settled: &str, unsettled: &str| {
        for (is_settled, expected) in [(true, settled), (false, unsettled)] {
            let engine = engine(ours, 100);
            let orders = deleted_orders(&facts(Some(2)), &engine, &rows(ledger), is_settled);
            assert_eq!(found(&orders), expected, "{ours} | {ledger}");
        }
    };
    let both = "1 ann 1 held, 2 bob 2 paid p1";
    check(both, both, "", "");
    check(both, "1 ann 1 held", "2 paid p1", "");
    check(both, "", "1 held, 2 paid p1", "");
    // A step that the ledger lacks may be an unsettled entry.
    check("1 ann 1 paid p1", "1 ann 1 held", "", "");
    check("1 ann 1 expired", "1 ann 1 held", "", "");
    // Only a payment is missing.
    check("1 ann 1 paid p1", "1 ann 1 paid", "1 paid p1", "");
    check(
        "1 ann 1 cancelled -p1",
        "1 ann 1 cancelled",
        "1 cancelled -p1",
        "",
    );
    // Another user has the number.
    check("1 ann 1 paid p1", "1 bob 1 paid", "", "");
    // The limit and the stock are respected.
    check("1 ann 1 held, 2 ann 1 held", "3 ann 1 held", "1 held", "");
    check(
        "1 ann 1 cancelled, 2 ann 1 expired",
        "3 ann 2 held",
        "1 cancelled, 2 expired",
        "",
    );
    let few = deleted_orders(
        &facts(None),
        &engine("1 ann 1 held, 2 ann 1 held", 2),
        &rows("3 bob 1 held"),
        true,
    );
    assert_eq!(found(&few), "1 held");
}

/// The engine has lost a return of an order that the ledger lacks. The ledger still has the return.
#[test]
fn an_order_is_restored_with_the_returns_that_are_left() {
    for (units, state) in [(1, OrderState::Paid), (3, OrderState::Returned)] {
        let mut ledger = rows("");
        let key = (1, crate::id::IdempotencyKey::new("k").unwrap());
        ledger.returns.insert(key, units);
        let engine = engine("1 ann 3 paid p", 100);
        let orders = deleted_orders(&facts(Some(3)), &engine, &ledger, true);
        let found = orders
            .iter()
            .map(|order| (order.row.state, order.row.returned));
        assert_eq!(found.collect::<Vec<_>>(), [(state, units)]);
    }
}

/// The ledger has payments of orders that it lacks.
#[test]
fn orders_whose_payments_are_left_are_restored_with_them() {
    let check = |ours: &str, payment: &str, outcome: PaymentOutcome, expected: &str| {
        let mut ledger = rows("");
        let key = (1, PaymentRef::new(payment).unwrap());
        ledger.payments.insert(key, outcome.into());
        for (is_settled, expected) in [(true, expected), (false, "")] {
            let orders = deleted_orders(&facts(None), &engine(ours, 100), &ledger, is_settled);
            assert_eq!(found(&orders), expected, "{ours} | {payment}");
        }
    };
    use PaymentOutcome::{Paid, RefundDue};
    check("1 ann 1 paid p1", "p1", Paid, "1 paid p1");
    check("1 ann 1 paid p1", "p2", RefundDue, "1 paid p1 -p2");
    // The engine has lost the payment.
    check("1 ann 1 held", "p1", Paid, "1 paid p1");
    // Both sides contradict each other, so the repair decides.
    check("1 ann 1 paid p1", "p1", RefundDue, "");
    check("1 ann 1 paid p1", "p2", Paid, "");
    check("1 ann 1 cancelled", "p1", Paid, "");
}
