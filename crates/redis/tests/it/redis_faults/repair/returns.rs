//! Partial returns of orders, when Redis loses some of them.

use qiang_core::{
    book::{OrderView, Refusal, Reply},
    id::{IdempotencyKey, OrderId, PaymentRef},
    order::{OrderState, ReturnPart},
    payment::ReceivedMoney,
    ports::{EngineError, PayoutStore as _},
};

use super::*;

/// Data that Redis loses.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// The last return, which is not settled.
    Last,
    /// The last return, which is settled.
    Settled,
    /// Everything.
    All,
}

fn part(quantity: u32, key: &str) -> Option<ReturnPart> {
    let key = IdempotencyKey::new(key).unwrap();
    Some(ReturnPart { quantity, key })
}

async fn returned(
    node: &RedisEngine,
    order: OrderId,
    part: Option<ReturnPart>,
) -> Result<(OrderState, u32), EngineError> {
    let reply = node.submit(Command::Return { order, part }).await?;
    let Reply::Returned(OrderView { grant, .. }) = reply else {
        panic!("{reply:?}");
    };
    let order = grant.order.unwrap();
    Ok((order.state, order.returned_quantity))
}

async fn loses_a_return(loss: Loss) {
    let mut world = World::new().await;
    let builder = open_now(sale(9)).limit(4).price(25).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let node = world.harness.nodes[0].clone();
    let bought = node.claim(target.units("ann", 4)).await.unwrap();
    let order = bought.outcome.grant().unwrap().order_id();
    let pay = Command::Pay {
        order,
        payment: PaymentRef::new("p").unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    node.submit(pay).await.unwrap();
    assert_eq!(
        returned(&node, order, part(1, "k1")).await.unwrap(),
        (OrderState::Paid, 1)
    );
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    if loss != Loss::All {
        detach_replicas(world.servers.primary());
    }
    let last = returned(&node, order, part(2, "k2")).await.unwrap();
    assert_eq!(last, (OrderState::Paid, 3));
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

    // Both returns have taken effect, each once, and the order has one unit left.
    let view = node.order(order).await.unwrap().unwrap();
    let state = view.grant.order.unwrap();
    assert_eq!(
        (state.state, state.returned_quantity),
        (OrderState::Paid, 3)
    );
    for (quantity, key) in [(2, "k2"), (1, "k1")] {
        let again = returned(&node, order, part(quantity, key)).await.unwrap();
        assert_eq!(again, (OrderState::Paid, 3), "{key}");
    }
    let too_much = returned(&node, order, part(2, "k3")).await;
    let left = EngineError::Refused(Refusal::ReturnTooLarge { left: 1 });
    assert_eq!(too_much, Err(left));
    let tally = async || {
        let tally = world.harness.nodes[1].tally(target.id).await;
        tally.unwrap().unwrap()
    };
    // Units are withheld for entries that no node can name.
    let free = 8 - world.withheld(target) as u64;
    assert_eq!((tally().await.granted, tally().await.remaining), (1, free));
    let rest = returned(&node, order, None).await.unwrap();
    assert_eq!(rest, (OrderState::Returned, 4));
    let left = (tally().await.granted, tally().await.remaining);
    assert_eq!(left, (0, free + 1));
    world.settle().await;
    let owed = world.ledger.owed(order).await.unwrap();
    assert_eq!(owed[0].due.minor, 100);
    for partition in node.partitions() {
        let found = node.differences(partition, target.id, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_return_is_taken_from_what_was_answered() {
    loses_a_return(Loss::Last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_return_is_taken_from_the_ledger() {
    loses_a_return(Loss::Settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returns_survive_an_empty_redis() {
    loses_a_return(Loss::All).await;
}
