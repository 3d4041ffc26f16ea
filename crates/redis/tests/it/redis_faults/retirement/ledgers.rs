//! Ledgers that lack a part of an evicted campaign, or cannot read it. No caller gets a definite answer from them, and
//! no unit is granted again.

use qiang_core::{
    event::Seq,
    ports::{RepairEngine as _, RepairState, SettlementStore as _},
    time::Timestamp,
};
use qiang_redis::PartitionHealth;

use super::*;
use crate::redis_faults::harness::{Stuck, node, wait_for};

/// Creation time of campaigns, before the present of any clock.
const LONG_AGO: Timestamp = Timestamp::from_millis(1_577_836_800_000);
/// More milliseconds than in an hour, fewer than in a day.
const HOURS_MS: i64 = 20 * 3_600_000;

fn call(words: &[&str]) {
    blocking(|| shared().primary().call(words).unwrap());
}

/// A sale of one shard, ended and evicted.
async fn left(scene: &mut Scene) -> Target {
    let target = scene.open(sale(5)).await;
    let answers = scene.harness.ask_all(vec![target.one("ann")]).await;
    let number = numbers(&answers)[0];
    scene
        .command(0, pay(target, number, "first"))
        .await
        .unwrap();
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 1);
    target
}

/// A node that reloads campaigns from another ledger.
async fn reading(scene: &Scene, ledger: &Arc<SqliteLedger>) -> RedisEngine {
    let node = node(&scene.harness.options, &[]).await;
    node.recall_from(ledger.clone());
    node
}

fn is_lacking<T: std::fmt::Debug>(answer: Result<T, EngineError>) {
    let said = answer.as_ref().err().map(ToString::to_string);
    let is_lacking = said.is_some_and(|said| said.contains("does not have all of it"));
    assert!(is_lacking, "{answer:?}");
}

/// Simulates a loss of a partition: the record names one, but no entry is lost.
async fn lose(scene: &Scene, partition: PartitionId) {
    let key = scene.key(partition, "partition");
    let seq = blocking(|| shared().primary().call(&["HGET", &key, "seq"]).unwrap());
    let seq: Seq = seq.text().unwrap().parse().unwrap();
    let (from, to) = ((seq + 1).to_string(), seq.to_string());
    let fields = ["halted", "a loss", "lost_from", &from, "lost_to", &to];
    call(&[&["HSET", &key][..], &fields].concat());
    call(&["HDEL", &key, "open"]);
    for node in &scene.harness.nodes {
        wait_for("the halt", || {
            matches!(node.state(partition), PartitionHealth::Halted { .. })
        })
        .await;
    }
}

/// A ledger was set back to before a campaign was sold, closed and evicted, and the log does not reach back that far.
/// Then a loss is repaired automatically. The campaign is not opened again from such a ledger, unless an operator
/// requests it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_by_itself_opens_nothing_that_has_left() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(5)).await;
    let old = scene.ledger_as_of_now("old.db").await;
    let users = ["ann", "bob", "cec", "dan", "eve"].map(|user| target.one(user));
    let answers = scene.harness.ask_all(users.into()).await;
    for number in numbers(&answers) {
        scene
            .command(0, pay(target, number, "first"))
            .await
            .unwrap();
    }
    scene.command(0, close(target)).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 1);
    let [home, _] = scene.home_and_other(target);
    call(&["XTRIM", &scene.key(home, "log"), "MAXLEN", "0"]);
    let position = old.settled(home).await.unwrap();
    lose(&scene, home).await;
    let node = &scene.harness.nodes[0];
    let refused = loop {
        match node.repair(home, &*old, false).await {
            // The nodes have not offered their answers yet.
            Ok(RepairState::Waiting) => tokio::time::sleep(Duration::from_millis(20)).await,
            repaired => break repaired,
        }
    };
    let said = refused.as_ref().err().map(ToString::to_string);
    assert!(
        said.is_some_and(|said| said.contains("restore a later ledger")),
        "{refused:?}"
    );
    assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
    assert_eq!(old.settled(home).await.unwrap(), position);
    let repaired = node.repair(home, &*old, true).await;
    assert!(
        matches!(repaired, Ok(RepairState::Repaired(_))),
        "{repaired:?}"
    );
    assert!(node.has_part(target.id, home).await.unwrap());
}

/// Redis was set back to before a campaign was created, and the loss is repaired or accepted. Before the loss, the
/// campaign was sold, closed and evicted. A node that has read it as a draft does not open it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_had_left_in_what_is_lost_is_not_opened_again() {
    for is_repaired in [true, false] {
        let mut scene = Scene::new(here()).await;
        let mut setup = open_now(sale(5)).setup(1);
        setup.campaign.created_at = LONG_AGO;
        scene.ledger.create(&setup).await.unwrap();
        let open = Command::Open(Box::new(setup.clone()));
        scene.command(0, open.clone()).await.unwrap();
        let target = Target::of(&setup);
        scene.harness.setups.push(setup);
        scene.command(0, close(target)).await.unwrap();
        scene.settle().await;
        assert_eq!(scene.retire(0).await, 1);
        let [home, _] = scene.home_and_other(target);
        call(&[
            "HDEL",
            &scene.key(home, "partition"),
            "left",
            "left_created",
        ]);
        let node = &scene.harness.nodes[0];
        if is_repaired {
            let united = node.unite(home, &*scene.ledger).await;
            assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
        } else {
            node.halt(home, "by hand").await.unwrap();
            assert_eq!(node.resume_as_it_is(home, &*scene.ledger).await, Ok(true));
        }
        for node in &scene.harness.nodes {
            wait_for("the end of the halt", || {
                node.state(home) == PartitionHealth::Open
            })
            .await;
        }
        let opened = scene.command(1, open).await;
        assert_eq!(opened, Ok(Reply::Opened));
        assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
        let late = scene.harness.nodes[0].claim(target.one("late")).await;
        assert_eq!(late.unwrap().outcome, Outcome::Ended);
    }
}

/// A node has read the ledger and is delayed. Another node reloads the campaign and records a refund due, and Redis
/// then loses both. The delayed node's data is not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_read_before_a_loss_is_not_brought_back_behind_it() {
    let mut scene = Scene::new(here()).await;
    let target = left(&mut scene).await;
    let old = scene.ledger_as_of_now("old.db").await;
    scene.command(0, pay(target, 1, "late")).await.unwrap();
    scene.settle().await;
    let [home, _] = scene.home_and_other(target);
    for key in scene.keys_of(shared().primary(), target) {
        call(&["UNLINK", &key]);
    }
    let united = scene.harness.nodes[0].unite(home, &*scene.ledger).await;
    assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
    let late = reading(&scene, &old).await;
    is_lacking(late.order(target.order(1)).await);
    let order = scene.order(target, 1).await.grant.order.unwrap();
    assert_eq!(order.refunds_due, 1);
}

/// A ledger was set back to before the close. It answers neither that the campaign does not exist nor that it has
/// ended. A spread campaign may have left only one of its partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_a_ledger_from_before_the_close_nothing_is_said() {
    for stock in [STOCK - 1, STOCK] {
        let mut scene = Scene::new(here()).await;
        let target = scene.open(sale(stock).hold_ms(HOLD_MS)).await;
        let claims = (0..USERS).map(|n| target.one(&name(n)));
        let answers = scene.harness.ask_all(claims.collect()).await;
        for number in numbers(&answers) {
            scene
                .command(0, pay(target, number, "first"))
                .await
                .unwrap();
        }
        let old = scene.ledger_as_of_now("old.db").await;
        scene.command(0, close(target)).await.unwrap();
        scene.settle().await;
        let [home, other] = scene.home_and_other(target);
        let leaves = if stock == STOCK { other } else { home };
        let node = &scene.harness.nodes[0];
        let retired = node.retire(leaves, &*scene.ledger).await.unwrap();
        assert_eq!(retired.campaigns, 1);
        // Shards number their orders in turn.
        let is_there = |number: u32| stock != STOCK || number.is_multiple_of(2);
        let gone = answers.iter().find(|(_, claimed)| {
            let grant = claimed.outcome.grant();
            grant.is_some_and(|grant| is_there(grant.number))
        });
        let (claim, claimed) = gone.unwrap();
        let number = claimed.outcome.grant().unwrap().number;
        let late = reading(&scene, &old).await;
        is_lacking(late.order(target.order(number)).await);
        is_lacking(late.submit(pay(target, number, "second")).await);
        is_lacking(late.submit(cancel(target, number)).await);
        is_lacking(late.claim(claim.clone()).await);
        // With the other ledger, all answers are as before.
        let again = scene.harness.nodes[1].claim(claim.clone()).await.unwrap();
        assert_eq!(again.outcome.grant().unwrap().number, number);
    }
}

/// A shard is repaired after the other one was evicted. In a ledger from before the close, the evicted shard was never
/// opened and would still have all its units. The repair does not treat it that way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_has_left_is_not_taken_for_a_draft_by_a_repair() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(STOCK).hold_ms(HOLD_MS)).await;
    let old = scene.ledger_as_of_now("old.db").await;
    scene.lead(target, true).await;
    scene.settle().await;
    let [home, other] = scene.home_and_other(target);
    let node = &scene.harness.nodes[0];
    let retired = node.retire(other, &*scene.ledger).await.unwrap();
    assert_eq!(retired.campaigns, 1);
    is_lacking(node.unite(home, &*old).await);
    let united = node.repair(home, &*scene.ledger, true).await;
    assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
}

/// A campaign is evicted after the ledger has settled many later entries of others. A node that read the ledger before
/// those is still accepted, because its data of the campaign was complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_left_turns_back_nobody_who_has_read_all_of_it() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(5)).await;
    let [home, _] = scene.home_and_other(target);
    let other = loop {
        let other = scene.open(sale(5)).await;
        if scene.home_and_other(other)[0] == home {
            break other;
        }
    };
    scene.harness.ask_all(vec![target.one("ann")]).await;
    scene.command(0, pay(target, 1, "first")).await.unwrap();
    scene.command(0, close(target)).await.unwrap();
    let old = scene.ledger_as_of_now("old.db").await;
    scene.harness.ask_all(vec![other.one("bob")]).await;
    scene.settle().await;
    let field = |rest: &str, name: &str| -> Option<Seq> {
        let key = scene.key(home, rest);
        let field = blocking(|| shared().primary().call(&["HGET", &key, name]).unwrap());
        field.text().map(|field| field.parse().unwrap())
    };
    let last = field(&format!("c:{}", target.id), "touched");
    assert_eq!(last, Some(old.settled(home).await.unwrap()));
    assert!(last < Some(scene.ledger.settled(home).await.unwrap()));
    assert_eq!(scene.retire(0).await, 1);
    assert_eq!(field("partition", "left"), last);
    let late = reading(&scene, &old).await;
    let order = late.order(target.order(1)).await.unwrap().unwrap();
    assert_eq!(order.grant.order.unwrap().state, OrderState::Paid);
}

/// A spread sale is evicted, and a ledger has all of its first shard and nothing of the other one. It does not answer
/// that the sale does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_a_ledger_that_lacks_another_part_nothing_is_said() {
    let mut scene = Scene::new(here()).await;
    let target = scene.open(sale(STOCK).hold_ms(HOLD_MS)).await;
    scene.lead(target, true).await;
    let [home, _] = scene.home_and_other(target);
    let behind = new_ledger(&scene.path("behind.db")).await;
    for setup in &scene.harness.setups {
        behind.create(setup).await.unwrap();
    }
    settle(&scene.harness.nodes[0], &behind, home).await;
    scene.settle().await;
    assert_eq!(scene.retire(0).await, 2);
    let late = reading(&scene, &behind).await;
    is_lacking(late.order(target.order(1)).await);
    is_lacking(late.claim(target.one("late")).await);
}

/// The engine closes while a ledger does not answer. Callers that wait for a campaign get an error at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_ledger_when_the_engine_closes() {
    const AT_ONCE: Duration = Duration::from_secs(3);
    let mut scene = Scene::new(here()).await;
    let target = left(&mut scene).await;
    let stuck = Stuck::new();
    let node = stuck.node(&scene.harness.options).await;
    node.recall_from(scene.ledger.clone());
    assert!(scene.harness.options.claim_timeout > 2 * AT_ONCE);
    let claim = node.claim(target.one("ann"));
    let mut order = node.order(target.order(1));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut order).await;
    assert!(early.is_err(), "the ledger must not answer: {early:?}");
    let told = async {
        node.close().await;
        (claim.await, order.await)
    };
    let (claimed, found) = tokio::time::timeout(AT_ONCE, told).await.unwrap();
    assert_eq!(claimed, Err(EngineError::Stopping));
    assert_eq!(found, Err(EngineError::Stopping));
}

/// An unreadable campaign does not prevent the eviction of others, and is checked again much later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_that_cannot_be_read_holds_up_no_other() {
    let mut scene = Scene::new(here()).await;
    let mut targets = Vec::new();
    // There are some in each partition, and the unreadable one is checked first in its own.
    for _ in 0..6 {
        let target = scene.open(sale(5)).await;
        scene.command(0, close(target)).await.unwrap();
        targets.push(target);
    }
    let node = &scene.harness.nodes[0];
    for partition in node.partitions() {
        let retired = node.retire(partition, &*scene.ledger).await.unwrap();
        assert_eq!(retired.campaigns, 0, "the campaigns are not settled");
    }
    scene.settle().await;
    let bad = targets[0];
    let [home, _] = scene.home_and_other(bad);
    let is_beside = |other: &Target| scene.home_and_other(*other)[0] == home;
    assert!(targets[1..].iter().any(is_beside));
    let file = rusqlite::Connection::open(scene.path("ledger.db")).unwrap();
    let changed = file.execute(
        "UPDATE campaigns SET currency = '?' WHERE id = ?1",
        [bad.id.to_string()],
    );
    assert_eq!(changed, Ok(1));
    let closed = scene.key(home, "closed");
    let id = bad.id.to_string();
    for target in &targets {
        scene.look_again(shared().primary(), *target);
    }
    let walking = reading(&scene, &scene.ledger).await;
    for partition in walking.partitions() {
        let retired = walking.retire(partition, &*scene.ledger).await;
        assert_eq!(retired.is_err(), partition == home, "{retired:?}");
    }
    for target in &targets[1..] {
        assert_eq!(scene.keys_of(shared().primary(), *target), [""; 0]);
    }
    assert!(!scene.keys_of(shared().primary(), bad).is_empty());
    let (score, now) = blocking(|| {
        let server = shared().primary();
        let score = server.call(&["ZSCORE", &closed, &id]).unwrap();
        let now = server.call(&["TIME"]).unwrap();
        let seconds: i64 = now.array()[0].text().unwrap().parse().unwrap();
        (
            score.text().unwrap().parse::<i64>().unwrap(),
            1_000 * seconds,
        )
    });
    assert!(score > now + HOURS_MS, "{score} at {now}");
}
