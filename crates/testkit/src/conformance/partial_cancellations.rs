//! Held orders that are cancelled unit by unit: each key acts once, the rest has its price, and others buy the units.

use qiang_core::{
    book::{
        CampaignAction, Command, OrderView,
        PaymentOutcome::{Paid, RefundDue, Reinstated},
        Refusal, Reply,
    },
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::{OrderState, OrderStep, OrderStepError, RETURNS_MAX, ReturnPart},
    payment::ReceivedMoney,
    ports::EngineError,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, Target, currency, sale};

const PRICE: i64 = 33;

/// State of an order, its units, its price, and its cancelled units.
fn of_view(view: &OrderView) -> (OrderState, u32, i64, u32) {
    let order = view.grant.order.expect("an order");
    let grant = &view.grant;
    let cancelled = order.cancelled_quantity;
    (order.state, grant.quantity, grant.amount_minor, cancelled)
}

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).expect("well-formed");
    Some(ReturnPart { quantity, key })
}

/// A held order of three units.
async fn held(case: &mut Scenario) -> (Target, OrderId) {
    let sale = sale(6).limit(3).price(PRICE).owner("owner");
    let target = case.open(sale).await;
    case.granted(target.keyed("a", 3, "claim")).await;
    (target, case.nth(target, 1))
}

/// Reports money for an order with these cancelled units.
fn money(order: OrderId, payment: &str, minor: i64, cancelled: u32) -> Command {
    let arrived = Money::new(minor, currency());
    let price = PRICE * (3 - i64::from(cancelled));
    let received = match (minor == price, cancelled) {
        (true, 0) => ReceivedMoney::Price,
        (true, _) => ReceivedMoney::Accepted(arrived),
        (false, _) => ReceivedMoney::Other(arrived),
    };
    Command::Pay {
        order,
        payment: PaymentRef::new(payment).expect("well-formed"),
        paid_at: None,
        received,
        cancelled,
    }
}

fn is_cancelled(reply: &&Result<Reply, EngineError>) -> bool {
    matches!(reply, Ok(Reply::Cancelled(_)))
}

/// A repeated key changes nothing. More units than the order has are refused, and so is another part under the key.
pub async fn units_of_a_held_order_are_cancelled_once_per_key(case: &mut Scenario) {
    let (target, order) = held(case).await;
    let reduced = (OrderState::Held, 2, 2 * PRICE, 1);
    for _ in 0..2 {
        let view = case.cancel_part(order, 1, "k").await.unwrap();
        assert_eq!(of_view(&view), reduced);
        assert_eq!(case.order(order).await, Some(view));
        case.restart().await;
    }
    let too_much = |left| Err(Refusal::CancelTooLarge { left });
    for quantity in [0, 3, u32::MAX] {
        assert_eq!(case.cancel_part(order, quantity, "l").await, too_much(2));
    }
    for _ in 0..2 {
        let reused = case.cancel_part(order, 2, "k").await;
        assert_eq!(reused, Err(Refusal::KeyReused));
        case.settle().await;
    }
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (2, 4));
    let unknown = case.cancel_part(target.order(u32::MAX), 1, "k").await;
    assert_eq!(unknown, Err(Refusal::UnknownOrder));
    // The claim's key still names the order, with the units of the claim.
    assert_eq!(
        case.outcome(target.keyed("a", 3, "claim")).await,
        "already_granted"
    );
    let reused = case.try_claim(target.keyed("a", 2, "claim")).await;
    assert_eq!(reused, Err(EngineError::Refused(Refusal::KeyReused)));
}

/// The price of all units is other money for the rest. The rest's price pays it, and its returns owe that.
pub async fn the_rest_of_an_order_pays_its_price_and_is_returned_in_parts(case: &mut Scenario) {
    let (target, order) = held(case).await;
    case.cancel_part(order, 1, "k").await.unwrap();
    // Money that was compared with the price of other units is compared again.
    for stale in [
        money(order, "stale", 3 * PRICE, 0),
        money(order, "stale", PRICE, 2),
    ] {
        let refused = case.submit(stale).await;
        assert_eq!(refused, Err(EngineError::Refused(Refusal::OrderChanged)));
    }
    let old = case.submit(money(order, "old", 3 * PRICE, 1)).await;
    assert!(matches!(old, Ok(Reply::Payment(RefundDue, _))), "{old:?}");
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 3 * PRICE));
    for _ in 0..2 {
        let new = case.submit(money(order, "new", 2 * PRICE, 1)).await;
        let Ok(Reply::Payment(Paid, view)) = new else {
            panic!("{new:?}")
        };
        assert_eq!(of_view(&view), (OrderState::Paid, 2, 2 * PRICE, 1));
        case.restart().await;
    }
    case.settle().await;
    assert_eq!(case.balance("owner").await, (2 * PRICE, 0));
    // The key still names its part, and no return.
    let view = case.cancel_part(order, 1, "k").await.unwrap();
    assert_eq!(of_view(&view), (OrderState::Paid, 2, 2 * PRICE, 1));
    let reused = case.return_part(order, 1, "k").await;
    assert_eq!(reused, Err(Refusal::KeyReused));
    let (from, step) = (OrderState::Paid, OrderStep::Cancel);
    let paid = Err(Refusal::Order(OrderStepError { from, step }));
    assert_eq!(case.cancel_part(order, 1, "l").await, paid);
    for n in 1..=2 {
        case.return_part(order, 1, &format!("r{n}")).await.unwrap();
        case.restart().await;
    }
    let view = case.order(order).await.unwrap();
    assert_eq!(of_view(&view), (OrderState::Returned, 2, 2 * PRICE, 1));
    case.settle().await;
    assert_eq!(case.balance("owner").await, (0, 0));
    assert_eq!(case.balance("a").await, (0, 5 * PRICE));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
}

/// Without a quantity, or with all units that are left, the order is cancelled.
pub async fn the_last_units_cancel_the_order(case: &mut Scenario) {
    let (target, order) = held(case).await;
    case.cancel_part(order, 1, "k").await.unwrap();
    let gone = (OrderState::Cancelled, 2, 2 * PRICE, 1);
    for again in [(2, "l"), (2, "l"), (1, "k")] {
        let view = case.cancel_part(order, again.0, again.1).await.unwrap();
        assert_eq!(of_view(&view), gone);
        case.restart().await;
    }
    assert_eq!(of_view(&case.try_cancel(order).await.unwrap()), gone);
    let late = case.submit(money(order, "p", 2 * PRICE, 1)).await;
    assert!(matches!(late, Ok(Reply::Payment(RefundDue, _))), "{late:?}");
    case.settle().await;
    assert_eq!(case.balance("a").await, (0, 2 * PRICE));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
}

/// Concurrent cancellations with one key act once, and those with different keys cancel exactly the units held.
pub async fn cancellations_at_once_cancel_what_is_held(case: &mut Scenario) {
    let (target, order) = held(case).await;
    let same = Command::Cancel {
        order,
        part: part(1, "same"),
    };
    let replies = case.submit_all(vec![same; 50]).await;
    assert_eq!(replies.iter().filter(is_cancelled).count(), 50);
    assert_eq!(case.tally(target.id).await.granted, 2);
    let others = (0..50).map(|n| Command::Cancel {
        order,
        part: part(1, &format!("k{n}")),
    });
    // The last unit cancels the order, and later ones find it cancelled.
    let replies = case.submit_all(others.collect()).await;
    assert_eq!(replies.iter().filter(is_cancelled).count(), 50);
    let view = case.order(order).await.expect("it was held");
    assert_eq!(of_view(&view), (OrderState::Cancelled, 1, PRICE, 2));
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (0, 6));
    case.settle().await;
}

/// Payments of every possible price race a cancellation. At most one pays, and it paid for the units that are left.
pub async fn payments_and_cancellations_at_once_keep_units_and_money(case: &mut Scenario) {
    let (target, order) = held(case).await;
    let cancel = |n: u32| Command::Cancel {
        order,
        part: part(1, &format!("k{n}")),
    };
    let pay = |n: u32| money(order, &format!("p{n}"), PRICE * (3 - i64::from(n)), n);
    let commands = (0..3).flat_map(|n| [pay(n), cancel(n), pay(n)]).collect();
    let replies = case.submit_all(commands).await;
    let mut pays = replies.iter().filter_map(|reply| match reply {
        Ok(Reply::Payment(Paid, view)) => Some(view.grant.amount_minor),
        _ => None,
    });
    let view = case.order(order).await.expect("it was held");
    let (state, units, price, cancelled) = of_view(&view);
    assert_eq!((price, cancelled), (PRICE * i64::from(units), 3 - units));
    match state {
        OrderState::Paid => assert!(pays.all(|paid| paid == price)),
        _ => assert_eq!((state, pays.next()), (OrderState::Cancelled, None)),
    }
    case.settle().await;
    let (income, kept) = match state {
        OrderState::Paid => (price, u64::from(units)),
        _ => (0, 0),
    };
    assert_eq!(case.balance("owner").await, (income, 0));
    assert_eq!(case.tally(target.id).await.granted, kept);
}

/// Cancelled units are sold again, and the limit counts only units that the buyer still has.
pub async fn cancelled_units_are_sold_again(case: &mut Scenario) {
    let (target, order) = held(case).await;
    case.granted(target.units("b", 3)).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
    case.cancel_part(order, 1, "k").await.unwrap();
    assert_eq!(case.outcome(target.units("a", 2)).await, "limit_reached");
    case.restart().await;
    assert_eq!(case.outcome(target.units("a", 2)).await, "limit_reached");
    case.granted(target.units("a", 1)).await;
    assert_eq!(case.outcome(target.one("c")).await, "sold_out");
}

/// A reduced order expires with its rest, and a late payment takes only the rest again.
pub async fn a_reduced_order_expires_and_is_reinstated(case: &mut Scenario) {
    let (target, order) = held(case).await;
    case.cancel_part(order, 1, "k").await.unwrap();
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    let (from, step) = (OrderState::Expired, OrderStep::Cancel);
    let late = Err(Refusal::Order(OrderStepError { from, step }));
    assert_eq!(case.cancel_part(order, 1, "l").await, late);
    assert_eq!(case.tally(target.id).await.remaining, 6);
    case.restart().await;
    let paid = case.submit(money(order, "p", 2 * PRICE, 1)).await;
    assert!(
        matches!(paid, Ok(Reply::Payment(Reinstated, _))),
        "{paid:?}"
    );
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.remaining), (2, 4));
    case.settle().await;
    assert_eq!(case.balance("owner").await, (2 * PRICE, 0));
}

/// After the close, cancelled units go to the owner.
pub async fn cancellations_after_the_close_are_the_owners(case: &mut Scenario) {
    let (target, order) = held(case).await;
    case.cancel_part(order, 1, "k").await.unwrap();
    case.act(target.id, CampaignAction::Close).await;
    case.settle().await;
    case.cancel_part(order, 1, "l").await.unwrap();
    let tally = case.tally(target.id).await;
    assert_eq!((tally.granted, tally.returned, tally.remaining), (1, 5, 0));
    case.restart().await;
    let paid = case.submit(money(order, "p", PRICE, 2)).await;
    assert!(matches!(paid, Ok(Reply::Payment(Paid, _))), "{paid:?}");
    case.settle().await;
    assert_eq!(case.balance("owner").await, (PRICE, 0));
}

/// An order that costs nothing is paid from the start: its units are returned, once per key.
pub async fn cancelled_parts_of_a_free_order_are_returned(case: &mut Scenario) {
    let target = case.open(sale(6).limit(3).price(0)).await;
    case.granted(target.units("a", 3)).await;
    let order = case.nth(target, 1);
    let returned = |view: OrderView| {
        let order = view.grant.order.expect("an order");
        (
            order.state,
            order.returned_quantity,
            order.cancelled_quantity,
        )
    };
    for _ in 0..2 {
        let view = case.cancel_part(order, 1, "k").await.unwrap();
        assert_eq!(returned(view), (OrderState::Paid, 1, 0));
        case.restart().await;
    }
    // The key names that return, whichever request comes with it.
    let view = case.return_part(order, 1, "k").await.unwrap();
    assert_eq!(returned(view), (OrderState::Paid, 1, 0));
    let too_much = Err(Refusal::ReturnTooLarge { left: 2 });
    assert_eq!(case.cancel_part(order, 3, "l").await, too_much);
    let view = case.cancel_part(order, 2, "l").await.unwrap();
    assert_eq!(returned(view), (OrderState::Returned, 3, 0));
    let (from, step) = (OrderState::Returned, OrderStep::Return);
    let over = Err(Refusal::Order(OrderStepError { from, step }));
    assert_eq!(case.cancel_part(order, 1, "m").await, over);
    case.settle().await;
    assert_eq!(case.tally(target.id).await.granted, 0);
}

/// After the largest number of parts another one is refused, and the rest is cancelled whole.
pub async fn cancellations_of_parts_are_bounded(case: &mut Scenario) {
    let units = RETURNS_MAX + 5;
    let sale = sale(units).limit(units).price(3).owner("owner");
    let target = case.open(sale).await;
    case.granted(target.units("a", units)).await;
    let order = case.nth(target, 1);
    let cancel = |n: u32| Command::Cancel {
        order,
        part: part(1, &format!("k{n}")),
    };
    for numbers in [0..RETURNS_MAX / 2, RETURNS_MAX / 2..RETURNS_MAX] {
        let replies = case.submit_all(numbers.map(cancel).collect()).await;
        assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    }
    for restarts in [false, true] {
        if restarts {
            case.restart().await;
        }
        let refused = Err(Refusal::TooManyReturns);
        assert_eq!(case.cancel_part(order, 1, "further").await, refused);
        assert!(case.cancel_part(order, 1, "k7").await.is_ok());
    }
    let tally = case.tally(target.id).await;
    assert_eq!(
        (tally.granted, tally.remaining),
        (5, u64::from(RETURNS_MAX))
    );
    let view = case.try_cancel(order).await.unwrap();
    assert_eq!(of_view(&view).0, OrderState::Cancelled);
    case.settle().await;
    assert_eq!(case.tally(target.id).await.granted, 0);
}
