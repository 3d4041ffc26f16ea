//! Extended holds, when Redis loses the extension.

use qiang_core::{
    book::{OrderView, PaymentOutcome, Refusal, Reply},
    id::{OrderId, PaymentRef},
    order::OrderState,
    payment::ReceivedMoney,
    ports::EngineError,
};

use super::*;

const HOLD_MS: i64 = 3_600_000;
const EXTENSION_MS: i64 = 1_800_000;

/// Data that Redis loses.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// The extension, which is not settled.
    Last,
    /// The extension, which is settled.
    Settled,
    /// Everything.
    All,
}

async fn extend(
    node: &RedisEngine,
    order: OrderId,
    extension_ms: i64,
) -> Result<(OrderState, i64), EngineError> {
    let command = Command::ExtendHold {
        order,
        extension_ms,
    };
    let reply = node.submit(command).await?;
    let Reply::HoldExtended(OrderView { grant, .. }) = reply else {
        panic!("{reply:?}");
    };
    let order = grant.order.unwrap();
    let held_ms = order.hold_until.millis_since(grant.granted_at);
    Ok((order.state, held_ms))
}

async fn no_differences(world: &World, target: Target) {
    let node = &world.harness.nodes[0];
    for partition in node.partitions() {
        let found = node.differences(partition, target.id, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
}

async fn loses_an_extension(loss: Loss) {
    let mut world = World::new().await;
    let builder = open_now(sale(9)).hold_ms(HOLD_MS);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let node = world.harness.nodes[0].clone();
    let bought = node.claim(target.one("ann")).await;
    let order = bought.unwrap().outcome.grant().unwrap().order_id();
    let bought = node.claim(target.one("bob")).await;
    let other = bought.unwrap().outcome.grant().unwrap().order_id();
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    if loss != Loss::All {
        detach_replicas(world.servers.primary());
    }
    let longer = (OrderState::Held, HOLD_MS + EXTENSION_MS);
    assert_eq!(extend(&node, order, EXTENSION_MS).await.unwrap(), longer);
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

    // The extension counts, once.
    let view = world.harness.nodes[1].order(order).await.unwrap().unwrap();
    assert_eq!(view.grant.order.unwrap().extension_ms, EXTENSION_MS);
    assert_eq!(extend(&node, order, EXTENSION_MS).await, Ok(longer));
    let twice = EngineError::Refused(Refusal::AlreadyExtended {
        extension_ms: EXTENSION_MS,
    });
    assert_eq!(extend(&node, order, 1).await, Err(twice));
    // The other order is extended, and both are paid.
    let both = (OrderState::Held, 2 * HOLD_MS);
    assert_eq!(extend(&node, other, HOLD_MS).await.unwrap(), both);
    for (order, payment) in [(order, "p1"), (other, "p2")] {
        let pay = Command::Pay {
            order,
            payment: PaymentRef::new(payment).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        let paid = node.submit(pay).await;
        assert!(
            matches!(paid, Ok(Reply::Payment(PaymentOutcome::Paid, _))),
            "{paid:?}"
        );
    }
    world.settle().await;
    no_differences(&world, target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_extension_is_taken_from_what_was_answered() {
    loses_an_extension(Loss::Last).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_extension_is_taken_from_the_ledger() {
    loses_an_extension(Loss::Settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extensions_survive_an_empty_redis() {
    loses_an_extension(Loss::All).await;
}
