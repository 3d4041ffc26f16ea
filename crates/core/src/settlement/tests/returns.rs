//! Partial returns of orders.

use super::*;

fn plan_of<'a>(
    entries: &'a [Entry],
    campaigns: &'a [KnownCampaign],
    orders: &'a [KnownOrder],
) -> SettlementPlan<'a> {
    SettlementPlan::new(PartitionId(0), entries, campaigns, orders).unwrap()
}

/// Each partial return is rounded down, and all together equal the payment.
#[test]
fn parts_owe_all_that_was_paid() {
    let texts = [
        (SALE, "returned 1 1 k"),
        (SALE, "granted 4 cid 3 50"),
        (SALE, "paid 4 p4 100 CNY"),
        (SALE, "returned 4 1 k"),
        (SALE, "returned 4 1 l"),
        (SALE, "returned 4"),
    ];
    let (entries, campaigns) = (entries(&texts), both());
    let orders = [KnownOrder {
        quantity: 3,
        returned_in_parts: 1,
        paid_minor: Some(100),
        ..order(1, "ann", OrderState::Paid)
    }];
    let plan = plan_of(&entries, &campaigns, &orders);
    let owed: Vec<_> = (plan.postings.iter())
        .filter(|posting| posting.kind == "return")
        .map(|posting| (posting.number, posting.amount))
        .collect();
    let expected = [(1, 33), (4, 33), (4, 33), (4, 34)];
    assert_eq!(
        owed,
        expected.map(|(number, amount)| (Some(number), amount))
    );
    let returns: Vec<_> = (plan.returns.iter())
        .map(|row| (row.number, row.key, row.quantity, row.amount))
        .collect();
    assert_eq!(returns, [(1, "k", 1, 33), (4, "k", 1, 33), (4, "l", 1, 33)]);
    // A paid order stays paid, with the time of its payment.
    let kept: Vec<_> = (plan.keeping_orders.iter())
        .map(|row| (row.number, row.state, row.returned_in_parts, row.at))
        .collect();
    assert_eq!(kept, [(1, OrderState::Paid, 2, None)]);
    let new = &plan.new_orders[0];
    assert_eq!(
        (new.state, new.returned_in_parts),
        (OrderState::Returned, 2)
    );
    // Three of the four returned units are from an order of this run.
    assert_eq!(plan.campaigns[0].granted, -1);
}

/// The return of the last unit returns the order. After the close, the units go to the owner.
#[test]
fn the_last_part_returns_the_order() {
    let texts = [(SALE, "returned 1 2 l")];
    let (entries, mut campaigns) = (entries(&texts), both());
    campaigns[1].phase = Phase::Closed;
    let orders = [KnownOrder {
        quantity: 3,
        returned_in_parts: 1,
        ..order(1, "ann", OrderState::Paid)
    }];
    let plan = plan_of(&entries, &campaigns, &orders);
    let left: Vec<_> = (plan.leaving_orders.iter())
        .map(|row| {
            (
                row.number,
                row.state,
                row.returned_in_parts,
                row.at.is_some(),
            )
        })
        .collect();
    assert_eq!(left, [(1, OrderState::Returned, 3, true)]);
    let change = plan.campaigns[0];
    assert_eq!((change.granted, change.returned), (-2, 2));
    assert_eq!(plan.postings[0].amount, 34);
}

/// A webhook event has the units of its return, and the refund due for them.
#[test]
fn an_event_has_units_and_money_of_its_return() {
    let texts = [(SALE, "returned 1 1 k"), (SALE, "returned 1")];
    let (entries, mut campaigns) = (entries(&texts), both());
    campaigns[1].watched = true;
    let orders = [KnownOrder {
        quantity: 3,
        paid_minor: Some(100),
        ..order(1, "ann", OrderState::Paid)
    }];
    let plan = plan_of(&entries, &campaigns, &orders);
    let told: Vec<_> = (plan.told.iter())
        .map(|row| (row.kind, row.quantity, row.amount))
        .collect();
    let kind = crate::webhook::EventType::OrderReturned;
    assert_eq!(told, [(kind, 1, 33), (kind, 2, 67)]);
}

#[test]
fn more_than_is_left_is_refused() {
    let check = |text: &str, state| {
        let orders = [KnownOrder {
            quantity: 3,
            returned_in_parts: 2,
            ..order(1, "ann", state)
        }];
        let reason = refused(&[(SALE, text)], &both(), &orders);
        assert!(reason.contains("cannot be"), "{reason}");
    };
    check("returned 1 2 k", OrderState::Paid);
    check("returned 1 1 k", OrderState::Held);
    check("returned 1", OrderState::Returned);
}

/// A grant is discarded once all its units are back, whether in one return or in parts.
#[test]
fn a_discarded_order_may_have_been_returned_in_parts() {
    let all = [
        (SALE, "granted 4 cid 3 50"),
        (SALE, "paid 4 p4"),
        (SALE, "returned 4 1 k"),
        (SALE, "returned 4 2 l"),
    ];
    let (all, known) = (entries(&all), &both()[1..]);
    let of =
        |steps, closed| SettlementPlan::from_discard(PartitionId(0), steps, known, closed).unwrap();
    assert!(
        of(&all[..3], None).is_none(),
        "two units are with the order"
    );
    let plan = of(&all, Some(all[2].seq)).expect("all units are back");
    // One unit was returned before the close.
    assert_eq!(plan.campaigns[0].returned, 2);
    assert_eq!(moves(&plan), ["cid refunds_due 50", "outside outside -50"]);
}
