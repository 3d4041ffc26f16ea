//! Orders that are returned unit by unit: each key acts once, and all returns together owe exactly the money that paid
//! the order.

use qiang_core::{
    book::{
        CampaignAction, Command, OrderView,
        PaymentOutcome::{Paid, RefundDue},
        Refusal, Reply,
    },
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::{OrderState, OrderStep, OrderStepError, RETURNS_MAX, ReturnPart},
    payment::{PaymentPolicy, ReceivedMoney},
    ports::EngineError,
};

use super::Scenario;
use crate::campaign::{Target, currency, sale};

/// State of an order, its units returned, and its number of refunds due.
fn step(view: &OrderView) -> Option<(OrderState, u32, u32)> {
    let order = view.grant.order?;
    Some((order.state, order.returned_quantity, order.refunds_due))
}

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).expect("well-formed");
    Some(ReturnPart { quantity, key })
}

/// An order of three units, paid with one minor unit more than their price.
async fn bought(case: &mut Scenario) -> (Target, OrderId) {
    let sale = sale(6).limit(3).price(33).owner("owner");
    let target = case
        .open(sale.payment_policy(PaymentPolicy::AcceptOver))
        .await;
    case.granted(target.units("a", 3)).await;
    let order = case.nth(target, 1);
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new("p").expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::Accepted(Money::new(100, currency())),
        cancelled: 0,
    };
    let paid = case.submit(pay).await;
    assert!(matches!(paid, Ok(Reply::Payment(Paid, _))), "{paid:?}");
    (target, order)
}

/// Each return owes its fraction of the payment, rounded down. The last one owes the rest.
pub async fn parts_of_an_order_owe_exactly_what_was_paid(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    let owed = [33, 66, 100];
    for (n, owed) in (1..=3).zip(owed) {
        for _ in 0..2 {
            let view = case.return_part(order, 1, &format!("k{n}")).await.unwrap();
            let state = match n {
                3 => OrderState::Returned,
                _ => OrderState::Paid,
            };
            assert_eq!(step(&view), Some((state, n, 1)));
            assert_eq!(case.order(order).await, Some(view));
            case.restart().await;
        }
        let tally = case.tally(target.id).await;
        let units = u64::from(n);
        assert_eq!((tally.granted, tally.remaining), (3 - units, 3 + units));
        case.settle().await;
        assert_eq!(case.balance("owner").await, (100 - owed, 0));
        assert_eq!(case.balance("a").await, (0, owed));
    }
    let due = case.ledger().owed(order).await.unwrap();
    assert_eq!(due[0].due.minor, 100);
    // Each key still identifies its own return.
    let view = case.return_part(order, 1, "k1").await.unwrap();
    assert_eq!(step(&view), Some((OrderState::Returned, 3, 1)));
}

/// A return without a quantity returns all units that are left.
pub async fn the_rest_of_an_order_is_returned_after_a_part(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    case.return_part(order, 2, "k").await.unwrap();
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 66));
    let due = case.ledger().owed(order).await.unwrap();
    assert_eq!(due[0].due.minor, 66);
    for _ in 0..2 {
        let view = case.try_return(order).await.unwrap();
        assert_eq!(step(&view), Some((OrderState::Returned, 3, 1)));
        case.restart().await;
    }
    assert_eq!(case.pay(order, "q").await.0, RefundDue);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 100 + 99));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
}

/// Concurrent returns together return exactly the units bought, and each key acts once.
pub async fn returns_at_once_return_what_was_bought(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    let same = Command::Return {
        order,
        part: part(1, "same"),
    };
    let replies = case.submit_all(vec![same; 50]).await;
    let returned = |reply: &&Result<Reply, EngineError>| matches!(reply, Ok(Reply::Returned(_)));
    assert_eq!(replies.iter().filter(returned).count(), 50);
    assert_eq!(case.tally(target.id).await.granted, 2);
    let others = (0..50).map(|n| Command::Return {
        order,
        part: part(1, &format!("k{n}")),
    });
    let replies = case.submit_all(others.collect()).await;
    assert_eq!(replies.iter().filter(returned).count(), 2);
    let view = case.order(order).await.expect("it was bought");
    assert_eq!(step(&view), Some((OrderState::Returned, 3, 1)));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 100));
}

/// A return of more units than are left is refused. So is a key with another number of units. Neither changes anything.
pub async fn a_return_of_too_much_is_refused(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    case.granted(target.one("b")).await;
    let held = case.nth(target, 2);
    let (from, step) = (OrderState::Held, OrderStep::Return);
    let not_paid = Err(Refusal::Order(OrderStepError { from, step }));
    assert_eq!(case.return_part(held, 1, "k").await, not_paid);
    let too_much = |left| Err(Refusal::ReturnTooLarge { left });
    for quantity in [0, 4, u32::MAX] {
        assert_eq!(case.return_part(order, quantity, "k").await, too_much(3));
    }
    case.return_part(order, 1, "k").await.unwrap();
    assert_eq!(case.return_part(order, 3, "l").await, too_much(2));
    let reused = case.return_part(order, 2, "k").await;
    assert_eq!(reused, Err(Refusal::KeyReused));
    case.restart().await;
    let reused = case.return_part(order, 2, "k").await;
    assert_eq!(reused, Err(Refusal::KeyReused));
    case.try_return(order).await.unwrap();
    let from = OrderState::Returned;
    let returned = Err(Refusal::Order(OrderStepError { from, step }));
    assert_eq!(case.return_part(order, 1, "m").await, returned);
    let unknown = case.return_part(target.order(u32::MAX), 1, "k").await;
    assert_eq!(unknown, Err(Refusal::UnknownOrder));
}

/// Returned units are sold again, and the limit counts only units that the buyer still has.
pub async fn returned_units_are_sold_again(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    case.granted(target.units("b", 3)).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.return_part(order, 1, "k").await.unwrap();
    assert_eq!(case.outcome(target.units("a", 2)).await, "limit_reached");
    case.restart().await;
    assert_eq!(case.outcome(target.units("a", 2)).await, "limit_reached");
    case.granted(target.units("a", 1)).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
}

/// After the close, returned units go to the owner, and the refund due is the same.
pub async fn parts_after_the_close_are_the_owners(case: &mut Scenario) {
    let (target, order) = bought(case).await;
    case.return_part(order, 1, "k").await.unwrap();
    case.act(target.id, CampaignAction::Close).await;
    case.settle().await;
    case.return_part(order, 1, "l").await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.returned, tally.remaining), (1, 5, 0));
    case.restart().await;
    case.return_part(order, 1, "m").await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.returned, tally.remaining), (0, 6, 0));
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 100));
}

/// An order that costs nothing is returned in parts, and nothing is owed.
pub async fn a_free_order_is_returned_in_parts(case: &mut Scenario) {
    let target = case.open(sale(6).limit(3).price(0)).await;
    case.granted(target.units("a", 3)).await;
    let order = case.nth(target, 1);
    let view = case.return_part(order, 1, "k").await.unwrap();
    assert_eq!(step(&view), Some((OrderState::Paid, 1, 0)));
    case.restart().await;
    // A cancellation returns the rest.
    let view = case.try_cancel(order).await.unwrap();
    assert_eq!(step(&view), Some((OrderState::Returned, 3, 0)));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 0));
}

/// After the largest number of returns of parts another one is refused, and the rest is returned whole. A repeated
/// return is answered as before.
pub async fn returns_of_parts_are_bounded(case: &mut Scenario) {
    let units = RETURNS_MAX + 5;
    let sale = sale(units).limit(units).price(3).owner("owner");
    let target = case.open(sale).await;
    case.granted(target.units("a", units)).await;
    let order = case.nth(target, 1);
    assert_eq!(case.pay(order, "p").await.0, Paid);
    let returning = |n: u32| Command::Return {
        order,
        part: part(1, &format!("k{n}")),
    };
    for numbers in [0..RETURNS_MAX / 2, RETURNS_MAX / 2..RETURNS_MAX] {
        let replies = case.submit_all(numbers.map(returning).collect()).await;
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    }
    for restarts in [false, true] {
        if restarts {
            case.restart().await;
        }
        let refused = Err(Refusal::TooManyReturns);
        assert_eq!(case.return_part(order, 1, "further").await, refused);
        assert!(case.return_part(order, 1, "k7").await.is_ok());
    }
    let tally = case.tally(target.id).await;
    assert_eq!(
        (tally.granted, tally.remaining),
        (5, u64::from(RETURNS_MAX))
    );
    let rest = case.submit(Command::Return { order, part: None }).await;
    assert!(matches!(rest, Ok(Reply::Returned(_))), "{rest:?}");
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 3 * i64::from(units)));
}
