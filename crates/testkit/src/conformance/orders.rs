//! Life of an order: held, then paid, cancelled or expired; payments that arrive late or twice.

use qiang_core::{
    book::{
        CampaignAction, Command,
        PaymentOutcome::{Paid, RefundDue, Reinstated},
        Refusal, Reply,
    },
    gate::RETURNED_ORDERS_PER_USER_MAX,
    id::PaymentRef,
    order::{OrderState, OrderStep, OrderStepError, REFUNDS_DUE_MAX},
    payment::ReceivedMoney,
    split::SplitRule,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, Target, red_packet, sale};

/// State of the order that was granted as the `n`-th.
async fn state(case: &Scenario, target: Target, n: usize) -> OrderState {
    let view = case.order(case.nth(target, n)).await;
    let order = view.and_then(|view| view.grant.order);
    order.expect("the order is known").state
}

/// An unpaid order expires. Its units are for sale again, also for the same user, and the order stays expired.
pub async fn a_hold_expires_and_its_units_are_sold_again(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    case.pay(case.nth(target, 2), "p").await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(state(case, target, 1).await, OrderState::Expired);
    assert_eq!(state(case, target, 2).await, OrderState::Paid);
    assert_eq!(case.tally(target.id).await.remaining, 1);
    case.granted(target.one("a")).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.tick().await;
    assert_eq!(state(case, target, 3).await, OrderState::Held);
}

/// A hold includes its last millisecond and ends with the next.
pub async fn a_hold_ends_on_its_millisecond(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    let grant = case.granted(target.one("a")).await;
    let until = OPENS.plus_millis(HOLD_MS);
    assert_eq!(grant.order.map(|order| order.hold_until), Some(until));
    case.at(until.plus_millis(-1)).await;
    assert_eq!(state(case, target, 1).await, OrderState::Held);
    case.at(until).await;
    assert_eq!(state(case, target, 1).await, OrderState::Expired);
}

/// A late payment pays the expired order if units are left.
pub async fn a_late_payment_reinstates_while_units_are_left(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    for _ in 0..3 {
        let (outcome, view) = case.pay(case.nth(target, 1), "late").await;
        assert_eq!(outcome, Reinstated);
        assert_eq!(
            view.grant.order.map(|order| order.state),
            Some(OrderState::Paid)
        );
    }
    assert_eq!(case.tally(target.id).await.remaining, 0);
    assert_eq!(case.outcome(target.one("b")).await, "sold_out");
    let replayed = case.replayed(target.one("a")).await.order_id();
    assert_eq!(replayed, case.nth(target, 1));
    case.at(OPENS.plus_millis(2 * HOLD_MS)).await;
    assert_eq!(state(case, target, 1).await, OrderState::Paid);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (100, 0));
}

/// The payment arrives after the hold, when another user has the units. It becomes a refund due, exactly once.
pub async fn a_late_payment_without_units_is_owed_back(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.granted(target.one("b")).await;
    for _ in 0..3 {
        let (outcome, view) = case.pay(case.nth(target, 1), "late").await;
        assert_eq!(outcome, RefundDue);
        let order = view.grant.order.expect("an order");
        assert_eq!((order.state, order.refunds_due), (OrderState::Expired, 1));
    }
    // The units are restocked. The answer to that payment stays the same.
    case.try_cancel(case.nth(target, 2)).await.unwrap();
    assert_eq!(case.pay(case.nth(target, 1), "late").await.0, RefundDue);
    assert_eq!(case.pay(case.nth(target, 1), "later").await.0, Reinstated);
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 100));
    assert_eq!(case.balance("owner").await, (100, 0));
}

/// Units are left, but the user has bought others since. The limit refuses the late payment.
pub async fn a_late_payment_above_the_limit_is_owed_back(case: &mut Scenario) {
    let target = case.open(sale(10).limit(3)).await;
    case.granted(target.units("a", 2)).await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.granted(target.units("a", 2)).await;
    assert_eq!(case.pay(case.nth(target, 1), "late").await.0, RefundDue);
    assert_eq!(case.tally(target.id).await.granted, 2);
}

/// After the end no order is reinstated. An order that is still held can be paid.
pub async fn a_late_payment_after_the_end_is_owed_back(case: &mut Scenario) {
    let target = case.open(sale(10)).await;
    case.granted(target.one("a")).await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    case.granted(target.one("b")).await;
    case.act(target.id, CampaignAction::Close).await;
    assert_eq!(case.pay(case.nth(target, 1), "p").await.0, RefundDue);
    assert_eq!(case.pay(case.nth(target, 2), "p").await.0, Paid);
    assert_eq!(case.tally(target.id).await.returned, 9);
}

/// A second payment of an order becomes a refund due at any time.
pub async fn a_second_payment_is_owed_back(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    case.granted(target.one("a")).await;
    assert_eq!(case.pay(case.nth(target, 1), "one").await.0, Paid);
    let (outcome, view) = case.pay(case.nth(target, 1), "two").await;
    assert_eq!(outcome, RefundDue);
    assert_eq!(view.grant.order.map(|order| order.refunds_due), Some(1));
    assert_eq!(case.pay(case.nth(target, 1), "one").await.0, Paid);
    assert_eq!(case.pay(case.nth(target, 1), "three").await.0, RefundDue);

    case.granted(target.one("b")).await;
    case.try_cancel(case.nth(target, 2)).await.unwrap();
    assert_eq!(case.pay(case.nth(target, 2), "one").await.0, RefundDue);
    assert_eq!(state(case, target, 2).await, OrderState::Cancelled);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (100, 0));
    assert_eq!(case.balance("a").await, (0, 200));
    assert_eq!(case.balance("b").await, (0, 100));
}

/// The payment service repeats a report: nothing changes, and the answer is the same.
pub async fn the_same_payment_twice_is_one_payment(case: &mut Scenario) {
    let target = case.open(sale(2).limit(2).price(30)).await;
    case.granted(target.units("a", 2)).await;
    let first = case.pay(case.nth(target, 1), "p").await;
    assert_eq!(first.0, Paid);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(case.pay(case.nth(target, 1), "p").await, first);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (60, 0));
}

/// A thousand concurrent reports of 250 payments for one order, four each: one payment pays, the others become refunds
/// due.
pub async fn a_thousand_payments_at_once_pay_once(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    let pay = |n: usize| Command::Pay {
        order,
        payment: PaymentRef::new(&format!("p{}", n % 250)).expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    let replies = case.submit_all((0..1_000).map(pay).collect()).await;
    let paid = |reply: &&Result<Reply, _>| matches!(reply, Ok(Reply::Payment(Paid, _)));
    assert_eq!(replies.iter().filter(paid).count(), 4);
    let view = case.order(order).await.unwrap();
    assert_eq!(view.grant.order.map(|order| order.refunds_due), Some(249));
}

/// An order gets unlimited payments, at a price of which thousands overflow 64 bits. The limit admits as many refunds
/// due as always fit, and further payments are refused before settlement. Earlier payments get the same reply as
/// before.
pub async fn an_order_takes_as_many_payments_as_can_be_owed_back(case: &mut Scenario) {
    const PRICE: i64 = 1_000_000_000_000_000;
    let target = case.open(sale(2).price(PRICE)).await;
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    let pay = |order, n: u32| Command::Pay {
        order,
        payment: PaymentRef::new(&format!("p{n}")).expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    let order = case.nth(target, 1);
    let mut replies = Vec::new();
    for numbers in [0..600, 600..1_200] {
        let payments = numbers.map(|n| pay(order, n)).collect();
        replies.extend(case.submit_all(payments).await);
    }
    let taken = replies.iter().filter(|reply| reply.is_ok()).count();
    assert_eq!(
        taken,
        REFUNDS_DUE_MAX as usize + 1,
        "one of them pays the order"
    );
    let refused = Err(Refusal::TooManyPayments.into());
    let others = replies.iter().filter(|reply| reply.is_err());
    assert!(others.into_iter().all(|reply| *reply == refused));
    let view = case.order(order).await.unwrap();
    let due = view.grant.order.map(|order| order.refunds_due);
    assert_eq!(due, Some(REFUNDS_DUE_MAX));
    // The limit counts each order separately.
    assert_eq!(case.pay(case.nth(target, 2), "p0").await.0, Paid);
    case.settle().await;
    let owed = i64::from(REFUNDS_DUE_MAX) * PRICE;
    assert_eq!(case.balance("a").await, (0, owed));
    assert_eq!(case.balance("owner").await, (2 * PRICE, 0));
    case.restart().await;
    let again = case
        .submit_all(vec![pay(order, 0), pay(order, 10_000)])
        .await;
    assert!(again[0].is_ok() && again[1] == refused, "{again:?}");
}

/// A repeated cancellation restocks the units once, and the user may buy again.
pub async fn cancelling_returns_the_units_once(case: &mut Scenario) {
    let target = case.open(sale(5).limit(4)).await;
    case.granted(target.units("a", 3)).await;
    case.granted(target.units("b", 2)).await;
    for _ in 0..3 {
        let view = case.try_cancel(case.nth(target, 1)).await.unwrap();
        assert_eq!(
            view.grant.order.map(|order| order.state),
            Some(OrderState::Cancelled)
        );
        assert_eq!(case.tally(target.id).await.remaining, 3);
    }
    case.granted(target.units("a", 3)).await;
    let order = case.nth(target, 2);
    let replies = case
        .submit_all(vec![Command::Cancel { order, part: None }; 100])
        .await;
    assert!(replies.iter().all(Result::is_ok));
    assert_eq!(case.tally(target.id).await.remaining, 2);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(state(case, target, 1).await, OrderState::Cancelled);
}

/// Only a held order can be cancelled.
pub async fn what_is_paid_or_expired_cannot_be_cancelled(case: &mut Scenario) {
    let target = case.open(sale(5)).await;
    case.granted(target.one("a")).await;
    case.granted(target.one("b")).await;
    case.pay(case.nth(target, 1), "p").await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    for (n, from) in [(1, OrderState::Paid), (2, OrderState::Expired)] {
        let step = OrderStep::Cancel;
        let refusal = Refusal::Order(OrderStepError { from, step });
        assert_eq!(case.try_cancel(case.nth(target, n)).await, Err(refusal));
    }
    assert_eq!(case.tally(target.id).await.remaining, 4);
}

/// Endless claims and cancellations would fill the log, so the number of a user's returned orders is limited.
pub async fn giving_back_is_bounded(case: &mut Scenario) {
    let target = case.open(sale(5)).await;
    for _ in 0..RETURNED_ORDERS_PER_USER_MAX {
        let order = case.granted(target.one("a")).await.order_id();
        case.try_cancel(order).await.unwrap();
    }
    assert_eq!(case.outcome(target.one("a")).await, "limit_reached");
    case.granted(target.one("b")).await;
}

/// An order that was never granted can be neither paid nor cancelled.
pub async fn an_unknown_order_is_refused(case: &mut Scenario) {
    let known = case.open(sale(5)).await;
    let grant = case.granted(known.one("a")).await;
    let next = known.order(grant.number + 1);
    let unknown = Target::of(&sale(5).setup(1_000_000));
    for order in [next, known.order(u32::MAX), unknown.order(1)] {
        assert_eq!(case.try_cancel(order).await, Err(Refusal::UnknownOrder));
        let payment = PaymentRef::new("p").expect("well-formed");
        let reply = case
            .submit(Command::Pay {
                order,
                payment,
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            })
            .await;
        assert_eq!(reply, Err(Refusal::UnknownOrder.into()));
        assert_eq!(case.order(order).await, None);
    }
}

/// A share can be neither paid nor returned.
pub async fn a_packet_has_no_orders(case: &mut Scenario) {
    let target = case.open(red_packet(100, 2, SplitRule::Equal)).await;
    let grant = case.granted(target.one("a")).await;
    assert_eq!(grant.order, None);
    let order = grant.order_id();
    assert_eq!(case.order(order).await, None);
    assert_eq!(case.try_cancel(order).await, Err(Refusal::UnknownOrder));
    let payment = PaymentRef::new("p").expect("well-formed");
    let reply = case
        .submit(Command::Pay {
            order,
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        })
        .await;
    assert_eq!(reply, Err(Refusal::UnknownOrder.into()));
}
