//! How long a partition grants nothing when a failover has lost entries, by how much it has granted before.
//!
//! `cargo bench -p qiang-redis --features servers --bench repair -- [GRANTS …]`; 10,000 and 1,000,000 unless given. One
//! partition with one sale, two nodes that repair automatically, a primary with a replica, and a ledger in a file. The
//! replica is cut off, [`LOST`] more users are answered, the primary is killed and the replica takes its place. The
//! time runs from then until a new user is answered with a grant. No Sentinel takes part: the time that one needs to
//! notice comes on top.
#![allow(clippy::unwrap_used)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Command, Reply},
    outcome::Outcome,
    ports::{CampaignStore as _, Engine as _, EventLog as _, Ledger, RepairEngine},
    time::Timestamp,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
    settlement::settle_once,
};
use tokio::task::JoinSet;

/// Entries that the failover takes.
const LOST: u32 = 500;
/// Rounds each.
const ROUNDS: usize = 5;
/// Claims under way at a time.
const WORKERS: u32 = 2_048;
const ENTRIES_MAX: usize = 4_096;
const GIVE_UP: Duration = Duration::from_secs(600);

fn main() {
    // Only `cargo bench` adds this flag; `cargo test` sees whether the benchmark works.
    let measure = std::env::args().any(|word| word == "--bench");
    let given = std::env::args().filter_map(|word| word.replace('_', "").parse().ok());
    let (counts, rounds): (Vec<u32>, _) = match (given.collect::<Vec<_>>(), measure) {
        (_, false) => (vec![1_000], 1),
        (given, true) if given.is_empty() => (vec![10_000, 1_000_000], ROUNDS),
        (given, true) => (given, ROUNDS),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("grants before  lost  granting again after, s (each round; median)");
    for grants in counts {
        let mut took: Vec<f64> = (0..rounds)
            .map(|_| runtime.block_on(round(grants)).as_secs_f64())
            .collect();
        let each: Vec<String> = took.iter().map(|took| format!("{took:.2}")).collect();
        took.sort_by(f64::total_cmp);
        let median = took[rounds / 2];
        println!("{grants:>13}  {LOST:>4}  {}; {median:.2}", each.join(" "));
    }
}

async fn round(grants: u32) -> Duration {
    let servers = Standalone::start(&ServerOptions::new().replicas(1));
    let options = RedisOptions {
        urls: vec![servers.url(), servers.replica(0).url()],
        partitions: 1,
        call_timeout: Duration::from_millis(500),
        claim_timeout: GIVE_UP,
        ..RedisOptions::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
    let setup = sale(grants + LOST + 1)
        .hold_ms(3_600_000)
        .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
        .setup(1);
    ledger.create(&setup).await.unwrap();
    let mut nodes = Vec::new();
    let mut repairs = Vec::new();
    for _ in 0..2 {
        let node = RedisEngine::connect(options.clone(), &[]).await.unwrap();
        repairs.push(repairing(&node, &ledger));
        nodes.push(node);
    }
    let opened = nodes[0]
        .submit(Command::Open(Box::new(setup.clone())))
        .await;
    assert_eq!(opened, Ok(Reply::Opened));
    let target = Target::of(&setup);

    claim(&nodes, target, 0, grants).await;
    settle(&nodes[1], &ledger).await;
    servers.wait_for_replicas();
    for call in [
        &["ACL", "SETUSER", "default", "-psync", "-sync"][..],
        &["CLIENT", "KILL", "TYPE", "replica"],
    ] {
        servers.primary().call(call).unwrap();
    }
    claim(&nodes, target, grants, grants + LOST).await;

    servers.kill();
    servers
        .replica(0)
        .call(&["REPLICAOF", "NO", "ONE"])
        .unwrap();
    let began = Instant::now();
    claim(&nodes, target, grants + LOST, grants + LOST + 1).await;
    let took = began.elapsed();
    // Every answered user keeps the grant: the ledger has all of them at the end.
    settle(&nodes[1], &ledger).await;
    let record = ledger.campaign(target.id).await.unwrap().unwrap();
    assert_eq!(record.granted, u64::from(grants + LOST + 1));
    for host in repairs {
        host.stop().await;
    }
    took
}

/// One unit for each of these users, who are all granted it.
async fn claim(nodes: &[RedisEngine], target: Target, from: u32, upto: u32) {
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS.min(upto - from) {
        let node = nodes[worker as usize % nodes.len()].clone();
        workers.spawn(async move {
            for user in (from + worker..upto).step_by(WORKERS as usize) {
                let began = Instant::now();
                loop {
                    match node.claim(target.one(&format!("user-{user}"))).await {
                        Ok(claimed) => {
                            let granted = matches!(
                                claimed.outcome,
                                Outcome::Granted(_) | Outcome::AlreadyGranted(_)
                            );
                            assert!(granted, "{claimed:?}");
                            break;
                        }
                        Err(error) => assert!(began.elapsed() < GIVE_UP, "{error:?}"),
                    }
                }
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
}

async fn settle(node: &RedisEngine, ledger: &Arc<SqliteLedger>) {
    let began = Instant::now();
    for partition in node.partitions() {
        loop {
            match settle_once(node, &**ledger, partition, ENTRIES_MAX).await {
                Ok(step) if step.settled == step.head => break,
                Ok(_) => {}
                Err(error) => assert!(began.elapsed() < GIVE_UP, "{error}"),
            }
        }
    }
}

fn repairing(node: &RedisEngine, ledger: &Arc<SqliteLedger>) -> Host {
    let host = Host::new("monitor");
    let ledger: Arc<dyn Ledger> = ledger.clone();
    let node: Arc<dyn RepairEngine> = Arc::new(node.clone());
    repair::start_all(&host, &node, &ledger, RepairMode::Automatic);
    host
}
