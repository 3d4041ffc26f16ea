//! Holds pause during each downtime of the service and continue afterwards with the time that was left.

use qiang_core::{
    book::PaymentOutcome::{Paid, Reinstated},
    order::OrderState,
    time::Timestamp,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, Target, sale};

/// States of all granted orders of a sale, in the order of the answers.
async fn states(case: &Scenario, target: Target, count: usize) -> Vec<OrderState> {
    let mut states = Vec::new();
    for n in 1..=count {
        let view = case.order(case.nth(target, n)).await;
        let order = view.and_then(|view| view.grant.order);
        states.push(order.expect("the order is known").state);
    }
    states
}

/// A sale with `count` orders, granted when it opens.
async fn held(case: &mut Scenario, count: usize) -> Target {
    let target = case.open(sale(20)).await;
    for n in 0..count {
        case.granted(target.one(&format!("u{n}"))).await;
    }
    target
}

/// Two downtimes, together longer than the hold. Each hold is extended by their duration, to the millisecond. A payment
/// within the extended hold is in time.
pub async fn holds_go_on_where_they_were_when_the_service_went_down(case: &mut Scenario) {
    let target = held(case, 5).await;
    let (mut now, mut up_ms) = (OPENS, 0);
    for (up, down) in [(10_000, 40_000), (20_000, 50_000)] {
        now = now.plus_millis(up);
        up_ms += up;
        case.at(now).await;
        now = now.plus_millis(down);
        case.down_until(now).await;
        case.tick().await;
        assert_eq!(states(case, target, 5).await, [OrderState::Held; 5]);
    }
    let end = now.plus_millis(HOLD_MS - up_ms);
    case.at(end.plus_millis(-1)).await;
    assert_eq!(states(case, target, 5).await, [OrderState::Held; 5]);
    let meanwhile = now.plus_millis(-1);
    for (n, paid_at) in [
        (1, None),
        (2, Some(end.plus_millis(-1))),
        (3, Some(meanwhile)),
    ] {
        let (outcome, _) = case
            .pay_at(case.nth(target, n), &format!("p{n}"), paid_at)
            .await;
        assert_eq!(outcome, Paid, "{paid_at:?}");
    }
    case.set_clock(end);
    let (outcome, _) = case.pay(case.nth(target, 4), "p4").await;
    assert_eq!(outcome, Reinstated, "its hold had ended");
    case.tick().await;
    let [paid, expired] = [OrderState::Paid, OrderState::Expired];
    assert_eq!(
        states(case, target, 5).await,
        [paid, paid, paid, paid, expired]
    );
}

/// A single downtime lasts many times the hold. An order granted after it has a full hold of its own.
pub async fn a_downtime_that_is_longer_than_the_hold_ends_none(case: &mut Scenario) {
    let target = held(case, 2).await;
    let last = OPENS.plus_millis(HOLD_MS - 1_000);
    case.at(last).await;
    let up: Timestamp = last.plus_millis(20 * HOLD_MS);
    case.down_until(up).await;
    case.tick().await;
    case.granted(target.one("later")).await;
    let [held, paid, expired] = [OrderState::Held, OrderState::Paid, OrderState::Expired];
    assert_eq!(states(case, target, 3).await, [held; 3]);
    case.at(up.plus_millis(999)).await;
    assert_eq!(case.pay(case.nth(target, 1), "p").await.0, Paid);
    case.at(up.plus_millis(1_000)).await;
    assert_eq!(states(case, target, 3).await, [paid, expired, held]);
    case.at(up.plus_millis(HOLD_MS - 1)).await;
    assert_eq!(states(case, target, 3).await, [paid, expired, held]);
    case.at(up.plus_millis(HOLD_MS)).await;
    assert_eq!(states(case, target, 3).await, [paid, expired, expired]);
}

/// A hold that ended before a downtime stays ended after it.
pub async fn what_ended_before_a_downtime_has_ended(case: &mut Scenario) {
    let target = held(case, 2).await;
    let end = OPENS.plus_millis(HOLD_MS);
    case.at(end).await;
    assert_eq!(states(case, target, 2).await, [OrderState::Expired; 2]);
    case.down_until(end.plus_millis(HOLD_MS)).await;
    case.tick().await;
    let (outcome, _) = case.pay(case.nth(target, 1), "p").await;
    assert_eq!(outcome, Reinstated);
    assert_eq!(
        states(case, target, 2).await,
        [OrderState::Paid, OrderState::Expired]
    );
}
