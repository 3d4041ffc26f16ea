//! A repair that breaks off and begins again.

use super::*;

/// A repair breaks off again and again behind a campaign of which it has withheld units: no more are withheld than by
/// one that comes through.
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
    // The other node has observed all entries, and does not know what was in this one's.
    world.repairs.remove(0).abort();
    world.harness.nodes.remove(0).abort();
    world.fail_over();
    let server = world.servers.replica(0);
    let prefix = world.harness.options.prefix.clone();
    let key = |tag: &str, target: &Target| format!("{prefix}:{{{tag}}}:c:{}", target.id);
    let call = |words: &[&str]| blocking(|| server.call(words).unwrap());
    // The last campaign of each partition cannot be read for a while.
    let mut broken = Vec::new();
    for tag in ["p00", "p01"] {
        let mut keys = sales.iter().map(|target| key(tag, target));
        let there = |key: &String| call(&["EXISTS", key]).integer() == Some(1);
        let last = keys.rfind(there).unwrap();
        let kind = call(&["HGET", &last, "kind"]).text().unwrap().to_owned();
        call(&["HSET", &last, "kind", "unreadable"]);
        broken.push((tag, last, kind));
    }
    let withheld = || {
        sales
            .iter()
            .map(|target| world.withheld(*target))
            .sum::<i64>()
    };
    wait_for("the first attempt", || withheld() > 0).await;
    for (tag, ..) in &broken {
        let state = format!("{prefix}:{{{tag}}}:partition");
        let mut repairers = BTreeSet::new();
        wait_for("further attempts", || {
            let repairer = call(&["HGET", &state, "repairer"]);
            repairers.extend(repairer.text().map(str::to_owned));
            repairers.len() > 2
        })
        .await;
    }
    let before = withheld();
    for (_, key, kind) in &broken {
        call(&["HSET", key, "kind", kind]);
    }
    world.repaired(Instant::now()).await;
    let last: i64 = sales
        .iter()
        .filter(|target| {
            broken
                .iter()
                .any(|(_, key, _)| key.ends_with(&target.id.to_string()))
        })
        .map(|target| world.withheld(*target))
        .sum();
    assert_eq!(withheld() - last, before);
    let late = crate::harness::node(&world.harness.options, &[]).await;
    world.harness.nodes.push(late);
    world.check().await;
    world.close().await;
}
