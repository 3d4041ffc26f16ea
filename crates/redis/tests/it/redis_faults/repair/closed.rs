//! A campaign is closed and settled, and a failover loses the close.

use super::*;

/// Units of a sale withheld by an earlier repair.
const WITHHELD: u32 = 3;

/// The close has returned the withheld units. The repair must not withhold them again, so that the sums stay right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_close_has_given_back_what_was_withheld() {
    let world = World::new().await;
    let campaign = world.sale.id;
    let answers = world.grant(0, CLAIMS).await;
    let prefix = &world.harness.options.prefix;
    let call = |words: &[&str]| blocking(|| world.servers.primary().call(words).unwrap());
    let key = TAGS.map(|tag| format!("{prefix}:{{{tag}}}:c:{campaign}"));
    let there = |key: &&String| call(&["EXISTS", key]).integer() == Some(1);
    let key = key.iter().find(there).unwrap();
    let less = format!("-{WITHHELD}");
    for field in ["supply", "remaining"] {
        call(&["HINCRBY", key, field, &less]);
    }
    call(&["HSET", key, "withheld", &WITHHELD.to_string()]);
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    let node = &world.harness.nodes[0];
    let action = CampaignAction::Close;
    let closed = node.submit(Command::Act { campaign, action });
    assert!(closed.await.is_ok());
    world.settle().await;
    let from = Instant::now();
    world.fail_over();
    world.repaired(from).await;
    world.harness.replay(&answers).await;
    world.settle().await;
    let record = world.ledger.campaign(campaign).await.unwrap().unwrap();
    let tally = node.tally(campaign).await.unwrap().unwrap();
    assert_eq!((record.phase, tally.phase), (Phase::Closed, Phase::Closed));
    assert_eq!(record.returned, u64::from(SUPPLY) - CLAIMS as u64);
    assert_eq!(
        (tally.supply, tally.granted, tally.returned),
        (SUPPLY.into(), record.granted, record.returned)
    );
    for partition in node.partitions() {
        let found = node.differences(partition, campaign, &*world.ledger).await;
        assert_eq!(found.unwrap(), [], "{partition:?}");
    }
}
