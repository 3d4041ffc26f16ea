//! A ledger that lags: only the partitions with the lag refuse claims.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_core::{
    book::{Command, Reply},
    event::PartitionId,
    ports::{Claimed, EngineError},
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::redis::{Options, Standalone},
};

const LAG_ENTRIES_MAX: u64 = 40;
/// Claims in the partition that stays below its share.
const CLAIMS_BELOW: u32 = 10;
/// Maximum time until the other partition refuses claims.
const REFUSES_MAX: Duration = Duration::from_secs(60);

async fn claim(backend: &Backend, target: Target, n: u32) -> Result<Claimed, EngineError> {
    backend
        .ports
        .engine
        .claim(target.one(&format!("u{n}")))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_claims_of_a_partition_that_is_behind_are_refused() {
    let server = tokio::task::block_in_place(|| Standalone::start(&Options::new()));
    let folder = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::defaults().unwrap();
    config.engine.kind = EngineKind::Redis;
    config.engine.data = folder.path().join("ledger.db");
    config.redis.urls = server.url();
    config.redis.partitions = 2;
    // Settlement is off.
    config.settlement.in_process = false;
    config.settlement.lag_entries_max = LAG_ENTRIES_MAX;
    let backend = Backend::open(&config).await.unwrap();

    // One campaign per partition. The log shows which partition a campaign is in.
    let mut campaigns: BTreeMap<PartitionId, Target> = BTreeMap::new();
    let log = &backend.ports.log;
    for n in 1.. {
        let setup = sale(10_000)
            .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
            .setup(n);
        let target = Target::of(&setup);
        let mut before = Vec::new();
        for partition in log.partitions() {
            before.push((partition, log.head(partition).await.unwrap()));
        }
        let opened = backend
            .ports
            .engine
            .submit(Command::Open(Box::new(setup)))
            .await;
        assert_eq!(opened, Ok(Reply::Opened));
        for (partition, before) in before {
            if log.head(partition).await.unwrap() > before {
                campaigns.entry(partition).or_insert(target);
            }
        }
        if campaigns.len() == 2 {
            break;
        }
    }
    let targets: Vec<Target> = campaigns.into_values().collect();
    for n in 0..CLAIMS_BELOW {
        let claimed = claim(&backend, targets[1], n).await;
        assert!(claimed.is_ok(), "{claimed:?}");
    }
    // The lag is measured at intervals, so the number of claims before the first refusal varies.
    let until = Instant::now() + REFUSES_MAX;
    let mut n = CLAIMS_BELOW;
    loop {
        let claimed = claim(&backend, targets[0], n).await;
        if claimed == Err(EngineError::Overloaded) {
            break;
        }
        assert!(claimed.is_ok(), "{claimed:?}");
        assert!(Instant::now() < until, "claims are not refused");
        tokio::time::sleep(Duration::from_millis(5)).await;
        n += 1;
    }
    let other = claim(&backend, targets[1], n).await;
    assert!(
        other.as_ref().is_ok_and(|it| it.outcome.grant().is_some()),
        "{other:?}"
    );
    let states = backend.ports.gauges.partitions();
    let behind: Vec<bool> = states.iter().map(|(_, reason)| reason.is_some()).collect();
    assert_eq!(behind, [true, false], "{states:?}");
    backend.close().await.unwrap();
}
