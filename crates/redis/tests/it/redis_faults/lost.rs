//! A Redis that has lost acknowledged data grants nothing on any node until it is repaired.

use std::time::Duration;

use qiang_core::{
    event::{PartitionId, Seq},
    outcome::Outcome,
    ports::{
        CampaignStore as _, Engine as _, EngineError, EventLog as _, LedgerError,
        SettlementStore as _,
    },
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
    servers::redis::{Options as ServerOptions, SentinelSet, Standalone},
};

use crate::redis_faults::harness::{
    Harness, blocking, detach_replicas, name, node, open_now, options, wait_for,
};

/// Claims before the fault, and after it.
const CLAIMS: usize = 500;
const SUPPLY: u32 = 50_000;

/// Settles all logs into a ledger, and returns the positions reached.
async fn settle(harness: &Harness) -> Vec<(PartitionId, Seq)> {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(OPENS);
    let ledger = SqliteLedger::open(&folder.path().join("ledger.db"), clock).unwrap();
    for setup in &harness.setups {
        ledger.create(setup).await.unwrap();
    }
    for (partition, log) in harness.nodes[0]
        .partitions()
        .into_iter()
        .zip(harness.logs().await)
    {
        ledger.settle(partition, &log).await.unwrap();
    }
    let positions = ledger.positions().await.unwrap();
    assert!(positions.iter().any(|(_, seq)| *seq > 0));
    ledger.close();
    positions
}

/// Requires that this node answers neither a claim nor any other call.
async fn is_stopped(node: &RedisEngine, target: Target, because: &str) {
    for n in [0, 1_000_000] {
        let answer = node.claim(target.one(&name(n))).await;
        let Err(EngineError::Unavailable { reason }) = answer else {
            panic!("a stopped partition answered {answer:?}");
        };
        assert!(reason.contains(because), "{reason}");
    }
    let stopped = node.stopped().unwrap_or_default();
    assert!(stopped.contains(because), "{stopped:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_empty_grants_nothing() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let bystander = node(&harness.options, &[]).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let load = harness.start_once(move |n| Some(target.one(&name(n % 5_000))));
    load.more(CLAIMS).await;
    let settled = settle(&harness).await;
    load.more(CLAIMS).await;
    blocking(|| server.start_again_empty());
    load.more(CLAIMS).await;
    let answers = load.stop().await;

    // No two users have the same grant, and no user has two.
    let mut users: Vec<_> = harness
        .grants()
        .into_values()
        .map(|(user, _)| user)
        .collect();
    let grants = users.len();
    users.sort_unstable();
    users.dedup();
    assert_eq!(users.len(), grants);
    assert!(grants >= CLAIMS / 2 && answers.len() >= grants);
    // No unit has been granted since.
    for partition in ["p00", "p01"] {
        let log = format!("{}:{{{partition}}}:log", harness.options.prefix);
        assert_eq!(
            server.primary().call(&["XLEN", &log]).unwrap().integer(),
            Some(0)
        );
    }
    let because = "lost the state";
    for known in harness.nodes.iter().chain([&bystander]) {
        is_stopped(known, target, because).await;
    }
    is_stopped(&node(&harness.options, &settled).await, target, because).await;
    is_stopped(&node(&harness.options, &[]).await, target, because).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledgers_positions_alone_tell_that_redis_is_empty() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    harness
        .ask_all((0..CLAIMS).map(|n| target.one(&name(n))).collect())
        .await;
    let settled = settle(&harness).await;
    for node in &harness.nodes {
        node.abort();
    }
    blocking(|| server.start_again_empty());
    let late = node(&harness.options, &settled).await;
    is_stopped(&late, target, "lost the state").await;
    is_stopped(&node(&harness.options, &[]).await, target, "lost the state").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_lost_grants_stops_the_partition() {
    let set = blocking(|| SentinelSet::start(&ServerOptions::new()));
    let options = RedisOptions {
        topology: Topology::Sentinel {
            master: set.master_name().to_owned(),
        },
        urls: set.sentinel_urls(),
        ..options(String::new())
    };
    let mut harness = Harness::new(options).await;
    let bystander = node(&harness.options, &[]).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let load = harness.start_once(move |n| Some(target.one(&name(n))));
    load.more(CLAIMS).await;
    let old = blocking(|| set.primary());
    blocking(|| {
        let kept = || old.is_acknowledged_by(2).then_some(());
        qiang_testkit::servers::wait_for("the replicas", Duration::from_secs(10), kept);
    });
    detach_replicas(old);
    load.more(CLAIMS).await;
    blocking(|| old.kill());
    let new = blocking(|| set.wait_for_failover(old));
    load.more(CLAIMS).await;
    load.stop().await;

    // Every user got at most one grant, and no two users got the same one.
    harness.grants();
    let log = format!("{}:{{p01}}:log", harness.options.prefix);
    let kept = new.call(&["XINFO", "STREAM", &log]).unwrap();
    let last = kept
        .field("last-generated-id")
        .unwrap()
        .text()
        .unwrap()
        .to_owned();
    let most = harness
        .grants()
        .into_keys()
        .map(|(_, number)| number)
        .max()
        .unwrap();
    // The first entry of the log is the campaign's opening.
    let last: u32 = last.split('-').next().unwrap().parse().unwrap();
    assert!(last - 1 < most, "nothing was lost: {last} of {most}");
    for known in harness.nodes.iter().chain([&bystander]) {
        is_stopped(known, target, "lost the entries").await;
    }
    is_stopped(
        &node(&harness.options, &[]).await,
        target,
        "lost the entries",
    )
    .await;
}

/// Creates a primary and a detached replica. The options contain both.
async fn behind() -> (Standalone, Harness, Target) {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let urls = vec![servers.url(), servers.replica(0).url()];
    let options = RedisOptions {
        urls,
        ..options(String::new())
    };
    let mut harness = Harness::new(options).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    harness
        .ask_all((0..CLAIMS).map(|n| target.one(&name(n))).collect())
        .await;
    blocking(|| servers.wait_for_replicas());
    detach_replicas(servers.primary());
    harness
        .ask_all((CLAIMS..2 * CLAIMS).map(|n| target.one(&name(n))).collect())
        .await;
    (servers, harness, target)
}

/// Kills the primary for good and promotes the replica with its older data.
fn promote(servers: &Standalone) {
    blocking(|| {
        servers.kill();
        servers
            .replica(0)
            .call(&["REPLICAOF", "NO", "ONE"])
            .unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledgers_positions_alone_tell_that_grants_are_lost() {
    let (servers, harness, target) = behind().await;
    let settled = settle(&harness).await;
    for node in &harness.nodes {
        node.abort();
    }
    promote(&servers);
    let late = node(&harness.options, &settled).await;
    is_stopped(&late, target, "lost the entries").await;
    is_stopped(
        &node(&harness.options, &[]).await,
        target,
        "lost the entries",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_only_reads_the_log_stops_the_partition_too() {
    let (servers, harness, target) = behind().await;
    let reader = node(&harness.options, &[]).await;
    let home = PartitionId(1);
    let head = reader.head(home).await.unwrap();
    let run = reader.read(home, 0, 10 * CLAIMS).await.unwrap();
    assert_eq!(run.last().map(|entry| entry.seq), Some(head));
    for node in &harness.nodes {
        node.abort();
    }
    promote(&servers);
    let answer = reader.read(home, head, 10).await;
    assert!(
        matches!(answer, Err(LedgerError::LogLost { .. })),
        "{answer:?}"
    );
    is_stopped(&reader, target, "lost the entries").await;
    is_stopped(
        &node(&harness.options, &[]).await,
        target,
        "lost the entries",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_loses_nothing_stops_nothing() {
    let server = blocking(|| Standalone::start(&ServerOptions::new().fsync_always()));
    let mut harness = Harness::new(options(server.url())).await;
    let target = harness.open(open_now(sale(SUPPLY))).await;
    let load = harness.start(
        move |n| Some(target.one(&name(n / 2))),
        crate::redis_faults::harness::SHORT_PAUSE,
    );
    for _ in 0..3 {
        load.more(CLAIMS).await;
        blocking(|| server.start_again());
    }
    load.more(CLAIMS).await;
    let answers = load.stop().await;
    let granted = |outcome| matches!(outcome, Outcome::Granted(_) | Outcome::AlreadyGranted(_));
    assert!(answers.iter().all(|(_, claimed)| granted(claimed.outcome)));
    harness.audit().await;
    harness.replay(&answers).await;
    wait_for("both nodes to grant", || {
        harness.nodes.iter().all(|node| node.stopped().is_none())
    })
    .await;
}
