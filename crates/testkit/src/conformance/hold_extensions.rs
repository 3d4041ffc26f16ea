//! Held orders whose hold the seller extends: once, within its bound, and until the new end.

use qiang_core::{
    book::{
        CampaignAction, Command, OrderView,
        PaymentOutcome::{Paid, Reinstated},
        Refusal, Reply,
    },
    id::OrderId,
    order::{OrderState, OrderStep, OrderStepError},
    ports::EngineError,
};

use super::Scenario;
use crate::campaign::{HOLD_MS, OPENS, Target, sale};

/// Extension of the hold in most cases.
const LONGER_MS: i64 = HOLD_MS / 2;

/// State of an order, the end of its hold, and its extension, both in milliseconds after the opening.
fn of_view(view: &OrderView) -> (OrderState, i64, i64) {
    let order = view.grant.order.expect("an order");
    let until = order.hold_until.millis_since(OPENS);
    (order.state, until, order.extension_ms)
}

fn refused(from: OrderState) -> Result<OrderView, Refusal> {
    let step = OrderStep::ExtendHold;
    Err(Refusal::Order(OrderStepError { from, step }))
}

async fn extend(
    case: &mut Scenario,
    order: OrderId,
    extension_ms: i64,
) -> Result<OrderView, Refusal> {
    let command = Command::ExtendHold {
        order,
        extension_ms,
    };
    match case.submit(command).await {
        Ok(Reply::HoldExtended(view)) => Ok(view),
        Err(EngineError::Refused(refusal)) => Err(refusal),
        other => panic!("an extension got the reply {other:?}"),
    }
}

async fn look(case: &Scenario, target: Target, n: usize) -> (OrderState, i64, i64) {
    let view = case.order(case.nth(target, n)).await;
    of_view(&view.expect("the order is known"))
}

/// An extended hold outlasts the others, and a restart. Its units are for sale again at the new end.
pub async fn an_extended_hold_ends_at_its_new_end(case: &mut Scenario) {
    let target = case.open(sale(3)).await;
    for user in ["a", "b", "c"] {
        case.granted(target.one(user)).await;
    }
    let (first, longer) = (case.nth(target, 1), HOLD_MS + LONGER_MS);
    case.at(OPENS.plus_millis(HOLD_MS - 1)).await;
    let view = extend(case, first, LONGER_MS).await.unwrap();
    assert_eq!(of_view(&view), (OrderState::Held, longer, LONGER_MS));
    extend(case, case.nth(target, 3), HOLD_MS).await.unwrap();
    case.restart().await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(look(case, target, 1).await.0, OrderState::Held);
    assert_eq!(look(case, target, 2).await.0, OrderState::Expired);
    case.settle().await;
    case.restart().await;
    let held = (OrderState::Held, longer, LONGER_MS);
    assert_eq!(look(case, target, 1).await, held);
    case.at(OPENS.plus_millis(longer - 1)).await;
    assert_eq!(look(case, target, 1).await, held);
    case.at(OPENS.plus_millis(longer)).await;
    assert_eq!(
        look(case, target, 1).await,
        (OrderState::Expired, longer, LONGER_MS)
    );
    assert_eq!(look(case, target, 3).await.0, OrderState::Held);
    assert_eq!(case.tally(target.id).await.remaining, 2);
    case.at(OPENS.plus_millis(2 * HOLD_MS)).await;
    assert_eq!(look(case, target, 3).await.0, OrderState::Expired);
    assert_eq!(case.tally(target.id).await.remaining, 3);
    case.settle().await;
}

/// A payment in the extension pays the order. The order is not released at either end.
pub async fn a_payment_in_the_extension_pays(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    extend(case, order, LONGER_MS).await.unwrap();
    case.at(OPENS.plus_millis(HOLD_MS + 1)).await;
    assert_eq!(case.outcome(target.one("b")).await, "sold_out");
    assert_eq!(case.pay(order, "late").await.0, Paid);
    case.at(OPENS.plus_millis(3 * HOLD_MS)).await;
    let paid = (OrderState::Paid, HOLD_MS + LONGER_MS, LONGER_MS);
    assert_eq!(look(case, target, 1).await, paid);
    case.settle().await;
    assert_eq!(case.balance("owner").await, (100, 0));
    // A retry is answered; another extension is refused.
    let again = extend(case, order, LONGER_MS).await.unwrap();
    assert_eq!(of_view(&again), paid);
    assert_eq!(
        extend(case, order, HOLD_MS).await,
        refused(OrderState::Paid)
    );
}

/// A payment after the extension finds the order expired, and takes its units again.
pub async fn a_payment_after_the_extension_reinstates(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    extend(case, order, LONGER_MS).await.unwrap();
    case.at(OPENS.plus_millis(HOLD_MS + LONGER_MS)).await;
    assert_eq!(case.pay(order, "late").await.0, Reinstated);
    case.settle().await;
}

/// The same extension again changes nothing. Another one is refused, and so is one beyond the bound.
pub async fn a_hold_is_extended_once(case: &mut Scenario) {
    let target = case.open(sale(4)).await;
    for user in ["a", "b", "c", "d"] {
        case.granted(target.one(user)).await;
    }
    let order = case.nth(target, 1);
    for extension_ms in [-1, 0, HOLD_MS + 1] {
        let refusal = Refusal::ExtensionOutOfRange { max_ms: HOLD_MS };
        assert_eq!(extend(case, order, extension_ms).await, Err(refusal));
    }
    let first = extend(case, order, HOLD_MS).await.unwrap();
    assert_eq!(
        of_view(&first),
        (OrderState::Held, 2 * HOLD_MS, HOLD_MS),
        "the bound is allowed"
    );
    let logged = case.logs().await;
    case.restart().await;
    assert_eq!(extend(case, order, HOLD_MS).await, Ok(first));
    let twice = Refusal::AlreadyExtended {
        extension_ms: HOLD_MS,
    };
    for extension_ms in [1, HOLD_MS - 1, HOLD_MS + 1, 0] {
        assert_eq!(extend(case, order, extension_ms).await, Err(twice));
    }
    assert_eq!(case.logs().await, logged);
    let (paid, cancelled) = (case.nth(target, 2), case.nth(target, 3));
    case.pay(paid, "p").await;
    case.try_cancel(cancelled).await.unwrap();
    assert_eq!(extend(case, paid, 1).await, refused(OrderState::Paid));
    assert_eq!(
        extend(case, cancelled, 1).await,
        refused(OrderState::Cancelled)
    );
    let expired = case.nth(target, 4);
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(extend(case, expired, 1).await, refused(OrderState::Expired));
    assert_eq!(
        extend(case, target.order(99), 1).await,
        Err(Refusal::UnknownOrder)
    );
}

/// One of several extensions at once counts, also if each is repeated.
pub async fn extensions_at_once_extend_once(case: &mut Scenario) {
    let target = case.open(sale(1)).await;
    case.granted(target.one("a")).await;
    let order = case.nth(target, 1);
    let lengths = (0..100).map(|n| [LONGER_MS, HOLD_MS][n % 2]);
    let commands = lengths.map(|extension_ms| Command::ExtendHold {
        order,
        extension_ms,
    });
    let replies = case.submit_all(commands.collect()).await;
    let (_, _, won) = look(case, target, 1).await;
    for reply in &replies {
        match reply {
            Ok(Reply::HoldExtended(view)) => assert_eq!(of_view(view).2, won),
            Err(EngineError::Refused(Refusal::AlreadyExtended { extension_ms })) => {
                assert_eq!(*extension_ms, won);
            }
            other => panic!("{other:?}"),
        }
    }
    let extended = |reply: &&Result<Reply, _>| matches!(reply, Ok(Reply::HoldExtended(_)));
    assert_eq!(replies.iter().filter(extended).count(), 50);
    case.settle().await;
}

/// An extended order is cancelled in part and as a whole like any other one.
pub async fn an_extended_order_is_cancelled(case: &mut Scenario) {
    let target = case.open(sale(4).limit(2)).await;
    case.granted(target.keyed("a", 2, "claim")).await;
    case.granted(target.keyed("b", 2, "claim")).await;
    let (first, second) = (case.nth(target, 1), case.nth(target, 2));
    for order in [first, second] {
        extend(case, order, LONGER_MS).await.unwrap();
    }
    let part = case.cancel_part(first, 1, "part").await.unwrap();
    let longer = HOLD_MS + LONGER_MS;
    assert_eq!(of_view(&part), (OrderState::Held, longer, LONGER_MS));
    case.try_cancel(second).await.unwrap();
    assert_eq!(case.tally(target.id).await.remaining, 3);
    case.restart().await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(
        look(case, target, 1).await,
        (OrderState::Held, longer, LONGER_MS)
    );
    case.at(OPENS.plus_millis(longer)).await;
    assert_eq!(look(case, target, 1).await.0, OrderState::Expired);
    assert_eq!(case.tally(target.id).await.remaining, 4);
    case.settle().await;
}

/// A sale that closes keeps its held orders. Their holds are extended, and end for the owner.
pub async fn a_hold_is_extended_after_the_close(case: &mut Scenario) {
    let target = case.open(sale(2)).await;
    case.granted(target.one("a")).await;
    case.act(target.id, CampaignAction::Close).await;
    extend(case, case.nth(target, 1), LONGER_MS).await.unwrap();
    case.settle().await;
    case.restart().await;
    case.at(OPENS.plus_millis(HOLD_MS)).await;
    assert_eq!(look(case, target, 1).await.0, OrderState::Held);
    assert_eq!(case.tally(target.id).await.returned, 1);
    case.at(OPENS.plus_millis(HOLD_MS + LONGER_MS)).await;
    assert_eq!(look(case, target, 1).await.0, OrderState::Expired);
    assert_eq!(case.tally(target.id).await.returned, 2);
    case.settle().await;
}
