//! Events after a repair: a process that stopped between reading the log and settling it, and released units.

use qiang_core::ports::SettlementStore as _;

use super::*;

/// More entries than one step of settlement reads.
const READ_MAX: usize = 4_096;

/// A node reads entries to settle them and is stopped. A failover loses the entries, and no other node has observed the
/// last of them. The partition is repaired and continues. The node then tries to settle its old entries. They must not
/// replace later grants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_lost_epoch_are_settled_by_nobody() {
    let world = World::new().await;
    world.grant(0, CLAIMS).await;
    world.settle().await;
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    world.grant(CLAIMS, CLAIMS + 20).await;
    let partitions = world.harness.nodes[0].partitions();
    let positions = world.ledger.positions().await.unwrap();
    let late = crate::redis_faults::harness::node(&world.harness.options, &positions).await;
    for n in 0..20 {
        for target in [world.sale, world.packet] {
            let claim = target.one(&format!("unseen-{n}"));
            late.claim(claim).await.unwrap();
        }
    }
    let mut read = Vec::new();
    for partition in &partitions {
        let position = world.ledger.settled(*partition).await.unwrap();
        let entries = late.read(*partition, position, READ_MAX).await.unwrap();
        assert!(!entries.is_empty(), "{partition:?}");
        read.push((*partition, entries));
    }
    late.abort();
    let from = Instant::now();
    world.fail_over();
    world.repaired(from).await;
    // More entries than the node has read.
    world.grant(2 * CLAIMS, 3 * CLAIMS).await;
    for (partition, entries) in read {
        let before = world.ledger.settled(partition).await.unwrap();
        let settled = world.ledger.settle(partition, &entries).await;
        assert_eq!(settled.as_ref().ok(), Some(&before), "{settled:?}");
    }
    world.check().await;
    world.close().await;
}

/// A repair knows of four grants of a lazy packet, and that two more were made. When the withheld units are released,
/// no user gets a number that another user may have been answered with. All the money is there at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn released_grants_of_a_lazy_packet_have_numbers_of_their_own() {
    const SHARES: usize = 10;
    let mut harness = Harness::new(options(crate::redis_faults::harness::shared().url())).await;
    let packet = open_now(red_packet(1_000, 10, SplitRule::Lazy { min: 1 }));
    let target = harness.open(packet).await;
    let mut numbers = Vec::new();
    let node = harness.nodes[0].clone();
    let mut claim = async |n: usize| {
        let claimed = node.claim(target.one(&name(n))).await.unwrap();
        let number = crate::redis_faults::harness::grant_of(&claimed).map(|grant| grant.number);
        numbers.extend(number);
        number
    };
    for n in 0..4 {
        claim(n).await;
    }
    let home = harness.nodes[0]
        .partitions()
        .into_iter()
        .map(|partition| (partition, format!("p{:02}", partition.0)))
        .map(|(id, tag)| {
            (
                id,
                format!("{}:{{{tag}}}:c:{}", harness.options.prefix, target.id),
            )
        });
    let server = crate::redis_faults::harness::shared().primary();
    let call = |words: &[&str]| blocking(|| server.call(words).unwrap());
    let mut home = home.filter(|(_, key)| call(&["EXISTS", key]).integer() == Some(1));
    let (partition, key) = home.next().unwrap();
    let money = call(&["HGET", &key, "money"]);
    let money = money.text().unwrap();
    let claimed = (1_000 - money.parse::<i64>().unwrap()).to_string();
    call(&[
        "HSET",
        &key,
        "supply",
        "4",
        "remaining",
        "0",
        "grants",
        "6",
        "withheld",
        "6",
        "withheld_minor",
        money,
        "money",
        "0",
        "funded",
        &claimed,
    ]);
    // A ledger without any record of the campaign.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap();
    let released = harness.nodes[0].release_withheld(partition, &ledger).await;
    assert_eq!(released, Ok(4));
    for n in 4..SHARES {
        claim(n).await;
    }
    assert_eq!(numbers, [1, 2, 3, 4, 7, 8, 9, 10]);
    let campaign = target.id;
    let action = CampaignAction::Close;
    let closed = harness.nodes[0].submit(Command::Act { campaign, action });
    assert!(closed.await.is_ok());
    let tally = harness.nodes[0].tally(campaign).await.unwrap().unwrap();
    assert!(tally.conserves(), "{tally:?}");
    assert_eq!((tally.supply, tally.granted, tally.returned), (10, 8, 2));
}
