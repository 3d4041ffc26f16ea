//! The life of an order: held, then paid, cancelled or expired, and payments that come too late or twice.

use qiang_core::{
    book::{
        CampaignAction, Command,
        PaymentOutcome::{Paid, RefundDue, Reinstated},
        Refusal, Reply,
    },
    gate::RETURNED_ORDERS_PER_USER_MAX,
    id::PaymentRef,
    order::{OrderState, OrderStep, OrderStepError},
    split::SplitRule,
};

use super::{Stage, Subject};
use crate::campaign::{HOLD_MS, OPENS, Target, red_packet, sale};

/// The state of the order that was granted as the `n`-th.
async fn state<S: Subject>(stage: &Stage<S>, target: Target, n: usize) -> OrderState {
    let view = stage.order(stage.nth(target, n)).await;
    let order = view.and_then(|view| view.grant.order);
    order.expect("the order is known").state
}

/// Nobody pays: the units are for sale again, to the same user too, and the old order stays expired.
pub async fn a_hold_expires_and_its_units_are_sold_again<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(2)).await;
    stage.granted(target.one("a")).await;
    stage.granted(target.one("b")).await;
    stage.pay(stage.nth(target, 2), "p").await;
    assert_eq!(stage.outcome(target.one("c")).await, "sold_out");
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(state(stage, target, 1).await, OrderState::Expired);
    assert_eq!(state(stage, target, 2).await, OrderState::Paid);
    assert_eq!(stage.tally(target.id).await.remaining, 1);
    stage.granted(target.one("a")).await;
    assert_eq!(stage.outcome(target.one("c")).await, "sold_out");
    stage.tick().await;
    assert_eq!(state(stage, target, 3).await, OrderState::Held);
}

/// A hold lasts up to its last millisecond, and is over on the next.
pub async fn a_hold_ends_on_its_millisecond<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(2)).await;
    let grant = stage.granted(target.one("a")).await;
    let until = OPENS.plus_millis(HOLD_MS);
    assert_eq!(grant.order.map(|order| order.hold_until), Some(until));
    stage.at(until.plus_millis(-1)).await;
    assert_eq!(state(stage, target, 1).await, OrderState::Held);
    stage.at(until).await;
    assert_eq!(state(stage, target, 1).await, OrderState::Expired);
}

/// The payment comes after the hold, the units are still there: the order is paid after all.
pub async fn a_late_payment_reinstates_while_units_are_left<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(1)).await;
    stage.granted(target.one("a")).await;
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    for _ in 0..3 {
        let (outcome, view) = stage.pay(stage.nth(target, 1), "late").await;
        assert_eq!(outcome, Reinstated);
        assert_eq!(
            view.grant.order.map(|order| order.state),
            Some(OrderState::Paid)
        );
    }
    assert_eq!(stage.tally(target.id).await.remaining, 0);
    assert_eq!(stage.outcome(target.one("b")).await, "sold_out");
    let replayed = stage.replayed(target.one("a")).await.order_id();
    assert_eq!(replayed, stage.nth(target, 1));
    stage.at(OPENS.plus_millis(2 * HOLD_MS)).await;
    assert_eq!(state(stage, target, 1).await, OrderState::Paid);
    stage.settle().await;
    assert_eq!(stage.balance("owner").await, (100, 0));
}

/// The payment comes after the hold, and somebody else has the units: it is owed back, exactly once.
pub async fn a_late_payment_without_units_is_owed_back<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(1)).await;
    stage.granted(target.one("a")).await;
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    stage.granted(target.one("b")).await;
    for _ in 0..3 {
        let (outcome, view) = stage.pay(stage.nth(target, 1), "late").await;
        assert_eq!(outcome, RefundDue);
        let order = view.grant.order.expect("an order");
        assert_eq!((order.state, order.refunds_due), (OrderState::Expired, 1));
    }
    // The units come back; the answer to that payment stays what it was.
    stage
        .try_cancel(stage.nth(target, 2))
        .await
        .expect("b gives back");
    assert_eq!(stage.pay(stage.nth(target, 1), "late").await.0, RefundDue);
    assert_eq!(stage.pay(stage.nth(target, 1), "later").await.0, Reinstated);
    stage.settle().await;
    assert_eq!(stage.balance("a").await, (0, 100));
    assert_eq!(stage.balance("owner").await, (100, 0));
}

/// Units are left, but the user has bought others meanwhile: the limit comes before the late payment.
pub async fn a_late_payment_above_the_limit_is_owed_back<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(10).limit(3)).await;
    stage.granted(target.units("a", 2)).await;
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    stage.granted(target.units("a", 2)).await;
    assert_eq!(stage.pay(stage.nth(target, 1), "late").await.0, RefundDue);
    assert_eq!(stage.tally(target.id).await.granted, 2);
}

/// After the end nothing is reinstated; an order that is still held may be paid.
pub async fn a_late_payment_after_the_end_is_owed_back<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(10)).await;
    stage.granted(target.one("a")).await;
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    stage.granted(target.one("b")).await;
    stage.act(target.id, CampaignAction::Close).await;
    assert_eq!(stage.pay(stage.nth(target, 1), "p").await.0, RefundDue);
    assert_eq!(stage.pay(stage.nth(target, 2), "p").await.0, Paid);
    assert_eq!(stage.tally(target.id).await.returned, 9);
}

/// Two payments of one order: the second is owed back, whenever it comes.
pub async fn a_second_payment_is_owed_back<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(2)).await;
    stage.granted(target.one("a")).await;
    assert_eq!(stage.pay(stage.nth(target, 1), "one").await.0, Paid);
    let (outcome, view) = stage.pay(stage.nth(target, 1), "two").await;
    assert_eq!(outcome, RefundDue);
    assert_eq!(view.grant.order.map(|order| order.refunds_due), Some(1));
    assert_eq!(stage.pay(stage.nth(target, 1), "one").await.0, Paid);
    assert_eq!(stage.pay(stage.nth(target, 1), "three").await.0, RefundDue);

    stage.granted(target.one("b")).await;
    stage
        .try_cancel(stage.nth(target, 2))
        .await
        .expect("b gives back");
    assert_eq!(stage.pay(stage.nth(target, 2), "one").await.0, RefundDue);
    assert_eq!(state(stage, target, 2).await, OrderState::Cancelled);
    stage.settle().await;
    assert_eq!(stage.balance("owner").await, (100, 0));
    assert_eq!(stage.balance("a").await, (0, 200));
    assert_eq!(stage.balance("b").await, (0, 100));
}

/// The payment service says it again: nothing changes, and the answer is the same.
pub async fn the_same_payment_twice_is_one_payment<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(2).limit(2).price(30)).await;
    stage.granted(target.units("a", 2)).await;
    let first = stage.pay(stage.nth(target, 1), "p").await;
    assert_eq!(first.0, Paid);
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(stage.pay(stage.nth(target, 1), "p").await, first);
    stage.settle().await;
    assert_eq!(stage.balance("owner").await, (60, 0));
}

/// Hundreds of payments of one order at once, each announced four times: one pays, the others are owed back.
pub async fn a_thousand_payments_at_once_pay_once<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(2)).await;
    stage.granted(target.one("a")).await;
    let order = stage.nth(target, 1);
    let pay = |n: usize| Command::Pay {
        order,
        payment: PaymentRef::new(&format!("p{}", n % 250)).expect("well-formed"),
    };
    let replies = stage.storm((0..1_000).map(pay).collect()).await;
    let paid = |reply: &&Result<Reply, _>| matches!(reply, Ok(Reply::Payment(Paid, _)));
    assert_eq!(replies.iter().filter(paid).count(), 4);
    let view = stage.order(order).await.expect("the order is known");
    assert_eq!(view.grant.order.map(|order| order.refunds_due), Some(249));
}

/// Cancelling twice gives the units back once, and the user may buy again.
pub async fn cancelling_returns_the_units_once<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(5).limit(4)).await;
    stage.granted(target.units("a", 3)).await;
    stage.granted(target.units("b", 2)).await;
    for _ in 0..3 {
        let view = stage
            .try_cancel(stage.nth(target, 1))
            .await
            .expect("a gives back");
        assert_eq!(
            view.grant.order.map(|order| order.state),
            Some(OrderState::Cancelled)
        );
        assert_eq!(stage.tally(target.id).await.remaining, 3);
    }
    stage.granted(target.units("a", 3)).await;
    let order = stage.nth(target, 2);
    let replies = stage.storm(vec![Command::Cancel { order }; 100]).await;
    assert!(replies.iter().all(Result::is_ok));
    assert_eq!(stage.tally(target.id).await.remaining, 2);
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(state(stage, target, 1).await, OrderState::Cancelled);
}

/// Only what is held can be cancelled.
pub async fn what_is_paid_or_expired_cannot_be_cancelled<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(5)).await;
    stage.granted(target.one("a")).await;
    stage.granted(target.one("b")).await;
    stage.pay(stage.nth(target, 1), "p").await;
    stage.at(OPENS.plus_millis(HOLD_MS)).await;
    for (n, from) in [(1, OrderState::Paid), (2, OrderState::Expired)] {
        let step = OrderStep::Cancel;
        let refusal = Refusal::Order(OrderStepError { from, step });
        assert_eq!(stage.try_cancel(stage.nth(target, n)).await, Err(refusal));
    }
    assert_eq!(stage.tally(target.id).await.remaining, 4);
}

/// Claiming and cancelling for ever would fill the log: after some orders it is enough.
pub async fn giving_back_is_bounded<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(sale(5)).await;
    for _ in 0..RETURNED_ORDERS_PER_USER_MAX {
        let order = stage.granted(target.one("a")).await.order_id();
        stage.try_cancel(order).await.expect("a gives back");
    }
    assert_eq!(stage.outcome(target.one("a")).await, "limit_reached");
    stage.granted(target.one("b")).await;
}

/// An order that was never granted can be neither paid nor cancelled.
pub async fn an_unknown_order_is_refused<S: Subject>(stage: &mut Stage<S>) {
    let known = stage.open(sale(5)).await;
    let grant = stage.granted(known.one("a")).await;
    let next = known.order(grant.number + 1);
    let unknown = Target::of(&sale(5).setup(1_000_000));
    for order in [next, known.order(u32::MAX), unknown.order(1)] {
        assert_eq!(stage.try_cancel(order).await, Err(Refusal::UnknownOrder));
        let payment = PaymentRef::new("p").expect("well-formed");
        let reply = stage.submit(Command::Pay { order, payment }).await;
        assert_eq!(reply, Err(Refusal::UnknownOrder.into()));
        assert_eq!(stage.order(order).await, None);
    }
}

/// A share is neither paid for nor given back.
pub async fn a_packet_has_no_orders<S: Subject>(stage: &mut Stage<S>) {
    let target = stage.open(red_packet(100, 2, SplitRule::Equal)).await;
    let grant = stage.granted(target.one("a")).await;
    assert_eq!(grant.order, None);
    let order = grant.order_id();
    assert_eq!(stage.order(order).await, None);
    assert_eq!(stage.try_cancel(order).await, Err(Refusal::UnknownOrder));
    let payment = PaymentRef::new("p").expect("well-formed");
    let reply = stage.submit(Command::Pay { order, payment }).await;
    assert_eq!(reply, Err(Refusal::UnknownOrder.into()));
}
