//! Withheld units of repairs in the comparison of engine and ledger.

use qiang_core::ports::{RepairAttempt, RepairRecord, RepairStore as _, WithheldRecord};
use qiang_testkit::campaign::OPENS;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withheld_units_are_counted_until_they_are_given_back() {
    let mut world = World::new(false).await;
    let target = world.campaign(sale(STOCK)).await;
    world.settle().await;
    let withheld = |world: &World| -> u64 {
        let findings = world.monitor.findings().into_iter();
        findings.map(|it| it.withheld).sum()
    };
    world.pass().await;
    assert_eq!(withheld(&world), 0);
    let partition = world.harness.nodes[0].home_position(target.id).0;
    let record = WithheldRecord {
        partition,
        epoch: "epoch".to_owned(),
        campaign: target.id,
        units: 7,
        amount_minor: 0,
        numbers: Vec::new(),
        released_at: None,
    };
    let repair = RepairRecord {
        partition,
        epoch: record.epoch.clone(),
        follows: String::new(),
        at: OPENS,
        lost_from: 1,
        lost_to: 0,
        unnamed: 0,
        reason: String::new(),
        upto: None,
    };
    let attempt = RepairAttempt {
        partition,
        number: 1,
        repairer: "r".to_owned(),
    };
    let ledger = &world.books.ledger;
    ledger.claim_repair(&attempt).await.unwrap();
    ledger.begin_repair(&repair, &attempt).await.unwrap();
    ledger.withhold(&record, &attempt).await.unwrap();
    world.pass().await;
    assert_eq!(withheld(&world), 7);
    let released = world.books.ledger.release_withheld(partition);
    released.await.unwrap();
    world.pass().await;
    assert_eq!(withheld(&world), 0);
}
