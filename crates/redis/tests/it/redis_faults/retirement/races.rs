//! Evictions during requests for the same campaigns, deaths of nodes in between, and failures of servers.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use qiang_core::ports::{Ledger, ReconcileStore as _, RepairEngine, RepairState};
use qiang_redis::PartitionHealth;
use qiang_testkit::servers::redis::{Options as ServerOptions, Standalone};
use qiang_worker::{
    host::Host,
    repair::{self, RepairMode},
};

use super::*;
use crate::redis_faults::harness::{detach_replicas, wait_for};

const RACE: Duration = Duration::from_secs(3);

/// Key with this suffix, of a campaign that is not spread.
fn key_of(scene: &Scene, target: Target, rest: &str) -> String {
    let keys = scene.keys_of(shared().primary(), target);
    let hash = keys.iter().min_by_key(|key| key.len()).unwrap();
    format!("{hash}{rest}")
}

fn call(words: &[&str]) {
    blocking(|| shared().primary().call(words).unwrap());
}

/// Two processes evict campaigns as fast as they can, while users of both nodes claim and payments are reported. Every
/// user gets the same grant, and each payment becomes a refund due once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_ask_while_campaigns_leave() {
    let mut scene = Scene::new(here()).await;
    let packet = scene
        .open(red_packet(
            10_000,
            STOCK,
            SplitRule::DoubleAverage { min: 1 },
        ))
        .await;
    let sale = scene.open(sale(STOCK - 1).hold_ms(HOLD_MS)).await;
    let shares = scene.lead(packet, false).await;
    let orders = scene.lead(sale, true).await;
    scene.settle().await;
    let (stop, scene) = (AtomicBool::new(false), &scene);
    let running = || !stop.load(Ordering::Relaxed);
    let retiring = async |node: usize| {
        let mut left = 0;
        while running() {
            left += scene.retire(node).await;
            tokio::task::yield_now().await;
        }
        left
    };
    let settling = async || {
        while running() {
            scene.settle().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let asking = async || {
        let (began, mut rounds) = (Instant::now(), 0);
        while began.elapsed() < RACE {
            scene.harness.replay(&shares).await;
            for number in numbers(&orders) {
                let late = format!("late-{rounds}");
                let paid = scene.command(rounds % 2, pay(sale, number, &late)).await;
                let is_owed = matches!(paid, Ok(Reply::Payment(PaymentOutcome::RefundDue, _)));
                assert!(is_owed, "{paid:?}");
            }
            rounds += 1;
            // Else the next payments would keep the sale in Redis.
            let until = Instant::now() + RACE;
            while Instant::now() < until && !scene.keys_of(shared().primary(), sale).is_empty() {
                scene.look_again(shared().primary(), sale);
                tokio::task::yield_now().await;
            }
        }
        stop.store(true, Ordering::Relaxed);
        rounds
    };
    let (left, others, (), rounds) = tokio::join!(retiring(0), retiring(1), settling(), asking());
    assert!(left + others > 4, "campaigns left {} times", left + others);
    scene.settle().await;
    for number in numbers(&orders) {
        let order = scene.order(sale, number).await.grant.order.unwrap();
        assert_eq!(order.refunds_due as usize, rounds, "order {number}");
        let settled = scene
            .ledger
            .settled_payments(sale.id, number - 1, number)
            .await;
        let first = usize::from(order.state == OrderState::Paid);
        assert_eq!(settled.unwrap().len(), rounds + first);
    }
    scene.harness.audit().await;
}

/// A node dies during a reload. The next node completes its data, or the data is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_leaves_half_brought_back_counts_for_nothing() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(5)).await;
    let claims = ["ann", "bob"].map(|user| target.one(user));
    let answers = scene.harness.ask_all(claims.into()).await;
    let numbers = numbers(&answers);
    for number in &numbers {
        let paid = scene.command(0, pay(target, *number, "first")).await;
        paid.unwrap();
    }
    scene.command(0, close(target)).await.unwrap();
    let orders = scene.orders(target, &numbers).await;
    let answers = replayed(&answers, &orders);
    scene.settle().await;
    let reload = async || {
        let again = scene.command(0, pay(target, numbers[0], "first")).await;
        assert!(again.is_ok(), "{again:?}");
    };
    let users = key_of(&scene, target, ":users");
    let row = blocking(|| shared().primary().call(&["HGET", &users, "ann"]).unwrap());
    let row = row.text().unwrap().to_owned();
    assert_eq!(scene.retire(0).await, 1);

    // One row of two is there, and the next reload writes both.
    call(&["HSET", &users, "ann", &row]);
    reload().await;
    scene.harness.replay(&answers).await;
    assert_eq!(scene.retire(0).await, 1);

    // A row that the ledger does not have is not used, and is deleted before the campaign is reloaded.
    call(&["HSET", &users, "eve", &row]);
    let eve = scene.harness.nodes[1].claim(target.one("eve")).await;
    assert_eq!(eve.unwrap().outcome, Outcome::Ended);
    reload().await;
    let eve = scene.harness.nodes[1].claim(target.one("eve")).await;
    assert_eq!(eve.unwrap().outcome, Outcome::Ended);
    scene.harness.replay(&answers).await;
    // Without the campaign, the row is deleted later.
    assert_eq!(scene.retire(1).await, 1);
    call(&["HSET", &users, "eve", &row]);
    let id = target.id.to_string();
    let [home, _] = scene.home_and_other(target);
    call(&["ZADD", &scene.key(home, "closed"), "0", &id]);
    assert_eq!(scene.retire(1).await, 1);
    assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
}

/// A ledger that was set back lacks a part of an evicted campaign. The campaign is neither reloaded nor opened from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_behind_is_not_believed() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(5)).await;
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 1);
    let prefix = &scene.harness.options.prefix;
    for tag in ["p00", "p01"] {
        let key = format!("{prefix}:{{{tag}}}:partition");
        call(&[
            "HSET",
            &key,
            "left",
            "1000",
            "left_created",
            "9000000000000",
        ]);
    }
    let asked = scene.harness.nodes[1].claim(target.one("ann")).await;
    assert!(
        matches!(asked, Err(EngineError::Unavailable { .. })),
        "{asked:?}"
    );
    let builder = open_now(sale(5));
    let draft = builder.setup(7);
    scene.ledger.create(&draft).await.unwrap();
    let opened = scene
        .command(0, Command::Open(Box::new(draft.clone())))
        .await;
    assert!(
        matches!(opened, Err(EngineError::Unavailable { .. })),
        "{opened:?}"
    );
    for tag in ["p00", "p01"] {
        let key = format!("{prefix}:{{{tag}}}:partition");
        call(&["HSET", &key, "left", "0"]);
    }
    let opened = scene.command(0, Command::Open(Box::new(draft))).await;
    assert_eq!(opened, Ok(Reply::Opened));
    let asked = scene.harness.nodes[1].claim(target.one("ann")).await;
    assert_eq!(asked.unwrap().outcome, Outcome::Ended);
}

/// A shard of a spread campaign is repaired after the other one was evicted. The evicted shard is reloaded and not
/// treated as never opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_repaired_when_the_other_one_has_left() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(STOCK).hold_ms(HOLD_MS)).await;
    let answers = scene.lead(target, true).await;
    let tally = scene.tally(target).await;
    let orders = scene.orders(target, &numbers(&answers)).await;
    scene.settle().await;
    let [lost, gone] = scene.home_and_other(target);
    let node = &scene.harness.nodes[0];
    assert_eq!(
        node.retire(gone, &*scene.ledger).await.unwrap().campaigns,
        1
    );
    let agenda = scene.key(lost, "agenda");
    // Simulates a failover that lost the close. The shard must not be due, or a tick would remove it.
    call(&["ZADD", &agenda, "9000000000000", &target.id.to_string()]);
    let united = node.unite(lost, &*scene.ledger).await.unwrap();
    assert!(matches!(united, RepairState::Repaired(_)), "{united:?}");
    assert!(node.has_part(target.id, gone).await.unwrap());
    // The other node may have noticed the halt, and checks the state from time to time.
    let is_open = || scene.harness.nodes[1].state(lost) == PartitionHealth::Open;
    wait_for("the other node", is_open).await;
    scene.settle().await;
    assert_eq!(scene.tally(target).await, tally);
    assert_eq!(scene.orders(target, &numbers(&answers)).await, orders);
}

/// A failover loses an eviction, so the campaign is in memory as before. A failover loses a reload and later changes,
/// and that is repaired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_loses_what_left_and_what_came_back() {
    for has_come_back in [false, true] {
        let servers = blocking(|| Standalone::start(&ServerOptions::new().replicas(1)));
        let options = RedisOptions {
            urls: vec![servers.url(), servers.replica(0).url()],
            closed_campaign_ttl: Duration::ZERO,
            ..options(String::new())
        };
        let mut scene = Scene::new(options).await;
        let target = scene.open(sale(STOCK - 1).hold_ms(HOLD_MS)).await;
        let answers = scene.lead(target, true).await;
        let granted = numbers(&answers);
        scene.settle().await;
        let repairs = scene.harness.nodes.iter();
        let repairs: Vec<_> = repairs.map(|node| repairing(node, &scene)).collect();
        if has_come_back {
            assert_eq!(scene.retire(0).await, 1);
        }
        blocking(|| servers.wait_for_replicas());
        detach_replicas(servers.primary());
        if has_come_back {
            let paid = scene.command(0, pay(target, granted[0], "late")).await;
            assert!(paid.is_ok(), "{paid:?}");
            scene.settle().await;
        } else {
            assert_eq!(scene.retire(0).await, 1);
        }
        blocking(|| {
            servers.kill();
            servers
                .replica(0)
                .call(&["REPLICAOF", "NO", "ONE"])
                .unwrap();
        });
        let owed = u32::from(has_come_back);
        let until = Instant::now() + Duration::from_secs(30);
        for node in &scene.harness.nodes {
            let is_repaired = async || {
                let order = node.order(target.order(granted[0])).await.ok()??;
                Some(order.grant.order?.refunds_due == owed)
            };
            while is_repaired().await != Some(true) {
                assert!(Instant::now() < until, "the loss is not repaired in time");
            }
        }
        let orders = scene.orders(target, &granted).await;
        scene.harness.replay(&replayed(&answers, &orders)).await;
        let again = scene.command(1, pay(target, granted[0], "late")).await;
        assert!(
            matches!(&again, Ok(Reply::Payment(PaymentOutcome::RefundDue, view))
                if view.grant.order.unwrap().refunds_due == 1),
            "{again:?}"
        );
        scene.settle().await;
        // Data written by a repair is checked twice.
        let first = scene.retire(1).await;
        scene.look_again(servers.replica(0), target);
        assert_eq!(first + scene.retire(1).await, 1);
        for host in repairs {
            host.abort();
        }
    }
}

fn repairing(node: &RedisEngine, scene: &Scene) -> Host {
    let host = Host::new("repair");
    let engine: Arc<dyn RepairEngine> = Arc::new(node.clone());
    let ledger: Arc<dyn Ledger> = scene.ledger.clone();
    repair::start_all(&host, &engine, &ledger, RepairMode::Automatic);
    host
}
