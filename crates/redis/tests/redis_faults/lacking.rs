//! A campaign that the ledger does not have: all its rows differ, and nothing is done that would lose them.

use std::sync::Arc;

use qiang_control::settlement::settle_once;
use qiang_core::{
    event::PartitionId,
    ports::{
        CampaignStore as _, RepairEngine as _, RepairState, SampleCursor, SampleEngine as _,
        SettlementStore as _,
    },
    reconcile::DifferenceKind,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{Options, PartitionState};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
};

use crate::harness::{Harness, name, open_now, options, shared, wait_for};

const PARTITION: PartitionId = PartitionId(0);
const CLAIMS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_not_united_past_entries_of_a_campaign_that_the_ledger_lacks() {
    let mut harness = Harness::new(Options {
        partitions: 1,
        ..options(shared().url())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
    let lacked = harness.open(open_now(sale(100))).await;
    let known = harness.open(open_now(sale(100))).await;
    ledger.create(&harness.setups[1]).await.unwrap();
    for target in [lacked, known] {
        let claims = (0..CLAIMS).map(|n| target.one(&name(n)));
        harness.ask_all(claims.collect()).await;
    }
    let node = harness.nodes[0].clone();
    let found = async |target: qiang_testkit::campaign::Target| {
        let found = node.differences(PARTITION, target.id, &*ledger).await;
        let kinds: Vec<_> = found.unwrap().iter().map(|it| it.kind).collect();
        kinds
    };
    // Its entries will not be settled, although they are in the log.
    assert_eq!(
        found(lacked).await,
        [DifferenceKind::MissingInLedger; CLAIMS]
    );
    assert_eq!(found(known).await, [DifferenceKind::InFlight; CLAIMS]);

    let mut cursor = Some(SampleCursor::default());
    let mut sampled = Vec::new();
    while let Some(here) = cursor {
        let sample = node.sample(PARTITION, lacked.id, &*ledger, &here, 7);
        let sample = sample.await.unwrap().unwrap();
        sampled.extend(
            sample
                .differences
                .into_iter()
                .map(|it| (it.number, it.kind)),
        );
        cursor = sample.next;
    }
    sampled.sort_unstable();
    let all = (1..).zip([DifferenceKind::MissingInLedger; CLAIMS]);
    assert_eq!(sampled, all.collect::<Vec<_>>());

    let refused = node
        .unite(PARTITION, &*ledger)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains(&lacked.id.to_string()), "{refused}");
    assert_eq!(ledger.settled(PARTITION).await, Ok(0));
    assert_eq!(node.state(PARTITION), PartitionState::Open);

    ledger.create(&harness.setups[0]).await.unwrap();
    let united = node.unite(PARTITION, &*ledger).await;
    assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
    let open = |node: &qiang_redis::RedisEngine| node.state(PARTITION) == PartitionState::Open;
    wait_for("the partition", || harness.nodes.iter().all(open)).await;
    settle_once(&node, &*ledger, PARTITION, 4_096)
        .await
        .unwrap();
    for target in [lacked, known] {
        assert_eq!(found(target).await, []);
        let record = ledger.campaign(target.id).await.unwrap().unwrap();
        assert_eq!(record.granted as usize, CLAIMS);
    }
    ledger.close();
}
