//! Changes of a sale's stock, when a failover loses their entry.

use qiang_core::{
    book::Reply,
    campaign::STOCK_MAX,
    ports::{QuarantineStore as _, SettlementStore as _},
};

use super::*;
use crate::redis_faults::harness::winners;

/// Users that claim after the repair.
const LATER: usize = 60;

/// State of the change in the ledger when Redis loses it.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    Settled,
    Quarantined,
}

/// Sets the stock of a sale with `CLAIMS` granted units. A failover loses the change and the later grants.
async fn loses_a_change(known: Known, to: u64) {
    let world = World::new().await;
    let campaign = world.sale.id;
    let mut answers = world.grant(0, CLAIMS).await;
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    let node = &world.harness.nodes[0];
    let command = Command::SetStock {
        campaign,
        stock: to,
    };
    let Ok(Reply::Acted(changed)) = node.submit(command).await else {
        panic!("the stock cannot be changed");
    };
    assert_eq!(
        (changed.supply, changed.remaining),
        (to, to - CLAIMS as u64)
    );
    if known == Known::Quarantined {
        let mut aside = 0;
        for partition in node.partitions() {
            let settled = world.ledger.settled(partition).await.unwrap();
            for entry in node.read(partition, settled, ENTRIES_MAX).await.unwrap() {
                let moved = world.ledger.quarantine(partition, &entry, "asked for");
                assert_eq!(moved.await, Ok(entry.seq));
                aside += 1;
            }
        }
        assert_eq!(aside, 1);
    } else {
        answers.extend(world.grant(CLAIMS, CLAIMS + 20).await);
    }
    if known == Known::Settled {
        world.settle().await;
    }
    let from = Instant::now();
    world.fail_over();
    world.repaired(from).await;
    world.harness.replay(&answers).await;
    let stock = match known {
        Known::Nothing => SUPPLY.into(),
        _ => to,
    };
    assert_eq!(world.withheld(world.sale), 0);
    let tally = async || {
        let tally = world.harness.nodes[0].tally(campaign).await;
        tally.unwrap().unwrap()
    };
    assert_eq!(tally().await.supply, stock);
    // Users get exactly the rest of the stock.
    let left = tally().await.remaining as usize;
    let later = (0..LATER).map(|n| world.sale.one(&format!("later-{n}")));
    let later = world.harness.ask_all(later.collect()).await;
    assert_eq!(winners(&later), left.min(LATER));
    world.settle().await;
    redrive(&world).await;
    let record = world.ledger.campaign(campaign).await.unwrap().unwrap();
    assert_eq!(record.campaign.supply(), stock);
    assert_eq!(record.granted, tally().await.granted);
    for partition in world.harness.nodes[0].partitions() {
        let node = &world.harness.nodes[0];
        let found = node.differences(partition, campaign, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
    let action = CampaignAction::Close;
    let closed = world.harness.nodes[0].submit(Command::Act { campaign, action });
    assert!(closed.await.is_ok());
    world.settle().await;
    let record = world.ledger.campaign(campaign).await.unwrap().unwrap();
    assert_eq!(record.granted + record.returned, stock);
}

/// Settles all quarantined entries and their waiting entries.
async fn redrive(world: &World) {
    let aside = world.ledger.list_quarantined(None, 1_000).await.unwrap();
    for quarantined in aside {
        let (partition, seq) = (quarantined.partition, quarantined.entry.seq);
        assert_eq!(world.ledger.redrive(partition, seq).await, Ok(true));
    }
}

/// A settled decrease of the stock survives, because an operator got its answer. No removed unit is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_stock_that_the_ledger_has_stays_lower() {
    loses_a_change(Known::Settled, CLAIMS as u64 + 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_higher_stock_that_the_ledger_has_stays_higher() {
    loses_a_change(Known::Settled, STOCK_MAX).await;
}

/// The same if the entry is in quarantine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_stock_in_quarantine_stays_lower() {
    loses_a_change(Known::Quarantined, CLAIMS as u64 + 40).await;
}

/// If no node or ledger knows the change, the stock stays the same on both sides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stock_that_nobody_was_told_is_as_before() {
    loses_a_change(Known::Nothing, CLAIMS as u64 + 40).await;
}
