//! Repairs that stop and start again, and repairs that follow one another.

use super::*;
use crate::redis_faults::harness::calls_of;

/// A repair fails repeatedly after a campaign with withheld units. The attempts together withhold no more than one
/// successful repair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_that_is_repeated_withholds_no_more() {
    let mut world = World::new().await;
    let mut sales = Vec::new();
    for _ in 0..8 {
        let builder = open_now(sale(1_000)).hold_ms(3_600_000);
        let setup = builder.setup(world.harness.setups.len() as u64 + 1);
        world.ledger.create(&setup).await.unwrap();
        sales.push(world.harness.open(builder).await);
    }
    blocking(|| world.servers.wait_for_replicas());
    detach_replicas(world.servers.primary());
    for (n, target) in sales.iter().enumerate() {
        let claims = (0..20).map(|user| target.one(&name(100 * n + user)));
        world.harness.ask_all(claims.collect()).await;
    }
    for target in &sales {
        let (record, node) = (&world.harness.record, &world.harness.nodes[1]);
        record.ask(node, &target.one("last")).await.unwrap();
    }
    // The other node has observed all entries, but does not know what this node's answers were.
    world.repairs.remove(0).abort();
    world.harness.nodes.remove(0).abort();
    world.fail_over();
    let server = world.servers.replica(0);
    let prefix = world.harness.options.prefix.clone();
    let key = |tag: &str, target: &Target| format!("{prefix}:{{{tag}}}:c:{}", target.id);
    let call = |words: &[&str]| blocking(|| server.call(words).unwrap());
    // The last campaign of each partition is unreadable for a while.
    let mut broken = Vec::new();
    for tag in ["p00", "p01"] {
        let mut keys = sales.iter().map(|target| key(tag, target));
        let there = |key: &String| call(&["EXISTS", key]).integer() == Some(1);
        let last = keys.rfind(there).unwrap();
        let kind = call(&["HGET", &last, "kind"]).text().unwrap().to_owned();
        call(&["HSET", &last, "kind", "unreadable"]);
        broken.push((last, kind));
    }
    let is_broken =
        |target: &&Target| (broken.iter()).any(|(key, _)| key.ends_with(&target.id.to_string()));
    let withheld = |target: &Target| world.withheld(*target);
    let withheld_of_sound = || -> Vec<i64> {
        let sound = sales.iter().filter(|target| !is_broken(target));
        sound.map(withheld).collect()
    };
    let all_withhold = || withheld_of_sound().iter().all(|units| *units > 0);
    wait_for("the first attempts in both partitions", all_withhold).await;
    // A failed attempt deletes the fields of its lease.
    let failed = || blocking(|| calls_of(server, "hdel"));
    let first = failed();
    let more = 3 * broken.len() as u64;
    wait_for("further attempts", || failed() >= first + more).await;
    let before = withheld_of_sound();
    for (key, kind) in &broken {
        call(&["HSET", key, "kind", kind]);
    }
    world.repaired(Instant::now()).await;
    assert_eq!(withheld_of_sound(), before);
    let late = crate::redis_faults::harness::node(&world.harness.options, &[]).await;
    world.harness.nodes.push(late);
    world.check().await;
    world.close().await;
}

/// Two grants of a lazy packet that no node can name are recorded, and their units are released. Later repairs know
/// them even if Redis has lost everything. They withhold no further units, and no user gets those numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_packet_is_not_withheld_again() {
    let mut harness = Harness::new(RedisOptions {
        partitions: 1,
        ..options(crate::redis_faults::harness::shared().url())
    })
    .await;
    let books = crate::redis_faults::terms::Books::new(&harness).await;
    let packet = open_now(red_packet(1_000, 10, SplitRule::Lazy { min: 1 }));
    let target = harness.open(packet).await;
    books.create(&harness.setups[0]).await;
    let (ledger, partition) = (&books.ledger, PartitionId(0));
    let node = &harness.nodes[0];
    let claim = async |users: std::ops::Range<usize>| {
        let mut numbers = Vec::new();
        for n in users {
            let claimed = node.claim(target.one(&name(n))).await.unwrap();
            numbers
                .extend(crate::redis_faults::harness::grant_of(&claimed).map(|grant| grant.number));
        }
        books.settle_all(node).await;
        numbers
    };
    assert_eq!(claim(0..4).await, [1, 2, 3, 4]);

    // A dead node has observed two more entries.
    let prefix = format!("{}:{{p00}}", harness.options.prefix);
    let server = crate::redis_faults::harness::shared().primary();
    let call = |words: &[&str]| blocking(|| server.call(words).unwrap());
    let state = format!("{prefix}:partition");
    let head = node.head(partition).await.unwrap();
    let lost = [head + 1, head + 2].map(|seq| seq.to_string());
    call(&["HSET", &format!("{prefix}:nodes"), "gone", "0 1 0"]);
    call(&["HSET", &state, "lost_from", &lost[0], "lost_to", &lost[1]]);
    call(&["HSET", &state, "halted", "by the test"]);
    call(&["HDEL", &state, "open"]);
    let key = format!("{prefix}:c:{}", target.id);
    let withheld = || {
        let units = call(&["HGET", &key, "withheld"]);
        units
            .text()
            .map_or(0, |units| units.parse::<u32>().unwrap())
    };
    let open = || {
        let open = |node: &RedisEngine| node.state(partition) == PartitionHealth::Open;
        harness.nodes.iter().all(open)
    };
    node.repair(partition, ledger, true).await.unwrap();
    wait_for("the repair", open).await;
    assert_eq!((withheld(), claim(4..5).await), (6, vec![]));
    assert_eq!(node.release_withheld(partition, ledger).await, Ok(4));
    assert_eq!(claim(5..6).await, [7]);

    for (user, number) in [(6, 8), (7, 9), (8, 10)] {
        if user == 7 {
            // Only the ledger knows the packet.
            call(&["DEL", &key, &format!("{key}:users")]);
        }
        node.unite(partition, ledger).await.unwrap();
        wait_for("the repair", open).await;
        assert_eq!((withheld(), claim(user..user + 1).await), (2, vec![number]));
    }
    let recorded = ledger.withheld(partition).await.unwrap();
    let recorded = recorded.iter().flat_map(|record| &record.numbers);
    let recorded: Vec<u32> = recorded.flat_map(|range| range.iter()).collect();
    assert_eq!(recorded, [5, 6]);
    assert!(claim(9..10).await.is_empty());

    let (campaign, action) = (target.id, CampaignAction::Close);
    let closed = node.submit(Command::Act { campaign, action }).await;
    assert!(closed.is_ok(), "{closed:?}");
    books.settle_all(node).await;
    let tally = node.tally(campaign).await.unwrap().unwrap();
    assert!(tally.conserves(), "{tally:?}");
    assert_eq!((tally.supply, tally.granted, tally.returned), (10, 8, 2));
    let record = ledger.campaign(campaign).await.unwrap().unwrap();
    assert_eq!((record.phase, record.returned), (Phase::Closed, 2));
}
