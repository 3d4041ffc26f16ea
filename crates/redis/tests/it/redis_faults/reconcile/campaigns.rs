//! Facts of campaigns. A change on one side only is reported, and a change in flight is not. An engine that has lost
//! entries is not compared.

use std::sync::atomic::{AtomicU32, Ordering};

use qiang_core::{
    book::{CampaignAction, Command},
    campaign::{Phase, SaleSettingsChange},
    event::PartitionId,
    id::UserId,
    payment::PaymentPolicy,
    ports::{
        Action, ActionKind, CampaignStore as _, EventLog as _, QuarantineStore as _,
        RepairStore as _, Restatement, SampleEngine as _, SettlementStore as _,
    },
    reconcile::{
        CampaignComparison, CampaignFacts, CampaignRefusal, ComparedCampaign, NotCompared,
    },
};

use super::*;

/// The campaign's facts in the ledger's row.
async fn row(world: &World, target: Target) -> CampaignFacts {
    let found = world.books.ledger.campaign(target.id).await.unwrap();
    found.unwrap().facts()
}

/// Restates a campaign's row, like a manual change.
async fn change(world: &World, target: Target, becomes: CampaignFacts) {
    static LAST: AtomicU32 = AtomicU32::new(1);
    let action = Action {
        id: uuid::Uuid::from_u128(LAST.fetch_add(1, Ordering::Relaxed).into()),
        at: qiang_testkit::campaign::OPENS,
        actor: UserId::new("ann").unwrap(),
        kind: ActionKind::Change,
        subject: target.id.to_string(),
        request_id: String::new(),
        detail: "{}".to_owned(),
    };
    let restatement = Restatement {
        campaign: target.id,
        partition: home(world, target),
        settled: (0, u64::from(u32::MAX)),
        seen: row(world, target).await,
        becomes,
        action,
    };
    let restated = world.books.ledger.restate(&restatement).await;
    assert_eq!(restated, Ok(true));
}

fn home(world: &World, target: Target) -> PartitionId {
    world.harness.nodes[0].home_position(target.id).0
}

async fn compare(world: &World, partition: PartitionId, target: Target) -> CampaignComparison {
    let (node, ledger) = (&world.harness.nodes[0], &world.books.ledger);
    let compared = node.compare_campaign(partition, target.id, ledger).await;
    compared.unwrap()
}

async fn compared(world: &World, partition: PartitionId, target: Target) -> ComparedCampaign {
    match compare(world, partition, target).await {
        CampaignComparison::Compared(compared) => *compared,
        other => panic!("{other:?}"),
    }
}

fn kinds(compared: &ComparedCampaign) -> Vec<DifferenceKind> {
    compared.differences().iter().map(|it| it.kind).collect()
}

/// Key of the hash of a campaign's shard.
fn hash(world: &World, partition: PartitionId, target: Target) -> String {
    key(&world.harness, partition, target, "")
}

async fn change_terms(world: &World, target: Target) {
    let campaign = target.id;
    let change = SaleSettingsChange {
        unit_price_minor: Some(321),
        ..SaleSettingsChange::default()
    };
    let stock = u64::from(STOCK) + 70;
    let action = CampaignAction::Pause;
    for command in [
        Command::SetTerms { campaign, change },
        Command::SetStock { campaign, stock },
        Command::Act { campaign, action },
    ] {
        world.harness.submit(0, command).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_in_flight_is_no_difference_and_is_not_reverted() {
    for spread in [false, true] {
        let mut world = World::new(spread).await;
        let target = world.campaign(sale(STOCK)).await;
        world.settle().await;
        let home = home(&world, target);
        let before = row(&world, target).await;
        change_terms(&world, target).await;
        for partition in world.harness.nodes[0].partitions() {
            if compare(&world, partition, target).await != CampaignComparison::Absent {
                let found = compared(&world, partition, target).await;
                assert_eq!(kinds(&found), [], "{spread} {partition:?}");
            }
        }
        assert_eq!(
            row(&world, target).await,
            before,
            "the change is not settled"
        );
        // At the same time, an operator raises the stock in the ledger only.
        let raised = CampaignFacts {
            supply: before.supply.map(|supply| supply + 5),
            ..before
        };
        change(&world, target, raised).await;
        let found = compared(&world, home, target).await;
        assert_eq!(kinds(&found), [DifferenceKind::SupplyDiffers]);
        assert_eq!(found.restated_row(), Ok(before));
        change(&world, target, before).await;

        world.settle().await;
        let settled = row(&world, target).await;
        assert_eq!(settled.unit_price_minor, Some(321), "{spread}");
        assert_eq!(settled.supply, Some(u64::from(STOCK) + 70), "{spread}");
        assert_eq!(settled.phase, Phase::Paused, "{spread}");
        let found = compared(&world, home, target).await;
        assert_eq!(kinds(&found), [], "{spread}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_that_differ_are_counted() {
    for spread in [false, true] {
        let mut world = World::new(spread).await;
        let target = world.campaign(sale(STOCK)).await;
        world.settle().await;
        assert_eq!(world.pass().await, Counts::default());
        let before = row(&world, target).await;
        let raised = CampaignFacts {
            supply: before.supply.map(|supply| supply + 5),
            ..before
        };
        change(&world, target, raised).await;
        let found = world.pass().await;
        assert_eq!(found, one(DifferenceKind::SupplyDiffers, 1), "{spread}");
        change(&world, target, before).await;
        assert_eq!(world.pass().await, Counts::default());
    }
}

/// Shares and money of a spread packet are those of all its parts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_and_money_of_a_spread_packet_are_compared() {
    let mut world = World::new(true).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let target = world.campaign(red_packet(1_000_000, STOCK, split)).await;
    world.settle().await;
    let first = home(&world, target);
    assert_eq!(kinds(&compared(&world, first, target).await), []);
    for partition in world.harness.nodes[0].partitions() {
        for (field, kind) in [
            ("supply", DifferenceKind::SupplyDiffers),
            ("funded", DifferenceKind::TotalDiffers),
        ] {
            let more = |before: Option<&str>| {
                let before: i64 = before.unwrap().parse().unwrap();
                Some((before + 1).to_string())
            };
            let plant = Plant::new(hash(&world, partition, target), field, more);
            let found = compared(&world, first, target).await;
            assert_eq!(kinds(&found), [kind], "{field} in {partition:?}");
            assert!(found.restated_row().is_err());
            plant.undo();
        }
    }
    assert_eq!(kinds(&compared(&world, first, target).await), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_differs_is_named_and_not_repaired_alone() {
    let mut world = World::new(true).await;
    let target = world.campaign(sale(STOCK)).await;
    world.settle().await;
    let first = home(&world, target);
    let other = world.harness.nodes[0].partitions();
    let other = *other.iter().find(|it| **it != first).unwrap();
    let plant = Plant::new(hash(&world, other, target), "price", |_| {
        Some("1".to_owned())
    });
    let found = compared(&world, other, target).await;
    assert_eq!(kinds(&found), [DifferenceKind::PriceDiffers]);
    assert_eq!(found.restated_row(), Err(CampaignRefusal::NotFirst));
    assert_eq!(kinds(&compared(&world, first, target).await), []);
    plant.undo();
    let plant = Plant::new(hash(&world, other, target), "phase", |_| {
        Some("p".to_owned())
    });
    let found = compared(&world, other, target).await;
    assert_eq!(kinds(&found), [DifferenceKind::PhaseDiffers]);
    plant.undo();
    let before = row(&world, target).await;
    let paused = CampaignFacts {
        phase: Phase::Paused,
        ..before
    };
    change(&world, target, paused).await;
    let found = compared(&world, first, target).await;
    assert_eq!(kinds(&found), [DifferenceKind::PhaseDiffers]);
    assert_eq!(found.restated_row(), Err(CampaignRefusal::PartPhase));
}

/// An older Redis has an older price, and its log ends before the ledger's position. The loss is repaired first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_has_lost_entries_is_not_compared() {
    let mut world = World::new(false).await;
    let target = world.campaign(sale(STOCK)).await;
    change_terms(&world, target).await;
    world.settle().await;
    let home = home(&world, target);
    let settled = world.books.ledger.settled(home).await.unwrap();
    let prefix = &world.harness.options.prefix;
    let state = format!("{prefix}:{{p{:02}}}:partition", home.0);
    let price = Plant::new(hash(&world, home, target), "price", |_| {
        Some("1".to_owned())
    });
    let found = compared(&world, home, target).await;
    assert_eq!(kinds(&found), [DifferenceKind::PriceDiffers]);
    let end = Plant::new(state, "seq", |_| Some((settled - 1).to_string()));
    let found = compare(&world, home, target).await;
    let gap = CampaignComparison::Unsettled(NotCompared::LogGap);
    let closed = CampaignComparison::Unsettled(NotCompared::NotOpen);
    assert!([gap, closed].contains(&found), "{found:?}");
    end.undo();
    price.undo();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halted_partition_is_not_compared() {
    let mut world = World::new(false).await;
    let target = world.campaign(sale(STOCK)).await;
    world.settle().await;
    let home = home(&world, target);
    let node = world.harness.nodes[0].clone();
    node.halt(home, "by hand").await.unwrap();
    let halted = CampaignComparison::NotCompared(NotCompared::NotOpen);
    let mut found = compare(&world, home, target).await;
    let until = Instant::now() + PASS_MAX;
    while found != halted {
        assert!(Instant::now() < until, "{found:?}");
        tokio::time::sleep(SHORT_PAUSE).await;
        found = compare(&world, home, target).await;
    }
}

/// A price is set by SQL while a change of the terms is in flight. Settlement would overwrite it unnoticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_changed_under_a_change_of_the_terms_is_named() {
    for spread in [false, true] {
        let mut world = World::new(spread).await;
        let target = world.campaign(sale(STOCK)).await;
        world.settle().await;
        let home = home(&world, target);
        let before = row(&world, target).await;
        change_terms(&world, target).await;
        assert_eq!(kinds(&compared(&world, home, target).await), []);
        let edited = CampaignFacts {
            unit_price_minor: Some(7),
            ..before
        };
        change(&world, target, edited).await;
        let found = compared(&world, home, target).await;
        assert_eq!(kinds(&found), [DifferenceKind::PriceDiffers], "{spread}");
        assert_eq!(found.restated_row(), Ok(before));
        let now = qiang_testkit::campaign::OPENS;
        let rules = (qiang_testkit::campaign::currency(), PaymentPolicy::Owed);
        let commands = found.commands(0, now, rules);
        assert_eq!(commands, Err(CampaignRefusal::TermsInFlight));
        change(&world, target, before).await;
        assert_eq!(kinds(&compared(&world, home, target).await), []);
        world.settle().await;
        assert_eq!(kinds(&compared(&world, home, target).await), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_with_entries_in_quarantine_is_not_compared() {
    let mut world = World::new(false).await;
    let target = world.campaign(sale(STOCK)).await;
    world.settle().await;
    let home = home(&world, target);
    let campaign = target.id;
    let stock = u64::from(STOCK) + 70;
    let command = Command::SetStock { campaign, stock };
    world.harness.submit(0, command).await.unwrap();
    let position = world.books.ledger.settled(home).await.unwrap();
    let read = world.harness.nodes[0].read(home, position, 1).await;
    let entry = read.unwrap().remove(0);
    let aside = world.books.ledger.quarantine(home, &entry, "asked for");
    assert_eq!(aside.await, Ok(entry.seq));
    let found = compare(&world, home, target).await;
    let quarantined = CampaignComparison::NotCompared(NotCompared::Quarantined);
    assert_eq!(found, quarantined);
}

/// A campaign with an unreadable hash does not prevent the comparison of others, but the pass does not count as
/// complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_walk_goes_past_a_campaign_that_cannot_be_read() {
    let mut world = World::new(false).await;
    let mut targets = Vec::new();
    for _ in 0..3 {
        targets.push(world.campaign(sale(STOCK)).await);
    }
    world.settle().await;
    assert_eq!(world.pass().await, Counts::default());
    let before = passed_at(&world.monitor);
    // Campaigns are walked in the order of their ids.
    targets.sort_by_key(|target| target.id);
    let broken = targets[0];
    let home_of_broken = home(&world, broken);
    let plant = Plant::new(hash(&world, home_of_broken, broken), "ends", |_| {
        Some("nonsense".to_owned())
    });
    for target in &targets[1..] {
        let facts = row(&world, *target).await;
        let raised = CampaignFacts {
            supply: facts.supply.map(|supply| supply + 5),
            ..facts
        };
        change(&world, *target, raised).await;
    }
    let until = Instant::now() + PASS_MAX;
    while counts(&world.monitor) != one(DifferenceKind::SupplyDiffers, 2) {
        assert!(Instant::now() < until, "{:?}", counts(&world.monitor));
        // An unreadable campaign is an error of the step.
        drop(world.reconciliation.reconcile().await);
    }
    let findings = world.monitor.findings();
    let of_broken = findings.iter().find(|it| it.partition == home_of_broken);
    let passed_before = before.iter().max().copied().flatten();
    assert!(of_broken.unwrap().passed_at <= passed_before);
    plant.undo();
    assert_eq!(world.pass().await, one(DifferenceKind::SupplyDiffers, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_without_campaigns_is_no_run() {
    let mut world = World::new(false).await;
    world.pass().await;
    let runs = |world: &World| {
        let findings = world.monitor.findings();
        let runs = findings.iter().filter(|it| it.ran_at.is_some());
        runs.count()
    };
    assert_eq!(runs(&world), 0);
    world.campaign(sale(STOCK)).await;
    world.settle().await;
    world.pass().await;
    assert_eq!(runs(&world), 1, "one partition has the campaign");
}
