//! Partial cancellations of held orders, when Redis loses some of them.

use qiang_core::{
    book::{OrderView, PaymentOutcome, Refusal, Reply},
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::{OrderState, ReturnPart},
    payment::ReceivedMoney,
    ports::{EngineError, PayoutStore as _},
};

use super::*;

/// Price of a unit.
const PRICE: i64 = 25;

/// Data that Redis loses.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// The last cancellation, which is not settled.
    Last,
    /// The last cancellation, which is settled.
    Settled,
    /// Everything.
    All,
}

async fn cancelled(
    node: &RedisEngine,
    order: OrderId,
    (quantity, key): (u32, &str),
) -> Result<(OrderState, u32, i64), EngineError> {
    let key = IdempotencyKey::new(key).unwrap();
    let part = Some(ReturnPart { quantity, key });
    let reply = node.submit(Command::Cancel { order, part }).await?;
    let Reply::Cancelled(OrderView { grant, .. }) = reply else {
        panic!("{reply:?}");
    };
    let state = grant.order.unwrap().state;
    Ok((state, grant.quantity, grant.amount_minor))
}

/// Pays an order with these cancelled units.
async fn pay(
    node: &RedisEngine,
    order: OrderId,
    (payment, minor, cancelled): (&str, i64, u32),
) -> Result<PaymentOutcome, EngineError> {
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new(payment).unwrap(),
        paid_at: None,
        received: match cancelled {
            0 => ReceivedMoney::Price,
            _ => ReceivedMoney::Accepted(Money::new(minor, currency())),
        },
        cancelled,
    };
    match node.submit(pay).await? {
        Reply::Payment(outcome, _) => Ok(outcome),
        reply => panic!("{reply:?}"),
    }
}

/// An order of four units.
async fn bought(world: &mut World) -> (Target, OrderId) {
    let builder = open_now(sale(9)).limit(4).price(PRICE).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let bought = world.harness.nodes[0].claim(target.units("ann", 4)).await;
    (target, bought.unwrap().outcome.grant().unwrap().order_id())
}

async fn no_differences(world: &World, target: Target) {
    let node = &world.harness.nodes[0];
    for partition in node.partitions() {
        let found = node.differences(partition, target.id, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
}

async fn loses_a_cancellation(loss: Loss) {
    let mut world = World::new().await;
    let (target, order) = bought(&mut world).await;
    let node = world.harness.nodes[0].clone();
    let first = cancelled(&node, order, (1, "k1")).await.unwrap();
    assert_eq!(first, (OrderState::Held, 3, 3 * PRICE));
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    if loss != Loss::All {
        detach_replicas(world.servers.primary());
    }
    let rest = (OrderState::Held, 1, PRICE);
    assert_eq!(cancelled(&node, order, (2, "k2")).await.unwrap(), rest);
    if loss == Loss::Settled {
        world.settle().await;
    }
    let from = Instant::now();
    if loss == Loss::All {
        blocking(|| world.servers.start_again_empty());
        *world.lost.lock().unwrap() = TAGS.into();
    } else {
        world.fail_over();
    }
    world.repaired(from).await;

    // Both cancellations have taken effect, each once.
    for again in [(2, "k2"), (1, "k1")] {
        assert_eq!(cancelled(&node, order, again).await.unwrap(), rest);
    }
    let too_much = cancelled(&node, order, (2, "k3")).await;
    let left = EngineError::Refused(Refusal::CancelTooLarge { left: 1 });
    assert_eq!(too_much, Err(left));
    let tally = world.harness.nodes[1].tally(target.id).await;
    let tally = tally.unwrap().unwrap();
    // Units are withheld for entries that no node can name.
    let free = 8 - world.withheld(target) as u64;
    assert_eq!((tally.granted, tally.remaining), (1, free));
    let stale = pay(&node, order, ("p", 4 * PRICE, 0)).await;
    let changed = EngineError::Refused(Refusal::OrderChanged);
    assert_eq!(stale, Err(changed));
    let paid = pay(&node, order, ("p", PRICE, 3)).await;
    assert_eq!(paid, Ok(PaymentOutcome::Paid));
    world.settle().await;
    let balances = world.ledger.owed(order).await.unwrap();
    assert!(balances.iter().all(|it| it.due.minor == 0), "{balances:?}");
    no_differences(&world, target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_cancellation_is_taken_from_what_was_answered() {
    loses_a_cancellation(Loss::Last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_cancellation_is_taken_from_the_ledger() {
    loses_a_cancellation(Loss::Settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellations_survive_an_empty_redis() {
    loses_a_cancellation(Loss::All).await;
}
