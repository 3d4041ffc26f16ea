//! A campaign that is missing in the ledger: all its rows differ, and no action loses them.

use std::sync::Arc;

use qiang_core::{
    event::PartitionId,
    ports::{
        CampaignStore as _, Engine as _, EventLog as _, QuarantineStore as _, RepairEngine as _,
        RepairState, SampleCursor, SampleEngine as _, SettlementStore as _,
    },
    reconcile::DifferenceKind,
};
use qiang_embedded::SqliteLedger;
use qiang_redis::{PartitionHealth, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, sale},
};
use qiang_worker::settlement::settle_once;

use crate::redis_faults::harness::{
    Harness, blocking, grant_of, name, open_now, options, shared, wait_for, winners,
};

const PARTITION: PartitionId = PartitionId(0);
const CLAIMS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_not_united_past_entries_of_a_campaign_that_the_ledger_lacks() {
    let mut harness = Harness::new(RedisOptions {
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
    // Its entries will not be settled although they are in the log.
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
    assert_eq!(node.state(PARTITION), PartitionHealth::Open);

    ledger.create(&harness.setups[0]).await.unwrap();
    let united = node.unite(PARTITION, &*ledger).await;
    assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
    let open = |node: &qiang_redis::RedisEngine| node.state(PARTITION) == PartitionHealth::Open;
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

/// The log has entries after a gap: of a campaign missing in the ledger, of one missing in Redis, and of one that both
/// have. Neither a repair after a loss nor a resume skips them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_behind_a_gap_are_settled_or_quarantined() {
    for is_loss in [true, false] {
        let mut harness = Harness::new(RedisOptions {
            partitions: 1,
            ..options(shared().url())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
        let gone = harness.open(open_now(sale(100))).await;
        let known = harness.open(open_now(sale(100))).await;
        for setup in &harness.setups {
            ledger.create(setup).await.unwrap();
        }
        let node = harness.nodes[0].clone();
        let settled = settle_once(&node, &ledger, PARTITION, 4_096).await;
        assert_eq!(settled.unwrap().settled, 2);
        harness.ask_all(vec![known.one("early")]).await;
        let lacked = harness.open(open_now(sale(100))).await;
        let mut answers = Vec::new();
        for target in [lacked, gone, known] {
            let claims = (0..CLAIMS).map(|n| target.one(&name(n)));
            answers.push(harness.ask_all(claims.collect()).await);
        }

        let prefix = format!("{}:{{p00}}", harness.options.prefix);
        let call = |words: &[&str]| blocking(|| shared().primary().call(words).unwrap());
        let deleted = call(&["XDEL", &format!("{prefix}:log"), "3-0"]);
        assert_eq!(deleted.integer(), Some(1));
        for rest in ["", ":users", ":orders", ":keys", ":payments"] {
            call(&["DEL", &format!("{prefix}:c:{}{rest}", gone.id)]);
        }
        let state = format!("{prefix}:partition");
        call(&["HSET", &state, "halted", "by the test"]);
        if is_loss {
            let lost = node.head(PARTITION).await.unwrap() + 1;
            let lost = lost.to_string();
            call(&["HSET", &state, "lost_from", &lost, "lost_to", &lost]);
        }
        call(&["HDEL", &state, "open"]);
        if is_loss {
            let repaired = node.repair(PARTITION, &ledger, true).await;
            assert!(
                matches!(repaired, Ok(RepairState::Repaired(_))),
                "{repaired:?}"
            );
        } else {
            let resumed = node.resume_as_it_is(PARTITION, &ledger).await;
            assert_eq!(resumed, Ok(true));
        }
        let open = |node: &qiang_redis::RedisEngine| node.state(PARTITION) == PartitionHealth::Open;
        wait_for("the partition", || harness.nodes.iter().all(open)).await;
        settle_once(&node, &ledger, PARTITION, 4_096).await.unwrap();

        let granted = async |target: qiang_testkit::campaign::Target| {
            let record = ledger.campaign(target.id).await.unwrap().unwrap();
            record.granted as usize
        };
        // Only a repair unites entries lost from the log with the ledger.
        let found = (granted(gone).await, granted(known).await);
        assert_eq!(found, (CLAIMS, CLAIMS + usize::from(is_loss)), "{is_loss}");
        let waiting = ledger.list_quarantined(None, 100).await.unwrap();
        assert!(waiting.iter().all(|it| it.entry.campaign == lacked.id));
        assert_eq!(waiting.len(), 1 + CLAIMS, "{is_loss}");
        ledger.create(&harness.setups[2]).await.unwrap();
        for entry in waiting {
            let redriven = ledger.redrive(PARTITION, entry.entry.seq).await;
            assert_eq!(redriven, Ok(true));
        }
        assert_eq!(granted(lacked).await, CLAIMS);
        assert!(answers.iter().all(|answers| winners(answers) == CLAIMS));
        if is_loss {
            for (claim, claimed) in &answers[1] {
                let again = node.claim(claim.clone()).await.unwrap();
                assert_eq!(grant_of(&again), grant_of(claimed));
            }
        }
        ledger.close();
    }
}
