//! The primary is killed under load. Entries that a replica acknowledged survive, and the nodes continue automatically.

use std::time::Duration;

use qiang_core::{campaign::AckLevel, outcome::Outcome, split::SplitRule};
use qiang_redis::{RedisOptions, Topology};
use qiang_testkit::{
    campaign::{red_packet, sale},
    servers::redis::{Cluster, Options as ServerOptions, SentinelSet, Server, slot_of_partition},
};

use crate::redis_faults::harness::{
    Answered, Harness, Record, blocking, detach_replicas, grant_of, name, open_now, options,
    wait_for,
};

/// Pause between two claims of one worker, so that the load lasts for the whole failover.
const PAUSE: Duration = Duration::from_millis(30);
/// Claims before the fault, and after it.
const CLAIMS: usize = 500;
/// Claims that end in an error because no replica confirms them, before the primary is killed.
const UNCONFIRMED: usize = 100;
/// Much longer than a replica needs.
const REPLICA_TIMEOUT: Duration = Duration::from_millis(200);
const SUPPLY: u32 = 50_000;

/// Claims on a sale and a packet until `fault` has ended and some more claims were made.
async fn under_load(harness: &mut Harness, fault: impl AsyncFnOnce(&Record)) {
    let on_sale = harness
        .open(open_now(sale(SUPPLY)).ack(AckLevel::Replica))
        .await;
    let equal = SplitRule::Equal;
    let packet = harness
        .open(open_now(red_packet(100 * i64::from(SUPPLY), SUPPLY, equal)).ack(AckLevel::Replica))
        .await;
    // Every user claims twice.
    let made = move |n: usize| Some(if n % 4 < 2 { &on_sale } else { &packet }.one(&name(n / 4)));
    let load = harness.start(made, PAUSE);
    load.more(CLAIMS).await;
    fault(&harness.record).await;
    load.more(CLAIMS).await;
    let answers = load.stop().await;
    every_one_granted(&answers);
    harness.audit().await;
    replay_confirmed(harness, &answers).await;
}

/// Every user claims again on each node, until replicas confirm the answer, and gets the same grant.
async fn replay_confirmed(harness: &Harness, answers: &[Answered]) {
    for node in &harness.nodes {
        let node = std::slice::from_ref(node);
        let asked = answers
            .iter()
            .map(|(claim, _)| harness.record.insist(node, 0, claim));
        let again = futures_util::future::join_all(asked).await;
        for ((claim, claimed), again) in answers.iter().zip(again) {
            let grant = grant_of(claimed).unwrap();
            assert_eq!(again.outcome, Outcome::AlreadyGranted(grant), "{claim:?}");
        }
    }
}

/// Lets the primary make some more grants that its replicas never get, then kills it.
async fn kill_ahead_of_replicas(primary: &Server, record: &Record) {
    detach_replicas(primary);
    let before = record.errors();
    wait_for("grants that no replica has", || {
        record.errors() >= before + UNCONFIRMED
    })
    .await;
    blocking(|| primary.kill());
}

/// The supply suffices for all users, so every claim must be granted at the required level.
fn every_one_granted(answers: &[Answered]) {
    for (claim, claimed) in answers {
        assert!(grant_of(claimed).is_some(), "{claim:?}: {claimed:?}");
        assert_eq!(claimed.ack, AckLevel::Replica, "{claim:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_under_sentinels_loses_nothing_that_was_acknowledged() {
    let set = blocking(|| SentinelSet::start(&ServerOptions::new()));
    let options = RedisOptions {
        topology: Topology::Sentinel {
            master: set.master_name().to_owned(),
        },
        urls: set.sentinel_urls(),
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        ..options(String::new())
    };
    let mut harness = Harness::new(options).await;
    under_load(&mut harness, async |record| {
        let old = blocking(|| set.primary());
        kill_ahead_of_replicas(old, record).await;
        blocking(|| set.wait_for_failover(old));
    })
    .await;
    assert_eq!(harness.nodes[0].stopped(), None);
    assert_eq!(harness.nodes[1].stopped(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_of_a_cluster_loses_nothing_that_was_acknowledged() {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let options = RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        partitions: 4,
        ..options(String::new())
    };
    let mut harness = Harness::new(options).await;
    under_load(&mut harness, async |record| {
        // The two campaigns are on these partitions, which have different primaries.
        for slot in [slot_of_partition(1, 4), slot_of_partition(2, 4)] {
            let old = blocking(|| cluster.primary_of_slot(slot));
            kill_ahead_of_replicas(old, record).await;
            blocking(|| {
                cluster.wait_for_failover(slot, old);
                // Without a replica, no grant can be acknowledged by one.
                old.start_again();
                cluster.wait_until_whole();
            });
        }
    })
    .await;
    assert_eq!(harness.nodes[0].stopped(), None);
    assert_eq!(harness.nodes[1].stopped(), None);
}
