//! Orders that cost nothing: they are paid in the step that grants them, have no hold, and owe nothing when returned.

use qiang_core::{
    book::{Command, PaymentOutcome::Paid, Reply},
    campaign::SaleSettingsChange,
    event::Event,
    id::{OrderId, PaymentRef},
    order::OrderState,
    outcome::Outcome,
    ports::GrantRecord,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, Target, sale};

fn price(minor: i64) -> SaleSettingsChange {
    SaleSettingsChange {
        unit_price_minor: Some(minor),
        ..SaleSettingsChange::default()
    }
}

/// State of an order, and its number of refunds due.
async fn standing(case: &Scenario, order: OrderId) -> (OrderState, u32) {
    let view = case.order(order).await.expect("the order is known");
    let order = view.grant.order.expect("it is an order");
    (order.state, order.refunds_due)
}

/// Orders in the ledger after full settlement.
async fn settled(case: &Scenario, target: Target) -> Vec<GrantRecord> {
    case.settle().await;
    let grants = case.ledger().grants(target.id, 0, 1_000).await;
    grants.expect("the ledger answers")
}

/// A free order needs no payment and does not expire. Reported payments of nothing change nothing.
pub async fn an_order_that_costs_nothing_is_paid_at_its_grant(case: &mut Scenario) {
    let target = case.open(sale(5).limit(2).price(0).owner("seller")).await;
    let grant = case.granted(target.keyed("a", 2, "k")).await;
    let stands = |grant: qiang_core::outcome::Grant| grant.order.map(|order| order.state);
    assert_eq!(
        (grant.amount_minor, stands(grant)),
        (0, Some(OrderState::Paid))
    );
    assert_eq!(case.replayed(target.keyed("a", 2, "k")).await, grant);
    // Claims that are decided in one batch.
    let claims = ["b", "c", "d"].map(|name| target.one(name)).to_vec();
    for outcome in case.claim_all(claims).await {
        let grant = outcome.grant().copied();
        assert_eq!(
            grant.and_then(stands),
            Some(OrderState::Paid),
            "{outcome:?}"
        );
    }
    // In the log, the payment follows the grant directly.
    let logs = case.logs().await;
    for n in 1..=4 {
        let order = case.nth(target, n);
        let of_order = |event: &Event| event.number() == Some(order.number);
        let of_sale = logs.iter().flatten();
        let of_sale = of_sale.filter(|entry| entry.campaign == target.id && of_order(&entry.event));
        let entries: Vec<_> = of_sale.collect();
        let [granted, paid] = entries[..] else {
            panic!("{entries:?}");
        };
        assert!(matches!(granted.event, Event::Granted { .. }));
        let payment = PaymentRef::for_free_order(order);
        let number = order.number;
        assert_eq!(
            paid.event,
            Event::payment_recorded(number, payment, Paid.into())
        );
        assert_eq!((paid.seq, paid.at), (granted.seq + 1, granted.at));
    }
    let order = case.nth(target, 1);
    let before = case.order(order).await;
    for payment in ["p", "p", "q"] {
        let (outcome, view) = case.pay(order, payment).await;
        assert_eq!((outcome, Some(view)), (Paid, before.clone()));
    }
    case.at(OPENS.plus_millis(2 * HOLD_MS)).await;
    case.restart().await;
    case.tick().await;
    assert_eq!(standing(case, order).await, (OrderState::Paid, 0));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (5, 0));
    assert_eq!(case.replayed(target.keyed("a", 2, "k")).await, grant);
    let rows = settled(case, target).await;
    assert!(
        rows.iter().all(|row| row.state == OrderState::Paid),
        "{rows:?}"
    );
    assert_eq!(rows.len(), 4);
    assert_eq!(case.balance("seller").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 0));
}

/// A free order is paid, so a cancellation returns it too. Its units return once, and nothing is owed.
pub async fn a_free_order_is_given_back_and_nothing_is_owed(case: &mut Scenario) {
    let target = case.open(sale(2).price(0).owner("seller")).await;
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    let (first, second) = (case.nth(target, 1), case.nth(target, 2));
    for _ in 0..2 {
        let view = case.try_cancel(first).await.unwrap();
        let order = view.grant.order.expect("an order");
        assert_eq!((order.state, order.refunds_due), (OrderState::Returned, 0));
    }
    case.try_return(first).await.unwrap();
    let replies = case.submit_all(vec![
        Command::Cancel {
            order: second,
            part: None
        };
        20
    ]);
    let replies = replies.await;
    let gave_back = |reply: &Result<Reply, _>| matches!(reply, Ok(Reply::Cancelled(_)));
    assert!(replies.iter().all(gave_back), "{replies:?}");
    assert_eq!(case.tally(target.id).await.remaining, 2);
    // A late payment of nothing has no effect.
    assert_eq!(case.pay(first, "late").await.0, Paid);
    assert_eq!(standing(case, first).await, (OrderState::Returned, 0));
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.restart().await;
    assert_eq!(standing(case, second).await, (OrderState::Returned, 0));
    let rows = settled(case, target).await;
    let state = |n: usize| {
        let number = case.nth(target, n).number;
        let row = rows.iter().find(|row| row.number == number);
        row.map(|row| row.state)
    };
    let states = [1, 2, 3, 4].map(state);
    let (returned, paid) = (Some(OrderState::Returned), Some(OrderState::Paid));
    assert_eq!(states, [returned, returned, paid, paid]);
    for name in ["a", "b", "seller"] {
        assert_eq!(case.balance(name).await, (0, 0), "{name}");
    }
}

/// The price at the grant decides. A held order stays held when the price falls to nothing, and a free order stays paid
/// when the price rises.
pub async fn the_price_at_the_grant_says_whether_an_order_is_free(case: &mut Scenario) {
    let target = case.open(sale(9).limit(3).price(100).owner("seller")).await;
    case.granted(target.one("a")).await;
    case.set_terms(target.id, price(0)).await.unwrap();
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    case.set_terms(target.id, price(70)).await.unwrap();
    case.granted(target.one("b")).await;
    case.granted(target.one("c")).await;
    assert_eq!(case.pay(case.nth(target, 5), "p").await.0, Paid);
    let states = async |case: &Scenario| {
        let mut states = Vec::new();
        for n in 1..=5 {
            states.push(standing(case, case.nth(target, n)).await.0);
        }
        states
    };
    use OrderState::{Expired, Held};
    let paid = OrderState::Paid;
    assert_eq!(states(case).await, [Held, paid, paid, Held, paid]);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(states(case).await, [Expired, paid, paid, Expired, paid]);
    case.restart().await;
    case.set_terms(target.id, price(0)).await.unwrap();
    let Outcome::Granted(free) = case.claim(target.one("d")).await else {
        panic!("units are left");
    };
    assert_eq!(free.order.map(|order| order.state), Some(paid));
    case.at(OPENS.plus_millis(3 * HOLD_MS)).await;
    assert_eq!(states(case).await, [Expired, paid, paid, Expired, paid]);
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (4, 5));
    let rows = settled(case, target).await;
    let keeping = rows.iter().filter(|row| row.state == paid);
    assert_eq!(keeping.count(), 4, "{rows:?}");
    assert_eq!(case.balance("seller").await, (70, 0));
}
