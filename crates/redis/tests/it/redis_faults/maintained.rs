//! Each operation of operators and repairs on partitions, once, for the test of the access list. They must work with
//! the permissions of a node.

use std::time::Duration;

use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    money::Money,
    ports::{
        AccountStore as _, CampaignStore as _, EventLog as _, RepairEngine as _, RepairState,
        SampleCursor, SampleEngine as _,
    },
    reconcile::DifferenceKind,
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisEngine};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, Target, currency, red_packet, sale, user},
    servers::redis::Server,
};
use qiang_worker::settlement::settle_once;

use crate::redis_faults::harness::{Harness, blocking, name, open_now, wait_for};

const HOLD_MS: i64 = 3_600_000;
const LEASE: Duration = Duration::from_secs(1);
const ENTRIES_MAX: usize = 4_096;
/// Entries of a loss that no node can name.
const UNNAMED: u64 = 3;

/// Opens campaigns of `shard_supply_min` units, which are spread, and smaller ones, which are not.
async fn open(harness: &mut Harness, ledger: &SqliteLedger) -> [Target; 4] {
    let total = Money::new(1_000_000, currency());
    let id = uuid::Uuid::from_u128(1);
    ledger.deposit(id, &user(OWNER), total).await.unwrap();
    let (many, few) = (
        harness.options.shard_supply_min,
        harness.options.shard_supply_min / 2,
    );
    let split = SplitRule::DoubleAverage { min: 1 };
    let builders = [
        sale(many).hold_ms(HOLD_MS),
        red_packet(100_000, many, split),
        sale(few).hold_ms(HOLD_MS),
        red_packet(100_000, few, split),
    ];
    let mut targets = Vec::new();
    for builder in builders.map(open_now) {
        let setup = builder.setup(harness.setups.len() as u64 + 1);
        ledger.create(&setup).await.unwrap();
        targets.push(harness.open(builder).await);
    }
    targets.try_into().unwrap()
}

async fn settle(node: &RedisEngine, ledger: &SqliteLedger) {
    for partition in node.partitions() {
        loop {
            let step = settle_once(node, ledger, partition, ENTRIES_MAX).await;
            let step = step.unwrap();
            if step.settled == step.head {
                break;
            }
        }
    }
}

fn key(harness: &Harness, partition: PartitionId, rest: &str) -> String {
    format!("{}:{{p{:02}}}:{rest}", harness.options.prefix, partition.0)
}

/// Removes a campaign's shard from Redis. It uses no command that a node may need, because those are counted.
fn lose(harness: &Harness, server: &Server, partition: PartitionId, campaign: CampaignId) {
    for rest in [
        "",
        ":shares",
        ":sums",
        ":users",
        ":orders",
        ":payments",
        ":keys",
    ] {
        let key = key(harness, partition, &format!("c:{campaign}{rest}"));
        blocking(|| server.call(&["EXPIRE", &key, "0"]).unwrap());
    }
}

async fn differing(node: &RedisEngine, ledger: &SqliteLedger, partition: PartitionId) -> usize {
    let mut found = 0;
    for campaign in node.live_campaigns(partition, ledger).await.unwrap() {
        let differences = node.differences(partition, campaign, ledger).await.unwrap();
        let real = differences
            .iter()
            .filter(|it| it.kind != DifferenceKind::InFlight);
        found += real.count();
        // The continuous walk of a node.
        let cursor = SampleCursor::default();
        let sample = node.sample(partition, campaign, ledger, &cursor, 100);
        sample.await.unwrap();
    }
    assert!(node.leads_sampling(partition, LEASE).await.unwrap());
    found
}

async fn grants_again(harness: &Harness, partition: PartitionId) {
    let open = |node: &RedisEngine| node.state(partition) == PartitionHealth::Open;
    wait_for("the partition", || harness.nodes.iter().all(open)).await;
}

/// Loses shards of campaigns and unites them with the ledger. Loses entries that no node can name and repairs that,
/// releases withheld units, and resumes a halted partition unchanged.
pub(crate) async fn maintain(harness: &mut Harness, server: &Server) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
    let targets = open(harness, &ledger).await;
    let claims = (0..20).flat_map(|n| targets.map(|target| target.one(&name(n))));
    let answers = harness.ask_all(claims.collect()).await;
    let node = harness.nodes[0].clone();
    settle(&node, &ledger).await;

    // A shard of the spread sale, and the packet, which is on one partition.
    for target in [targets[0], targets[3]] {
        let mut lost = None;
        for partition in node.partitions() {
            if node.has_part(target.id, partition).await.unwrap() {
                lost = Some(partition);
            }
        }
        lose(harness, server, lost.unwrap(), target.id);
    }
    let mut before = 0;
    for partition in node.partitions() {
        before += differing(&node, &ledger, partition).await;
    }
    for partition in node.partitions() {
        let united = node.unite(partition, &ledger).await;
        assert!(
            matches!(united, Ok(RepairState::Repaired(_))),
            "{partition:?} is not united with the ledger: {united:?}"
        );
        assert_eq!(differing(&node, &ledger, partition).await, 0);
        grants_again(harness, partition).await;
    }
    assert!(before > 20, "{before}");
    harness.replay(&answers).await;

    for partition in node.partitions() {
        let repairs = node.inspect(partition).await.unwrap().repairs.len();
        assert!(repairs > 0, "{partition:?} was not united with the ledger");
        // A dead node had observed more entries than the log has.
        let head = node.head(partition).await.unwrap();
        node.halt(partition, "entries are lost").await.unwrap();
        let (from, to) = ((head + 1).to_string(), (head + UNNAMED).to_string());
        let (state, nodes) = (
            key(harness, partition, "partition"),
            key(harness, partition, "nodes"),
        );
        blocking(|| {
            server.call(&["HSET", &nodes, "gone", "0 0 0"]).unwrap();
            let lost = ["HSET", &state, "lost_from", &from, "lost_to", &to];
            server.call(&lost).unwrap();
        });
        let Ok(RepairState::Repaired(report)) = node.repair(partition, &ledger, true).await else {
            panic!("{partition:?} is not repaired");
        };
        assert!(report.withheld > 0, "{report:?}");
        grants_again(harness, partition).await;
        let found = node.inspect(partition).await.unwrap();
        assert!(!found.withheld.is_empty() && found.repairs.len() == repairs + 1);
        assert!(node.release_withheld(partition, &ledger).await.unwrap() > 0);
        assert!(!node.resume_as_it_is(partition, &ledger).await.unwrap());
        node.halt(partition, "by hand").await.unwrap();
        assert!(node.resume_as_it_is(partition, &ledger).await.unwrap());
        grants_again(harness, partition).await;
    }
    harness.replay(&answers).await;
    settle(&node, &ledger).await;
    for partition in node.partitions() {
        assert_eq!(differing(&node, &ledger, partition).await, 0);
    }
    ledger.close();
}
