//! Evictions after the retention time, shard by shard for spread campaigns. Due work of a remaining shard is done.

use qiang_core::{id::CampaignId, ports::ReconcileStore as _, time::Timestamp};
use qiang_testkit::campaign::id;

use super::*;
use crate::redis_faults::harness::node;

/// More events per tick than are due.
const EVENTS_MAX: usize = 1_000;
/// One campaign more than one round of a tick handles.
const UNKNOWN: u64 = 65;

/// A closed, spread sale with one held order in its second shard, and the order's number.
async fn held_in_the_other(scene: &mut Scene) -> (Target, u32) {
    let target = scene.open(sale(STOCK).hold_ms(HOLD_MS)).await;
    let mut held = None;
    for n in 0.. {
        let claim = vec![target.one(&name(n))];
        let number = numbers(&scene.harness.ask_all(claim).await)[0];
        // The first shard numbers its orders 1, 3, 5 and so on.
        if number.is_multiple_of(2) {
            held = Some(number);
            break;
        }
        scene.command(0, cancel(target, number)).await.unwrap();
    }
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    (target, held.unwrap())
}

/// A scene with a clock that the test sets.
async fn by_hand() -> (Scene, Arc<ManualClock>) {
    let clock = ManualClock::new(OPENS);
    let options = RedisOptions {
        clock: Some(clock.clone()),
        ..here()
    };
    (Scene::new(options).await, clock)
}

async fn tick(scene: &Scene) {
    let events_max = EVENTS_MAX;
    scene
        .command(0, Command::Tick { events_max })
        .await
        .unwrap();
}

/// The first shard is evicted last. If it is missing anyway, a node without knowledge of the campaign still expires a
/// hold of the other shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_runs_out_when_the_first_part_has_left() {
    let (mut scene, clock) = by_hand().await;
    let (target, number) = held_in_the_other(&mut scene).await;
    let [home, other] = scene.home_and_other(target);
    assert_eq!(scene.retire(0).await, 0, "the other shard is still here");
    assert!(
        scene.harness.nodes[0]
            .has_part(target.id, home)
            .await
            .unwrap()
    );

    // The state after an eviction before the reload of the other shard.
    let own = scene.key(home, "");
    for key in scene.keys_of(shared().primary(), target) {
        if key.starts_with(&own) {
            blocking(|| shared().primary().call(&["UNLINK", &key]).unwrap());
        }
    }
    assert!(
        scene.harness.nodes[0]
            .has_part(target.id, other)
            .await
            .unwrap()
    );
    for node in &scene.harness.nodes {
        node.abort();
    }
    scene.harness.nodes = vec![node(&scene.harness.options, &[]).await];
    scene.harness.nodes[0].recall_from(scene.ledger.clone());
    clock.advance(2 * HOLD_MS);
    tick(&scene).await;
    scene.settle().await;
    let rows = scene.ledger.settled_rows(target.id, number - 1, 1).await;
    assert_eq!(rows.unwrap()[0].state, OrderState::Expired);
    scene.look_again(shared().primary(), target);
    assert_eq!(scene.retire(0).await, 2);
}

/// Shards of unknown campaigns, such as those still being opened, block no other campaign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_knows_holds_up_no_other_campaign() {
    let (mut scene, clock) = by_hand().await;
    let ends_ms = 60_000;
    let builder = sale(5).window(OPENS, ends_ms);
    let setup = builder.setup(1);
    scene.ledger.create(&setup).await.unwrap();
    let target = scene.harness.open(builder).await;
    let [home, _] = scene.home_and_other(target);
    let agenda = scene.key(home, "agenda");
    for n in 0..UNKNOWN {
        let unknown: CampaignId = id(1_000 + n);
        let words = ["ZADD", &agenda, "1", &unknown.to_string()];
        blocking(|| shared().primary().call(&words).unwrap());
    }
    clock.set(Timestamp::from_millis(OPENS.as_millis() + ends_ms));
    tick(&scene).await;
    assert_eq!(scene.tally(target).await.phase, Phase::Closed);
}

/// A node changed a sale's terms and died before the other shard, which has closed and was evicted since, got them. A
/// tick updates that shard, so that the first one is not kept for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_has_left_follows_the_terms_of_the_first() {
    let (mut scene, _clock) = by_hand().await;
    let target = scene.open(sale(STOCK)).await;
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    let [home, other] = scene.home_and_other(target);
    let node = &scene.harness.nodes[0];
    let retired = node.retire(other, &*scene.ledger).await.unwrap();
    assert_eq!(retired.campaigns, 1);
    let (hash, id) = (
        scene.key(home, &format!("c:{}", target.id)),
        target.id.to_string(),
    );
    blocking(|| {
        let server = shared().primary();
        server.call(&["HSET", &hash, "behind", "1"]).unwrap();
        let agenda = scene.key(home, "agenda");
        server.call(&["ZADD", &agenda, "1", &id]).unwrap();
    });
    tick(&scene).await;
    let behind = blocking(|| shared().primary().call(&["HGET", &hash, "behind"]).unwrap());
    assert_eq!(behind.text(), Some("0"));
    assert_eq!(scene.retire(0).await, 2);
}

/// A campaign stays for the retention time after its close, and for ten minutes after a reload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_closed_is_kept_for_a_while() {
    const MINUTE_MS: i64 = 60_000;
    let clock = ManualClock::new(OPENS);
    let closed_campaign_ttl = Duration::from_secs(3_600);
    let options = RedisOptions {
        closed_campaign_ttl,
        clock: Some(clock.clone()),
        ..here()
    };
    let mut scene = Scene::new(options).await;
    let target = scene.open(sale(5)).await;
    scene.harness.ask_all(vec![target.one("ann")]).await;
    scene.command(0, pay(target, 1, "first")).await.unwrap();
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    let kept_ms = closed_campaign_ttl.as_millis() as i64;
    for (after_ms, left) in [(0, 0), (kept_ms - MINUTE_MS, 0), (MINUTE_MS, 1)] {
        clock.advance(after_ms);
        assert_eq!(scene.retire(0).await, left, "{after_ms} ms later");
    }
    scene.command(0, pay(target, 1, "first")).await.unwrap();
    for (after_ms, left) in [(0, 0), (9 * MINUTE_MS, 0), (MINUTE_MS, 1)] {
        clock.advance(after_ms);
        assert_eq!(scene.retire(0).await, left, "{after_ms} ms later");
    }
}
