//! Payments that differ from the order's price and that the sale's policy accepts.

use qiang_core::{
    book::{
        Command,
        PaymentOutcome::{self, Paid, RefundDue, Reinstated},
        Reply,
    },
    id::{OrderId, PaymentRef},
    money::Money,
    order::OrderState,
    payment::{PaymentPolicy, ReceivedMoney},
    ports::{Payout, RefundBalance},
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, currency, sale, user};

const WITHIN: PaymentPolicy = PaymentPolicy::AcceptWithTolerance(5);

fn money(minor: i64) -> Money {
    Money::new(minor, currency())
}

/// Reports money for an order that costs 100, under a policy.
async fn pay(
    case: &mut Scenario,
    order: OrderId,
    (payment, arrived): (&str, Money),
    policy: PaymentPolicy,
) -> PaymentOutcome {
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new(payment).expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::new(arrived, money(100), policy),
        cancelled: 0,
    };
    match case.submit(pay).await {
        Ok(Reply::Payment(outcome, _)) => outcome,
        other => panic!("a payment got the reply {other:?}"),
    }
}

/// State of an order, and its number of refunds due.
async fn standing(case: &Scenario, order: OrderId) -> (OrderState, u32) {
    let view = case.order(order).await.expect("the order is known");
    let order = view.grant.order.expect("it is an order");
    (order.state, order.refunds_due)
}

fn owed(name: &str, due_minor: i64, refunded_minor: i64) -> Vec<RefundBalance> {
    vec![RefundBalance {
        user: user(name),
        due: money(due_minor),
        refunded_minor,
    }]
}

async fn take_back(case: &mut Scenario, order: OrderId) {
    let returned = case.try_return(order).await;
    returned.expect("a paid order can be returned");
}

/// More than the price pays an order of such a sale, once. A return owes exactly this amount.
pub async fn more_than_the_price_pays_where_it_is_accepted(case: &mut Scenario) {
    let policy = PaymentPolicy::AcceptOver;
    let target = case
        .open(sale(2).owner("seller").payment_policy(policy))
        .await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    assert_eq!(
        pay(case, order, ("less", money(99)), policy).await,
        RefundDue
    );
    assert_eq!(standing(case, order).await, (OrderState::Held, 1));
    for _ in 0..2 {
        assert_eq!(pay(case, order, ("over", money(150)), policy).await, Paid);
        // The same reference gets the same reply, with any amount.
        assert_eq!(pay(case, order, ("over", money(1)), policy).await, Paid);
        assert_eq!(
            pay(case, order, ("twice", money(170)), policy).await,
            RefundDue
        );
        assert_eq!(standing(case, order).await, (OrderState::Paid, 2));
        case.restart().await;
    }
    case.settle().await;
    assert_eq!(case.balance("seller").await, (150, 0));
    assert_eq!(case.ledger().owed(order).await, Ok(owed("a", 269, 0)));
    let reference = PaymentRef::new("over").expect("well-formed");
    let payment = case.ledger().payment_of(&reference).await;
    let payment = payment.expect("the ledger answers");
    assert_eq!(payment.map(|it| it.amount), Some(money(150)));

    for _ in 0..2 {
        take_back(case, order).await;
        assert_eq!(standing(case, order).await, (OrderState::Returned, 3));
        assert_eq!(pay(case, order, ("over", money(150)), policy).await, Paid);
        case.settle().await;
        assert_eq!(case.balance("seller").await, (0, 0));
        assert_eq!(case.ledger().owed(order).await, Ok(owed("a", 419, 0)));
    }
    let refund = |name: &str, minor| Payout::Refund {
        order,
        reference: PaymentRef::new(name).expect("well-formed"),
        amount: money(minor),
    };
    let ledger = case.ledger();
    assert!(ledger.pay_out(&refund("r-1", 420)).await.is_err());
    for (name, minor) in [("r-1", 269), ("r-2", 149), ("r-3", 1)] {
        let posted = ledger.pay_out(&refund(name, minor)).await;
        assert_eq!(posted.map(|posted| posted.amount), Ok(money(minor)));
    }
    assert!(ledger.pay_out(&refund("r-4", 1)).await.is_err());
    assert_eq!(ledger.owed(order).await, Ok(owed("a", 419, 419)));
    for minor in [269, 149, 1] {
        case.refunded_in("a", money(minor));
    }
}

/// Amounts up to the tolerance below and above the price pay an order; one minor unit further, or another currency,
/// pays nothing.
pub async fn a_tolerance_is_exact_on_both_sides(case: &mut Scenario) {
    let target = case
        .open(sale(4).owner("seller").payment_policy(WITHIN))
        .await;
    for name in ["a", "b", "c"] {
        case.granted(target.one(name)).await;
    }
    let [less, more, waiting] = [1, 2, 3].map(|n| case.nth(target, n));
    let euros = Money::new(100, "EUR".parse().expect("a currency"));
    for (order, payment, arrived, expected) in [
        (less, "94", money(94), RefundDue),
        (less, "95", money(95), Paid),
        (more, "106", money(106), RefundDue),
        (more, "105", money(105), Paid),
        (waiting, "euros", euros, RefundDue),
    ] {
        let outcome = pay(case, order, (payment, arrived), WITHIN).await;
        assert_eq!(outcome, expected, "{payment}");
    }
    assert_eq!(standing(case, waiting).await, (OrderState::Held, 1));
    case.settle().await;
    assert_eq!(case.balance("seller").await, (200, 0));
    // One payment is settled before its return, the other together with it.
    take_back(case, less).await;
    assert_eq!(pay(case, waiting, ("101", money(101)), WITHIN).await, Paid);
    take_back(case, waiting).await;
    case.settle().await;
    assert_eq!(case.balance("seller").await, (105, 0));
    assert_eq!(case.ledger().owed(less).await, Ok(owed("a", 94 + 95, 0)));
    assert_eq!(case.ledger().owed(more).await, Ok(owed("b", 106, 0)));
    let of_waiting = case.ledger().owed(waiting).await;
    let of_waiting = of_waiting.expect("the ledger answers");
    assert_eq!(of_waiting[..1], owed("c", 101, 0));
}

/// An accepted amount pays an expired order if its units are still there. If it pays nothing, it is owed as it arrived.
pub async fn an_accepted_amount_pays_late_or_is_owed_back(case: &mut Scenario) {
    let policy = PaymentPolicy::AcceptOver;
    let target = case
        .open(sale(2).owner("seller").payment_policy(policy))
        .await;
    for name in ["a", "b"] {
        case.granted(target.one(name)).await;
    }
    let (late, cancelled) = (case.nth(target, 1), case.nth(target, 2));
    case.try_cancel(cancelled).await.expect("it is held");
    assert_eq!(
        pay(case, cancelled, ("none", money(130)), policy).await,
        RefundDue
    );
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(
        pay(case, late, ("late", money(120)), policy).await,
        Reinstated
    );
    case.settle().await;
    assert_eq!(case.balance("seller").await, (120, 0));
    assert_eq!(case.ledger().owed(late).await, Ok(owed("a", 0, 0)));
    assert_eq!(case.ledger().owed(cancelled).await, Ok(owed("b", 130, 0)));
    take_back(case, late).await;
    case.settle().await;
    assert_eq!(case.balance("seller").await, (0, 0));
    assert_eq!(case.ledger().owed(late).await, Ok(owed("a", 120, 0)));
}
