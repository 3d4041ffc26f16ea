//! A hash of a sale is overwritten with an older value that has as many rows.

use qiang_core::order::OrderState;

use super::{damage::Damage, *};

/// A buyer with two orders is at the limit, also if the hash of buyers is from before the second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_stays_at_the_limit_with_an_older_row() {
    let mut world = World::calm(false).await;
    let builder = open_now(sale(1_000)).limit(2).price(1).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let claim = |key: &str| world.harness.ask_all(vec![target.keyed(&name(1), 1, key)]);
    let mut answers = claim("a").await;
    let key = blocking(|| world.key_of(target, ":users"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    answers.extend(claim("b").await);
    let settling = world.settling();
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let third = claim("c").await;
    assert!(third[0].1.outcome.grant().is_none(), "{:?}", third[0].1);
    world.harness.replay(&answers).await;
    settling.abort();
}

/// A repair rebuilds the hash of buyers from before the second order, though no call has noticed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_notices_an_older_row_of_a_buyer() {
    let mut world = World::calm(false).await;
    for repairs in world.repairs.drain(..) {
        repairs.abort();
    }
    let builder = open_now(sale(1_000)).limit(2).price(1).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let claim = |key: &str| world.harness.ask_all(vec![target.keyed(&name(1), 1, key)]);
    let mut answers = claim("a").await;
    let key = blocking(|| world.key_of(target, ":users"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    answers.extend(claim("b").await);
    world.settle().await;
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let node = &world.harness.nodes[0];
    for partition in node.partitions() {
        node.unite(partition, &*world.ledger).await.unwrap();
    }
    let third = claim("c").await;
    assert!(third[0].1.outcome.grant().is_none(), "{:?}", third[0].1);
    world.harness.replay(&answers).await;
}

/// A paid order stays paid, also if the hash of orders is from before the payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_order_stays_paid_with_an_older_row() {
    let world = World::calm(false).await;
    let number = world.buy("payer").await;
    let key = blocking(|| world.key_of(world.sale, ":orders"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    world.pay(number).await;
    let settling = world.settling();
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let until = Instant::now() + REPAIRED_MAX;
    let view = loop {
        match world.harness.nodes[0].order(world.order(number)).await {
            Ok(view) => break view.unwrap(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let state = view.grant.order.map(|order| order.state);
    assert_eq!(state, Some(OrderState::Paid));
    settling.abort();
    drop(settling.await);
    world.check().await;
}
