//! Isolation of failures: a failed partition delays neither clients for long nor other partitions.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Claim, Command},
    event::PartitionId,
    ports::{Claimed, Clock, Engine as _, EngineError, EventLog as _, PendingReply, ProbeResult},
    time::Timestamp,
};
use qiang_redis::{RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    campaign::{Target, sale},
    proxy::FaultProxy,
    servers::redis::{Cluster, Options as ServerOptions, Standalone},
};

use crate::redis_faults::harness::{Harness, blocking, name, open_now, options, shared, wait_for};

const STOCK: u32 = 1_000;
const CLAIMS: usize = 100;
/// Time that a claim is tried if servers do not answer.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(6);
const CALL_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum extra time of an answer without a decision.
const SLACK: Duration = Duration::from_secs(3);

fn impatient(url: String) -> RedisOptions {
    RedisOptions {
        call_timeout: CALL_TIMEOUT,
        replica_timeout: CALL_TIMEOUT / 3,
        claim_timeout: CLAIM_TIMEOUT,
        ..options(url)
    }
}

fn now() -> Timestamp {
    Clock::now(&qiang_embedded::SystemClock)
}

fn submit(node: &RedisEngine, claims: impl Iterator<Item = Claim>) -> Vec<PendingReply<Claimed>> {
    claims.map(|claim| node.claim(claim)).collect()
}

/// Claims until there is a grant.
async fn granted(node: &RedisEngine, claim: &Claim) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match node.claim(claim.clone()).await {
            Ok(claimed) if claimed.outcome.grant().is_some() => return,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_client_has_gone_is_not_sent() {
    let proxy = FaultProxy::start(shared().addr()).await;
    let options = RedisOptions {
        partitions: 1,
        ..options(format!("redis://{}", proxy.addr()))
    };
    let mut harness = Harness::new(options).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let node = &harness.nodes[0];
    granted(node, &target.one("early")).await;
    proxy
        .delay(Duration::from_millis(300), Duration::ZERO)
        .await;
    let mut sent = Vec::new();
    for n in 0..2 {
        // Each connection is busy with one claim.
        sent.extend(submit(node, [target.one(&name(n))].into_iter()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let waiting = submit(node, (2..CLAIMS).map(|n| target.one(&name(n))));
    assert_eq!(node.queued(), CLAIMS - 2);
    drop(waiting);
    proxy.pass().await;
    for ticket in sent {
        assert!(ticket.await.unwrap().outcome.grant().is_some());
    }
    wait_for("an empty queue", || node.queued() == 0).await;
    granted(node, &target.one("late")).await;
    let tally = node.tally(target.id).await.unwrap().unwrap();
    // The first claim, the last one, and the sent ones.
    assert_eq!(tally.granted, 4);
}

/// Campaigns take turns on the connections of their partition. If the server has stopped, the last campaign must not
/// wait for all turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_no_longer_than_it_is_tried() {
    let server = blocking(|| Standalone::start(&ServerOptions::new()));
    let options = RedisOptions {
        partitions: 1,
        ..impatient(server.url())
    };
    let mut harness = Harness::new(options).await;
    let mut targets: Vec<Target> = Vec::new();
    for _ in 0..8 {
        targets.push(harness.open(open_now(sale(STOCK))).await);
    }
    let node = &harness.nodes[0];
    blocking(|| server.primary().pause());
    let began = Instant::now();
    let claims = targets
        .iter()
        .flat_map(|target| (0..20).map(|n| target.one(&name(n))));
    let mut unsent = 0;
    for ticket in submit(node, claims) {
        match ticket.await {
            Err(EngineError::Unavailable { .. }) => unsent += 1,
            Err(EngineError::Uncertain { .. }) => {}
            other => panic!("a stopped server decided a claim: {other:?}"),
        }
    }
    let took = began.elapsed();
    assert!(took < CLAIM_TIMEOUT + CALL_TIMEOUT + SLACK, "{took:?}");
    // Two calls were in flight.
    assert!(unsent >= 6 * 20, "{unsent} were not sent");

    // From here on, claims are refused at once.
    let began = Instant::now();
    let answer = node.claim(targets[0].one("refused")).await;
    assert!(
        matches!(answer, Err(EngineError::Unavailable { .. })),
        "{answer:?}"
    );
    assert!(began.elapsed() < SLACK / 2, "{:?}", began.elapsed());
    assert!(node.stopped().unwrap().contains("Redis does not answer"));
    let error = node.head(PartitionId(0)).await.unwrap_err().to_string();
    assert!(error.contains("Redis does not answer"), "{error}");
    blocking(|| server.primary().resume());
    granted(node, &targets[0].one("again")).await;
    assert_eq!(node.stopped(), None);
}

/// Nodes of the cluster with `p01`. `p02` and `p03` are on other nodes.
const NODES_OF_P01: [usize; 2] = [2, 5];
/// More claims than may wait on a node. A dead partition must not take all of that room.
const MANY: usize = 140_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_partition_takes_nothing_from_the_others() {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let options = RedisOptions {
        topology: Topology::Cluster,
        urls: cluster.urls(),
        partitions: 4,
        ..impatient(String::new())
    };
    let mut harness = Harness::new(options).await;
    let dead = harness.open(open_now(sale(STOCK))).await;
    let alive = harness.open(open_now(sale(STOCK))).await;
    for _ in 0..2 {
        harness.open(open_now(sale(STOCK))).await; // those are where the dead one is
    }
    // The sale ends soon, and a tick writes that to the log.
    let ends_ms = 4_000;
    let ending = harness.open(sale(STOCK).window(now(), ends_ms)).await;
    let (node, other) = (&harness.nodes[0], &harness.nodes[1]);
    for target in [dead, alive, ending] {
        granted(node, &target.one("early")).await;
    }
    let [here, there, last] = [dead, alive, ending].map(|it| node.partition_of(&it.one("a")));
    assert_eq!([here, there, last], [1, 2, 2].map(PartitionId));
    blocking(|| NODES_OF_P01.map(|at| cluster.node(at).pause()));
    let stopped = Instant::now();

    let many = submit(node, (0..MANY).map(|n| dead.one(&name(n))));
    assert!(
        node.queued() < MANY,
        "one partition fills the node's whole queue"
    );
    let began = Instant::now();
    for n in 0..CLAIMS {
        let answer = node.claim(alive.one(&name(n))).await;
        assert!(
            answer.as_ref().is_ok_and(|it| it.outcome.grant().is_some()),
            "{answer:?}"
        );
    }
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    let before = node.head(last).await.unwrap();
    // A probe of the other partition is answered, and a probe of this one fails.
    assert_eq!(node.probe(there).await, Ok(ProbeResult::Ready));
    assert!(node.probe(here).await.is_err());
    // Due work on other partitions is done, although a tick fails on this one.
    while node.head(last).await.unwrap() == before {
        let late = Duration::from_millis(ends_ms as u64) + SLACK;
        assert!(
            stopped.elapsed() < late,
            "other partitions do not tick during the failure"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ticked = other.submit(Command::Tick { events_max: 100 }).await;
    assert!(ticked.is_err(), "{ticked:?}");
    for ticket in many {
        assert!(ticket.await.is_err());
    }
    let states: BTreeMap<_, _> = node.partition_states().into_iter().collect();
    let unreachable = [here, there].map(|it| states[&it].is_some());
    assert_eq!(unreachable, [true, false], "{states:?}");
    blocking(|| NODES_OF_P01.map(|at| cluster.node(at).resume()));
    granted(node, &dead.one("again")).await;
}

/// Time that a probe waits for a stalled replica.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stalls_leaves_partitions_degraded() {
    let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
    let partitions = 8;
    let options = RedisOptions {
        partitions,
        replicas: 1,
        replica_timeout: REPLICA_TIMEOUT,
        call_timeout: 2 * REPLICA_TIMEOUT,
        ..impatient(servers.url())
    };
    let mut harness = Harness::new(options).await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let node = &harness.nodes[0];
    assert_eq!(node.probe(PartitionId(0)).await, Ok(ProbeResult::Ready));
    blocking(|| servers.replica(0).pause());
    let began = Instant::now();
    let probes: Vec<_> = (0..partitions)
        .map(|n| node.probe(PartitionId(n)))
        .collect();
    for probe in probes {
        let probed = probe.await;
        let Ok(ProbeResult::Degraded { reason }) = &probed else {
            panic!("{probed:?}");
        };
        assert!(reason.contains("replicas"), "{reason}");
    }
    // Probes one after the other would have waited eight times as long.
    let took = began.elapsed();
    assert!(took < 4 * REPLICA_TIMEOUT, "{took:?}");
    granted(node, &target.one("user")).await;
    assert_eq!(node.stopped(), None);
    blocking(|| servers.replica(0).resume());
}

const PARTS: u16 = 4;

/// A shard that runs out of units pulls from shards of working partitions. A halted shard neither sends units nor
/// counts as empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_passes_over_a_halted_partition() {
    let options = RedisOptions {
        partitions: PARTS,
        shard_supply_min: 2,
        shards_max: PARTS,
        ..impatient(shared().url())
    };
    let mut harness = Harness::new(options).await;
    let supply = 400;
    let target = harness.open(open_now(sale(supply))).await;
    let node = &harness.nodes[0];
    let mut users: [Vec<Claim>; PARTS as usize] = Default::default();
    for n in 0..4_000 {
        let claim = target.one(&name(n));
        users[usize::from(node.partition_of(&claim).0)].push(claim);
    }
    // The last shard has the most units from here on.
    for part in &users[..3] {
        for claim in &part[..20] {
            granted(node, claim).await;
        }
    }
    let halted = PartitionId(3);
    node.halt(halted, "by hand").await.unwrap();
    wait_for("the halt", || node.partition_states()[3].1.is_some()).await;
    let left = supply as usize * 3 / 4 - 3 * 20;
    let claims = users[0][20..].iter().cloned();
    let tickets = submit(node, claims.clone().take(left));
    for ticket in tickets {
        let answer = ticket.await;
        assert!(
            answer.as_ref().is_ok_and(|it| it.outcome.grant().is_some()),
            "{answer:?}"
        );
    }
    for ticket in submit(node, claims.skip(left).take(10)) {
        let answer = ticket.await;
        assert!(
            matches!(answer, Err(EngineError::Unavailable { .. })),
            "{answer:?}"
        );
    }
}
