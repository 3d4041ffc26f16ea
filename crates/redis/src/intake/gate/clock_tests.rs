//! Tests of partitions on servers with different clocks.
#![allow(clippy::unwrap_used)]

use qiang_core::{
    book::{Command, Setup},
    outcome::Outcome,
    ports::{Engine as _, EngineError},
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options as ServerOptions, Standalone},
};

use super::*;
use crate::{RedisEngine, RedisOptions};

const PARTITIONS: [PartitionId; 2] = [PartitionId(0), PartitionId(1)];
/// Difference by which the clock of the other partition's server is ahead.
const AHEAD_MS: i64 = 300_000;
/// Maximum time until the gate knows a campaign, on a busy machine.
const KNOWN_MAX: Duration = Duration::from_secs(60);

/// A campaign with a later start is not opened by the clock of another partition's server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_partitions_clock_opens_nothing() {
    let server = tokio::task::block_in_place(|| Standalone::start(&ServerOptions::new()));
    let options = RedisOptions {
        partitions: 2,
        urls: vec![server.url()],
        prefix: "clocks".to_owned(),
        ..RedisOptions::default()
    };
    let engine = RedisEngine::connect(options, &[]).await.unwrap();
    let partitions = &engine.node.partitions;
    let now = partitions.time(PARTITIONS[0]).await.unwrap();
    let opens = now.plus_millis(AHEAD_MS / 2);
    let setup: Setup = sale(5).window(opens, 86_400_000).setup(1);
    let opened = engine.submit(Command::Open(Box::new(setup.clone()))).await;
    assert!(opened.is_ok(), "{opened:?}");
    let home = partitions.home(setup.campaign.id);
    let other = PARTITIONS[usize::from(home == PARTITIONS[0])];
    let claim = Target::of(&setup).one("ann");
    let until = Instant::now() + KNOWN_MAX;
    let closed = Outcome::NotStarted { starts_at: opens };
    while engine.try_gate_outcome(&claim).is_none() {
        assert!(Instant::now() < until, "the gate never knows");
        // This claim makes the gate load the campaign.
        let claimed: Result<_, EngineError> = engine.claim(claim.clone()).await;
        assert_eq!(claimed.unwrap().outcome, closed);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ahead = partitions.clock(home).now().plus_millis(AHEAD_MS);
    partitions.clock(other).observe(ahead);
    // Asked at once: a clock that the two shared would be right again after the next read of Redis' time.
    assert_eq!(engine.try_gate_outcome(&claim), Some(closed));
    let own: Timestamp = partitions.clock(home).now();
    assert!(own < opens, "{own:?}");
    // The earliest time counts for campaigns that start at once.
    let time = engine.time();
    assert!(time.is_none_or(|time| time < opens), "{time:?}");
    engine.close().await;
}
