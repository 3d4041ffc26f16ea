//! Repeated creations of evicted campaigns. They are opened nowhere, even if they would be spread differently today.

use qiang_core::ports::SettlementStore as _;

use super::*;
use crate::redis_faults::harness::node;

/// A repeated creation, with the current stock of the sale.
fn again(stock: u32, n: u64) -> Command {
    Command::Open(Box::new(open_now(sale(stock)).setup(n)))
}

/// A sale was on one partition, its stock was raised, and it would be spread today. The other partition has never had a
/// shard of it. The sale is not opened there, neither while it is evicted nor after its reload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_with_more_stock_than_at_first_is_opened_nowhere_else() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(STOCK - 1)).await;
    let raise = Command::SetStock {
        campaign: target.id,
        stock: u64::from(2 * STOCK),
    };
    scene.command(0, raise).await.unwrap();
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 1);
    let opened = scene.command(1, again(2 * STOCK, 1)).await;
    assert_eq!(opened, Ok(Reply::Opened));
    assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);

    assert_eq!(scene.tally(target).await.phase, Phase::Closed);
    let opened = scene.command(1, again(2 * STOCK, 1)).await;
    assert_eq!(opened, Ok(Reply::Opened));
    let [home, _] = scene.home_and_other(target);
    let own = scene.key(home, "");
    for key in scene.keys_of(shared().primary(), target) {
        assert!(key.starts_with(&own), "{key}");
    }
    assert_eq!(scene.tally(target).await.supply, u64::from(2 * STOCK));
}

/// A sale was spread over two partitions, and would be spread over four today.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_is_not_opened_in_partitions_that_were_added_to_the_spread() {
    let options = RedisOptions {
        partitions: 4,
        ..here()
    };
    let mut scene = Scene::new(options).await;
    let target = scene.open(sale(STOCK)).await;
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 2);
    let wider = RedisOptions {
        shards_max: 4,
        ..scene.harness.options.clone()
    };
    let wider = node(&wider, &[]).await;
    wider.recall_from(scene.ledger.clone());
    let opened = wider.submit(again(STOCK, 1)).await;
    assert_eq!(opened, Ok(Reply::Opened));
    assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
}

/// A sale must be spread, one shard is open, and Redis has lost the recorded shard count. The sale is spread as that
/// shard records, also by a node that would not spread it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_parts_that_are_open_say_over_how_many_a_sale_is_spread() {
    let mut scene = Scene::new(here()).await;
    scene.open(sale(STOCK)).await;
    scene.settle().await;
    let target = scene.open(sale(STOCK)).await;
    let [home, other] = scene.home_and_other(target);
    settle(&scene.harness.nodes[0], &scene.ledger, other).await;
    let settled = scene.ledger.settled(home).await.unwrap().to_string();
    blocking(|| {
        let server = shared().primary();
        let own = scene.key(home, "");
        for key in scene.keys_of(server, target) {
            if key.starts_with(&own) {
                server.call(&["UNLINK", &key]).unwrap();
            }
        }
        let (agenda, id) = (scene.key(home, "agenda"), target.id.to_string());
        server.call(&["ZREM", &agenda, &id]).unwrap();
        let (key, created) = (scene.key(home, "partition"), "9000000000000");
        let words = ["HSET", &key, "left", &settled, "left_created", created];
        server.call(&words).unwrap();
    });
    let alone = RedisOptions {
        shards_max: 1,
        ..scene.harness.options.clone()
    };
    let alone = node(&alone, &[]).await;
    alone.recall_from(scene.ledger.clone());
    assert_eq!(alone.submit(again(STOCK, 2)).await, Ok(Reply::Opened));
    let hash = scene.key(home, &format!("c:{}", target.id));
    let parts = blocking(|| shared().primary().call(&["HGET", &hash, "parts"]).unwrap());
    assert_eq!(parts.text(), Some("2"));
    assert_eq!(scene.tally(target).await.supply, u64::from(STOCK));
}
