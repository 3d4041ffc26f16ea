//! Reloads of campaigns from a server without memory, from one that refuses writes, and from a slow ledger. Callers get
//! a clear answer, and the campaign is reloaded later.

use std::time::Instant;

use qiang_core::ports::PendingReply;
use qiang_testkit::servers::redis::{Options as ServerOptions, Standalone};

use super::*;
use crate::redis_faults::harness::{INSIST_MAX, Stuck, probe};

/// An ended, evicted sale with paid and cancelled orders, and the server.
async fn left() -> (Standalone, Scene, Target, Vec<Answered>) {
    let with = ServerOptions::new().line("maxmemory-policy noeviction");
    let server = blocking(|| Standalone::start(&with));
    let options = RedisOptions {
        closed_campaign_ttl: Duration::ZERO,
        claim_timeout: Duration::from_secs(1),
        // If no answer comes in time, the call is uncertain, even if a second attempt is refused.
        call_timeout: Duration::from_secs(30),
        ..options(server.url())
    };
    let mut scene = Scene::new(options).await;
    let target = scene.open(sale(STOCK - 1).hold_ms(HOLD_MS)).await;
    let answers = scene.lead(target, true).await;
    let numbers = numbers(&answers);
    let orders = scene.orders(target, &numbers).await;
    scene.settle().await;
    let node = &scene.harness.nodes[0];
    let mut count = 0;
    for partition in node.partitions() {
        let retired = node.retire(partition, &*scene.ledger).await;
        count += retired.unwrap().campaigns;
    }
    assert_eq!(count, 1);
    assert_eq!(scene.keys_of(server.primary(), target), [""; 0]);
    let paid = replayed(&answers, &orders);
    (server, scene, target, paid)
}

fn config(server: &Standalone, name: &str, value: &str) {
    let words = ["CONFIG", "SET", name, value];
    blocking(|| server.primary().call(&words).unwrap());
}

fn is_unavailable<T: std::fmt::Debug>(answer: &Result<T, EngineError>) {
    let is_503 = matches!(
        answer,
        Err(EngineError::Unavailable { .. } | EngineError::Overloaded)
    );
    assert!(is_503, "{answer:?}");
}

/// At `maxmemory`, no unit is granted. The ledger answers claims and reads of an evicted campaign. A late payment
/// reloads it, and is recorded as a refund due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_owed_comes_back_into_a_server_without_room() {
    let (server, mut scene, target, paid) = left().await;
    let other = scene.open(sale(5)).await;
    config(&server, "maxmemory", "1");
    let node = &scene.harness.nodes[1];
    let refused = node.claim(other.one("ann")).await;
    assert_eq!(refused, Err(EngineError::Overloaded));
    let number = paid[0].1.outcome.grant().unwrap().number;
    let are_answered = async || {
        let late = node.claim(target.one("late")).await;
        assert_eq!(late.unwrap().outcome, Outcome::Ended);
        scene.harness.replay(&paid).await;
        assert_eq!(scene.tally(target).await.phase, Phase::Closed);
        let read = node.order(target.order(number)).await;
        assert!(matches!(read, Ok(Some(_))), "{read:?}");
    };
    are_answered().await;
    assert_eq!(scene.keys_of(server.primary(), target), [""; 0]);

    let again = scene.command(1, pay(target, number, "first")).await;
    assert!(
        matches!(again, Ok(Reply::Payment(PaymentOutcome::Paid, _))),
        "{again:?}"
    );
    assert!(!scene.keys_of(server.primary(), target).is_empty());
    are_answered().await;
    let late = node.claim(target.one("late")).await;
    assert_eq!(late.unwrap().outcome, Outcome::Ended);
    let again = scene.command(0, pay(target, number, "second")).await;
    let is_owed = matches!(again, Ok(Reply::Payment(PaymentOutcome::RefundDue, _)));
    assert!(is_owed, "{again:?}");
    config(&server, "maxmemory", "0");
    let granted = scene.harness.nodes[0].claim(other.one("ann")).await;
    assert!(matches!(granted.unwrap().outcome, Outcome::Granted(_)));
    scene.settle().await;
}

/// Calls that must be answered have a budget in bytes beyond `maxmemory`. When it is used up, they are answered once
/// there is memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn campaigns_come_back_beyond_maxmemory_within_a_budget() {
    let (server, scene, target, paid) = left().await;
    config(&server, "maxmemory", "1");
    let node = &scene.harness.nodes[1];
    let number = paid[0].1.outcome.grant().unwrap().number;
    let again = async || node.submit(pay(target, number, "first")).await;
    assert!(again().await.is_ok());
    // The campaign's partition has counted the bytes.
    let key = scene.key(node.home_position(target.id).0, "partition");
    let recalled = |words: &[&str]| blocking(|| server.primary().call(words).unwrap());
    let counted = recalled(&["HGET", &key, "recalled"]);
    assert!(
        counted.text().is_some_and(|bytes| bytes != "0"),
        "{counted:?}"
    );
    for id in node.partitions() {
        node.retire(id, &*scene.ledger).await.unwrap();
    }
    assert_eq!(scene.keys_of(server.primary(), target), [""; 0]);

    config(&server, "maxmemory", "0");
    recalled(&["HSET", &key, "recalled", "33554432"]);
    config(&server, "maxmemory", "1");
    assert_eq!(again().await, Err(EngineError::Overloaded));
    assert_eq!(scene.keys_of(server.primary(), target), [""; 0]);
    config(&server, "maxmemory", "0");
    assert!(again().await.is_ok());
    comes_back(&scene, node, target, &paid).await;
}

/// Reloads have a budget in bytes below `maxmemory` too. When it is used up, payments are refused as overload until it
/// is full again. Claims and reads need none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_have_a_budget() {
    let (server, scene, target, paid) = left().await;
    let node = &scene.harness.nodes[1];
    let number = paid[0].1.outcome.grant().unwrap().number;
    let key = scene.key(node.home_position(target.id).0, "partition");
    let call = |words: &[&str]| blocking(|| server.primary().call(words).unwrap());
    let now = call(&["TIME"]).array()[0].text().unwrap().to_owned();
    let now_ms = format!("{now}000");
    call(&[
        "HSET",
        &key,
        "reloaded",
        "134217728",
        "reloaded_since",
        &now_ms,
    ]);
    let again = async || node.submit(pay(target, number, "first")).await;
    assert_eq!(again().await, Err(EngineError::ReloadBudgetUsed));
    assert_eq!(scene.keys_of(server.primary(), target), [""; 0]);
    scene.harness.replay(&paid).await;
    assert_eq!(scene.tally(target).await.phase, Phase::Closed);

    let before_ms = format!("{}000", now.parse::<u64>().unwrap() - 601);
    call(&["HSET", &key, "reloaded_since", &before_ms]);
    assert!(again().await.is_ok());
    let counted = call(&["HGET", &key, "reloaded"]);
    let bytes: u64 = counted.text().unwrap().parse().unwrap();
    assert!((1..134_217_728).contains(&bytes), "{bytes}");
}

/// A server that refuses all writes reloads nothing. Callers may retry, and no retry finds partial data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_is_asked_again_later() {
    let (server, scene, target, paid) = left().await;
    config(&server, "min-replicas-to-write", "1");
    let node = &scene.harness.nodes[0];
    let claims: Vec<PendingReply<_>> = paid
        .iter()
        .map(|(claim, _)| node.claim(claim.clone()))
        .collect();
    is_unavailable(&node.tally(target.id).await);
    is_unavailable(&node.order(target.order(1)).await);
    for claim in claims {
        is_unavailable(&claim.await);
    }
    config(&server, "min-replicas-to-write", "0");
    all_hear(&scene).await;
    comes_back(&scene, node, target, &paid).await;
}

/// After a refused call, each node gives up its partitions for a second, until the next presence call succeeds. Waits
/// for that.
async fn all_hear(scene: &Scene) {
    for node in &scene.harness.nodes {
        let until = Instant::now() + INSIST_MAX;
        while let Err(error) = probe(node).await {
            assert!(Instant::now() < until, "{error:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn comes_back(scene: &Scene, node: &RedisEngine, target: Target, paid: &[Answered]) {
    let until = Instant::now() + INSIST_MAX;
    while node.claim(paid[0].0.clone()).await.is_err() {
        assert!(
            Instant::now() < until,
            "the campaign is not reloaded in time"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    scene.harness.replay(paid).await;
    assert_eq!(scene.tally(target).await.phase, Phase::Closed);
}

/// The ledger is slower than any caller's time limit. Callers get an error in time, and find the campaign later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_long_and_the_campaign_comes_back() {
    let (_server, scene, target, paid) = left().await;
    let mut stuck = Stuck::new();
    let node = stuck.node(&scene.harness.options).await;
    node.recall_from(scene.ledger.clone());
    let (tally, order) = (node.tally(target.id), node.order(target.order(1)));
    let claim = node.claim(paid[0].0.clone());
    let late = [tally.await.err(), order.await.err(), claim.await.err()];
    for error in late {
        let Some(EngineError::Unavailable { reason }) = error else {
            panic!("{error:?}");
        };
        assert!(reason.contains("has not said in time"), "{reason}");
    }
    stuck.go_on();
    comes_back(&scene, &node, target, &paid).await;
    node.close().await;
}
