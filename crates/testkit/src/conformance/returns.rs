//! Returns of paid orders: the units are sold again, and the price is owed to the buyer, once.

use qiang_core::{
    book::{
        CampaignAction, Command,
        PaymentOutcome::{Paid, RefundDue, Reinstated},
        Refusal, Reply,
    },
    order::{OrderState, OrderStep, OrderStepError},
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, red_packet, sale};

/// The units of a returned order are sold again, also to its buyer. The price is owed once, however often the return is
/// requested.
pub async fn a_return_gives_units_and_price_back_once(case: &mut Scenario) {
    let target = case.open(sale(2).owner("owner")).await;
    case.granted(target.keyed("a", 1, "k")).await;
    case.granted(target.one("b")).await;
    let order = case.nth(target, 1);
    assert_eq!(case.pay(order, "p").await.0, Paid);
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    for _ in 0..3 {
        let view = case.try_return(order).await.unwrap();
        let step = view
            .grant
            .order
            .map(|order| (order.state, order.refunds_due));
        assert_eq!(step, Some((OrderState::Returned, 1)));
        assert_eq!(case.order(order).await, Some(view));
    }
    let replies = case
        .submit_all(vec![Command::Return { order, part: None }; 100])
        .await;
    let returned = |reply: &Result<Reply, _>| matches!(reply, Ok(Reply::Returned(_)));
    assert!(replies.iter().all(returned));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (1, 1));

    // The key identifies the returned order. Without a key, the buyer gets a new order.
    let replayed = case.replayed(target.keyed("a", 1, "k")).await;
    let state = replayed.order;
    assert_eq!(state.map(|order| order.state), Some(OrderState::Returned));
    case.granted(target.one("a")).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 100));
}

/// A repeated report of the returned payment changes nothing. Another payment becomes a refund due too.
pub async fn payments_of_a_returned_order_are_owed_back(case: &mut Scenario) {
    let target = case.open(sale(3).owner("owner")).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(case.pay(order, "p").await.0, Reinstated);
    case.try_return(order).await.unwrap();
    assert_eq!(case.pay(order, "p").await.0, Reinstated);
    assert_eq!(case.pay(order, "q").await.0, RefundDue);
    let view = case.order(order).await.unwrap();
    let step = view
        .grant
        .order
        .map(|order| (order.state, order.refunds_due));
    assert_eq!(step, Some((OrderState::Returned, 2)));
    assert_eq!(case.tally(target.id).await.remaining, 3);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 200));
}

/// Only a paid order can be returned, and a returned order cannot be cancelled.
pub async fn what_is_not_paid_cannot_be_returned(case: &mut Scenario) {
    let target = case.open(sale(9)).await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        case.granted(target.one(name)).await;
    }
    case.try_cancel(case.nth(target, 1)).await.unwrap();
    case.pay(case.nth(target, 2), "p").await;
    case.try_return(case.nth(target, 2)).await.unwrap();
    let refusal = |from, step| Err(Refusal::Order(OrderStepError { from, step }));
    let cancelled = case.try_return(case.nth(target, 1)).await;
    assert_eq!(cancelled, refusal(OrderState::Cancelled, OrderStep::Return));
    let held = case.try_return(case.nth(target, 3)).await;
    assert_eq!(held, refusal(OrderState::Held, OrderStep::Return));
    let returned = case.try_cancel(case.nth(target, 2)).await;
    assert_eq!(returned, refusal(OrderState::Returned, OrderStep::Cancel));
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    let expired = case.try_return(case.nth(target, 4)).await;
    assert_eq!(expired, refusal(OrderState::Expired, OrderStep::Return));
    let unknown = target.order(u32::MAX);
    let refused = case.try_return(unknown).await;
    assert_eq!(refused, Err(Refusal::UnknownOrder));
    let packet = case.open(red_packet(100, 2, SplitRule::Equal)).await;
    let share = case.granted(packet.one("a")).await.order_id();
    let refused = case.try_return(share).await;
    assert_eq!(refused, Err(Refusal::UnknownOrder));
}

/// After the close there is no stock, so returned units go to the owner. The seller owes the price even if the money is
/// spent.
pub async fn a_return_after_the_close_is_the_owners(case: &mut Scenario) {
    let target = case.open(sale(5).limit(3).owner("seller")).await;
    case.granted(target.units("a", 3)).await;
    let order = case.nth(target, 1);
    case.pay(order, "p").await;
    case.act(target.id, CampaignAction::Close).await;
    case.settle().await;
    let n = case.next_id();
    let spent = red_packet(300, 3, SplitRule::Equal)
        .owner("seller")
        .setup(n);
    assert_eq!(case.ledger().create(&spent).await, Ok(()));
    case.entered(&spent);
    case.try_return(order).await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.returned, tally.remaining), (0, 5, 0));
    case.settle().await;
    assert_eq!(case.balance("seller").await, (-300, 0));
    assert_eq!(case.balance("a").await, (0, 300));
}
