//! Changes of a sale's terms, when a failover loses their entry.

use qiang_core::{
    book::Reply,
    campaign::{SaleSettings, SaleSettingsChange},
    outcome::Outcome,
    ports::{QuarantineStore as _, SettlementStore as _},
};

use super::*;

/// State of the change in the ledger when Redis loses it.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// Not settled: only the node that answered it knows it.
    Nothing,
    Settled,
    Quarantined,
}

async fn loses_a_change(known: Known) {
    let world = World::new().await;
    let campaign = world.sale.id;
    // If a user may have several units, keys distinguish a retry from a new order.
    let grant = async |from: usize, upto: usize| {
        let claims = (from..upto).map(|n| world.sale.keyed(&name(n), 1, "click"));
        world.harness.ask_all(claims.collect()).await
    };
    let mut answers = grant(0, CLAIMS).await;
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    let node = &world.harness.nodes[0];
    let change = SaleSettingsChange {
        per_user_limit: Some(3),
        unit_price_minor: Some(250),
        ..SaleSettingsChange::default()
    };
    let reply = node.submit(Command::SetTerms { campaign, change }).await;
    let Ok(Reply::Acted(changed)) = reply else {
        panic!("{reply:?}");
    };
    let terms = changed.terms.unwrap();
    assert_eq!((terms.per_user_limit, terms.unit_price_minor), (3, 250));
    if known == Known::Quarantined {
        for partition in node.partitions() {
            let settled = world.ledger.settled(partition).await.unwrap();
            for entry in node.read(partition, settled, ENTRIES_MAX).await.unwrap() {
                let moved = world.ledger.quarantine(partition, &entry, "asked for");
                assert_eq!(moved.await, Ok(entry.seq));
            }
        }
    } else {
        answers.extend(grant(CLAIMS, CLAIMS + 20).await);
    }
    if known == Known::Settled {
        world.settle().await;
    }
    let from = Instant::now();
    world.fail_over();
    world.repaired(from).await;
    world.harness.replay(&answers).await;
    let node = &world.harness.nodes[0];
    let tally = node.tally(campaign).await.unwrap().unwrap();
    assert_eq!(tally.terms, Some(terms));
    for (n, expected) in [(1, "granted"), (2, "granted"), (3, "limit_reached")] {
        let claim = world.sale.keyed("later", 1 + n / 2, &format!("k{n}"));
        let outcome = node.claim(claim).await.unwrap().outcome;
        assert_eq!(outcome.name(), expected);
        if let Outcome::Granted(grant) = outcome {
            assert_eq!(grant.amount_minor, 250 * i64::from(grant.quantity));
        }
    }
    world.settle().await;
    for quarantined in world.ledger.list_quarantined(None, 1_000).await.unwrap() {
        let (partition, seq) = (quarantined.partition, quarantined.entry.seq);
        assert_eq!(world.ledger.redrive(partition, seq).await, Ok(true));
    }
    let settled = async || {
        let record = world.ledger.campaign(campaign).await.unwrap().unwrap();
        (
            SaleSettings::from_campaign(&record.campaign).unwrap(),
            record.granted,
        )
    };
    let granted = node.tally(campaign).await.unwrap().unwrap().granted;
    assert_eq!(settled().await, (terms, granted));
    // A later change has a higher revision than the lost one.
    let change = SaleSettingsChange {
        unit_price_minor: Some(90),
        ..SaleSettingsChange::default()
    };
    let changed = node.submit(Command::SetTerms { campaign, change }).await;
    assert!(changed.is_ok(), "{changed:?}");
    world.settle().await;
    assert_eq!(settled().await.0.unit_price_minor, 90);
    for partition in node.partitions() {
        let found = node.differences(partition, campaign, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_terms_that_the_ledger_has_are_kept() {
    loses_a_change(Known::Settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_terms_in_quarantine_are_kept() {
    loses_a_change(Known::Quarantined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_terms_that_a_node_has_answered_are_kept() {
    loses_a_change(Known::Nothing).await;
}
