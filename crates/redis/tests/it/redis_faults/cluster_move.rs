//! A partition's slot moves to another server of the Cluster and back while two nodes claim. No grant is lost or made
//! twice, and every user gets an answer.

use std::time::Duration;

use qiang_core::{
    book::{Command, Reply},
    event::PartitionId,
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Engine as _, EventLog as _},
};
use qiang_redis::{RedisOptions, Topology};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Cluster, Options as ServerOptions, Server, slot_of_partition},
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, calls_of, grant_of, name, open_now, options, wait_for, winners,
};

/// Partition of the moving slot.
const PARTITION: PartitionId = PartitionId(3);
const STOCK: u32 = 1_000_000;
/// Pause between moves of a few keys, long enough for calls to meet every stage.
const PAUSE: Duration = Duration::from_millis(30);
const MOVES: usize = 4;

async fn moves(spread: bool) {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        shard_supply_min: if spread { 2 } else { u32::MAX },
        shards_max: 4,
        ..options(String::new())
    })
    .await;
    let mut targets = Vec::new();
    for _ in 0..8 {
        targets.push(harness.open(open_now(sale(STOCK))).await);
    }
    let count = targets.len();
    let load = harness.start(move |n| Some(targets[n % count].one(&name(n))), SHORT_PAUSE);
    load.more(200).await;
    let homes = blocking(|| {
        [slot_of_partition(3, 4), slot_of_partition(2, 4)].map(|slot| cluster.primary_of_slot(slot))
    });
    assert_ne!(homes[0].addr(), homes[1].addr());
    for n in 0..MOVES {
        let moved =
            blocking(|| cluster.move_slot(slot_of_partition(3, 4), homes[(n + 1) % 2], PAUSE));
        assert!(moved > 3, "{moved} keys were moved");
        load.more(200).await;
    }
    let answers = load.stop().await;
    // Grants made during the moves are known wherever the slot is now.
    let grants: Vec<_> = answers
        .iter()
        .filter_map(|(_, claimed)| grant_of(claimed))
        .collect();
    assert_eq!(grants.len(), answers.len());
    harness.replay(&answers[..answers.len().min(500)]).await;
    for (n, grant) in grants.iter().enumerate().take(40) {
        let order = grant.order_id();
        let payment = PaymentRef::new(&format!("payment-{n}")).unwrap();
        let paid = harness
            .submit(
                n % 2,
                Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                },
            )
            .await;
        assert!(matches!(paid, Ok(Reply::Payment(..))), "{paid:?}");
        assert!(harness.nodes[n % 2].order(order).await.unwrap().is_some());
    }
    harness.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load() {
    moves(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_while_units_move_between_parts() {
    moves(true).await;
}

/// Number of redirected requests for keys of a slot that the node does not own yet.
fn asked(node: &Server) -> u64 {
    blocking(|| calls_of(node, "asking"))
}

/// A move stops when the keys have moved but the slot has not. The old node redirects with `ASK`, and no other node
/// knows the new place. Commands with one key are redirected there. Scripts also use keys that do not exist, which
/// Redis answers with `TRYAGAIN`, so they wait. No grant is lost, and no user is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_keys_have_moved_is_asked_for_elsewhere() {
    const CLAIMS: usize = 100;
    const READS: u64 = 20;
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        shard_supply_min: u32::MAX,
        claim_timeout: Duration::from_secs(60),
        ..options(String::new())
    })
    .await;
    let mut targets = Vec::new();
    for _ in 0..8 {
        targets.push(harness.open(open_now(sale(STOCK))).await);
    }
    let node = harness.nodes[0].clone();
    let home = |target: &&Target| node.partition_of(&target.one("a")) == PARTITION;
    let target = *targets.iter().find(home).unwrap();
    let claims = |from: usize| {
        (from..from + CLAIMS)
            .map(|n| target.one(&name(n)))
            .collect()
    };
    let mut answers = harness.ask_all(claims(0)).await;
    let head = node.head(PARTITION).await.unwrap();
    let (from, to) = blocking(|| {
        let slots = [slot_of_partition(3, 4), slot_of_partition(2, 4)];
        slots.map(|slot| cluster.primary_of_slot(slot)).into()
    });
    blocking(|| cluster.begin_move(slot_of_partition(3, 4), from, to));
    // At first, some keys are on either side.
    let load = harness.start(
        {
            let claims: Vec<_> = claims(CLAIMS);
            move |n| claims.get(n).cloned()
        },
        Duration::ZERO,
    );
    let moved = blocking(|| cluster.move_keys(slot_of_partition(3, 4), from, to, PAUSE));
    assert!(moved > 3, "{moved} keys were moved");
    let before = asked(to);
    let mut last = head;
    for _ in 0..READS {
        let now = node.head(PARTITION).await.unwrap();
        assert!(now >= last, "the log became shorter: {now} after {last}");
        last = now;
    }
    assert!(
        asked(to) >= before + READS,
        "the keys were not requested from the new node"
    );
    // Claims are in flight and are redirected too.
    let before = asked(to);
    wait_for("claims to be redirected", || asked(to) > before).await;
    blocking(|| cluster.end_move(slot_of_partition(3, 4), from, to));
    answers.extend(load.join().await);
    assert_eq!(winners(&answers), 2 * CLAIMS);
    assert_eq!(harness.record.errors(), 0, "a user was refused");
    assert_eq!(
        node.head(PARTITION).await.unwrap(),
        head + CLAIMS as u64,
        "each grant is one entry"
    );
    harness.replay(&answers).await;
    harness.audit().await;
}
