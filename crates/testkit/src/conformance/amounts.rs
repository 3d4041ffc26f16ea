//! Payments in another amount or currency than the order's price. Each becomes a refund due as it arrived.

use qiang_core::{
    book::{
        Command, OrderView,
        PaymentOutcome::{self, Paid, RefundDue, Reinstated},
        Refusal, Reply,
    },
    id::{OrderId, PaymentRef},
    money::Money,
    order::{OrderState, REFUNDS_DUE_MAX},
    payment::ReceivedMoney,
    ports::{Payout, RefundBalance, RefundBalanceQuery},
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, currency, sale, user};

fn money(minor: i64) -> Money {
    Money::new(minor, currency())
}

fn euros(minor: i64) -> Money {
    Money::new(minor, "EUR".parse().expect("a currency"))
}

async fn pay_other(
    case: &mut Scenario,
    order: OrderId,
    payment: &str,
    money: Money,
) -> (PaymentOutcome, OrderView) {
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new(payment).expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::Other(money),
        cancelled: 0,
    };
    match case.submit(pay).await {
        Ok(Reply::Payment(outcome, view)) => (outcome, view),
        other => panic!("a payment got the reply {other:?}"),
    }
}

fn refund(order: OrderId, name: &str, amount: Money) -> Payout {
    Payout::Refund {
        order,
        reference: PaymentRef::new(name).expect("well-formed"),
        amount,
    }
}

/// State of an order, and its number of refunds due.
async fn standing(case: &Scenario, order: OrderId) -> (OrderState, u32) {
    let view = case.order(order).await.expect("the order is known");
    let order = view.grant.order.expect("it is an order");
    (order.state, order.refunds_due)
}

fn owed(name: &str, due: Money, refunded_minor: i64) -> RefundBalance {
    RefundBalance {
        user: user(name),
        due,
        refunded_minor,
    }
}

/// An order is held until its price arrives. Earlier payments stay refunds due in their own currency.
pub async fn another_amount_is_owed_back_and_pays_nothing(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    for name in ["a", "b"] {
        case.granted(target.one(name)).await;
    }
    let (order, later) = (case.nth(target, 1), case.nth(target, 2));
    for (reference, other) in [
        ("under", money(99)),
        ("over", money(101)),
        ("euros", euros(100)),
    ] {
        assert_eq!(pay_other(case, order, reference, other).await.0, RefundDue);
    }
    assert_eq!(standing(case, order).await, (OrderState::Held, 3));
    for _ in 0..2 {
        // The same reference gets the same reply, with any amount, and counts once.
        assert_eq!(
            pay_other(case, order, "under", money(98)).await.0,
            RefundDue
        );
        assert_eq!(case.pay(order, "over").await.0, RefundDue);
        assert_eq!(standing(case, order).await, (OrderState::Held, 3));
        case.restart().await;
    }
    assert_eq!(case.pay(order, "p").await.0, Paid);
    assert_eq!(pay_other(case, order, "p", money(1)).await.0, Paid);
    assert_eq!(pay_other(case, order, "more", euros(7)).await.0, RefundDue);
    assert_eq!(pay_other(case, later, "x", euros(5)).await.0, RefundDue);
    assert_eq!(standing(case, order).await, (OrderState::Paid, 4));
    assert_eq!(standing(case, later).await, (OrderState::Held, 1));
    case.settle().await;

    let ledger = case.ledger();
    let both = vec![owed("a", money(200), 0), owed("a", euros(107), 0)];
    assert_eq!(ledger.owed(order).await, Ok(both));
    let other = vec![owed("b", money(0), 0), owed("b", euros(5), 0)];
    assert_eq!(ledger.owed(later).await, Ok(other));
    let mut page = RefundBalanceQuery {
        owner: None,
        after: None,
        limit: 1,
    };
    // An order and all its currencies are on one page, even with a smaller page limit.
    let mut pages = [
        (order, vec![money(200), euros(107)]),
        (later, vec![euros(5)]),
    ];
    pages.sort_by_key(|(order, _)| order.number);
    for (order, dues) in pages {
        let rows = ledger.owed_orders(&page).await.expect("the ledger answers");
        assert!(rows.iter().all(|row| row.order == order), "{rows:?}");
        let listed: Vec<_> = rows.iter().map(|row| row.owed.due).collect();
        assert_eq!(listed, dues);
        page.after = Some(order);
    }
    assert_eq!(ledger.owed_orders(&page).await, Ok(Vec::new()));
    let reference = PaymentRef::new("euros").expect("well-formed");
    let payment = ledger.payment_of(&reference).await;
    let payment = payment.expect("the ledger answers");
    assert_eq!(payment.map(|it| it.amount), Some(euros(100)));

    for (name, amount) in [("r-1", money(201)), ("r-1", euros(108))] {
        assert!(ledger.pay_out(&refund(order, name, amount)).await.is_err());
    }
    for (name, amount) in [("r-1", money(200)), ("r-2", euros(100)), ("r-3", euros(7))] {
        let posted = ledger.pay_out(&refund(order, name, amount)).await;
        assert_eq!(posted.map(|posted| posted.amount), Ok(amount));
    }
    let none_left = ledger.pay_out(&refund(order, "r-4", euros(1))).await;
    assert!(none_left.is_err(), "{none_left:?}");
    let both = vec![owed("a", money(200), 200), owed("a", euros(107), 107)];
    assert_eq!(ledger.owed(order).await, Ok(both));
    for amount in [money(200), euros(107)] {
        case.refunded_in("a", amount);
    }
}

/// Another amount takes no units: neither after the hold ended, nor for an order that costs nothing.
pub async fn another_amount_reinstates_nothing(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(pay_other(case, order, "less", money(99)).await.0, RefundDue);
    assert_eq!(standing(case, order).await, (OrderState::Expired, 1));
    assert_eq!(case.pay(order, "p").await.0, Reinstated);
    case.try_return(order)
        .await
        .expect("a paid order can be returned");
    assert_eq!(pay_other(case, order, "more", money(1)).await.0, RefundDue);
    case.settle().await;
    let all = case.ledger().owed(order).await;
    assert_eq!(all, Ok(vec![owed("a", money(200), 0)]));
}

/// An order that costs nothing is paid. Money received for it becomes a refund due.
pub async fn money_for_a_free_order_is_owed_back(case: &mut Scenario) {
    let target = case.open(sale(1).price(0)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    assert_eq!(case.pay(order, "nothing").await.0, Paid);
    for _ in 0..2 {
        assert_eq!(pay_other(case, order, "one", money(1)).await.0, RefundDue);
        assert_eq!(standing(case, order).await, (OrderState::Paid, 1));
        case.restart().await;
    }
    case.settle().await;
    let all = case.ledger().owed(order).await;
    assert_eq!(all, Ok(vec![owed("a", money(1), 0)]));
}

/// The limit of refunds due per order refuses further ones. It does not refuse the price that pays the order.
pub async fn the_price_pays_an_order_with_all_refunds_due(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    for name in ["a", "b"] {
        case.granted(target.one(name)).await;
    }
    let (order, late) = (case.nth(target, 1), case.nth(target, 2));
    let pay = |order: OrderId, name: String, received| Command::Pay {
        order,
        payment: PaymentRef::new(&format!("{}-{name}", order.number)).expect("well-formed"),
        paid_at: None,
        received,
        cancelled: 0,
    };
    let other = ReceivedMoney::Other(euros(1));
    let refused = Err(Refusal::TooManyPayments.into());
    for order in [order, late] {
        let half = REFUNDS_DUE_MAX / 2;
        for numbers in [0..half, half..REFUNDS_DUE_MAX] {
            let payments = numbers.map(|n| pay(order, n.to_string(), other)).collect();
            let replies = case.submit_all(payments).await;
            assert!(replies.iter().all(Result::is_ok), "{replies:?}");
        }
        let one_more = case.submit(pay(order, "more".to_owned(), other)).await;
        assert_eq!(one_more, refused);
        let held = (OrderState::Held, REFUNDS_DUE_MAX);
        assert_eq!(standing(case, order).await, held);
    }
    assert_eq!(case.pay(order, "price").await.0, Paid);
    let second = pay(order, "second".to_owned(), ReceivedMoney::Price);
    assert_eq!(case.submit(second).await, refused);
    // The hold has ended but no tick has expired the order: the payment finds the order's own units.
    case.set_clock(OPENS.plus_millis(HOLD_MS));
    assert_eq!(case.pay(late, "late").await.0, Reinstated);
    for order in [order, late] {
        let paid = (OrderState::Paid, REFUNDS_DUE_MAX);
        assert_eq!(standing(case, order).await, paid);
    }
    case.settle().await;
    for (order, name) in [(order, "a"), (late, "b")] {
        let due = euros(i64::from(REFUNDS_DUE_MAX));
        let all = vec![owed(name, money(0), 0), owed(name, due, 0)];
        assert_eq!(case.ledger().owed(order).await, Ok(all));
    }
}
