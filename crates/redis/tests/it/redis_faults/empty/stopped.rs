//! Repairers that are stopped at every step. Another process does the rest of the repair, and a repairer that continues
//! later changes nothing.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use qiang_core::ports::{EngineError, RepairAttempt, RepairState};

use super::*;

/// Fate of a repairer that is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stopped {
    /// It is killed.
    Gone,
    /// It is killed, and Redis is emptied again.
    GoneAndEmptied,
    /// It continues after another one has repaired everything.
    Late,
    /// It continues during the repair of another one, which continues after it.
    Overtaken,
}

/// Polls a future this many times, and returns its output if it is ready by then.
async fn for_polls<F: Future>(mut future: Pin<&mut F>, polls: usize) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Repairs a partition, as soon as the repair may start.
async fn repaired(
    node: &RedisEngine,
    partition: PartitionId,
    ledger: &SqliteLedger,
) -> Result<RepairState, EngineError> {
    loop {
        match node.repair(partition, ledger, false).await {
            Ok(RepairState::Waiting) => tokio::time::sleep(PAUSE).await,
            repaired => return repaired,
        }
    }
}

/// Stops a repair at every step, and lets another process repair the rest.
async fn stops_everywhere(stopped: Stopped) {
    let mut world = World::new(|url| RedisOptions {
        shard_supply_min: 100,
        term_grace: Duration::from_millis(600),
        // No call may fail, even on a busy machine.
        call_timeout: Duration::from_secs(10),
        ..patient(url)
    })
    .await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let (mut answers, mut polls, mut granted) = (Vec::new(), 1, 0);
    let mut withheld_max = 0;
    for round in 0.. {
        let claims = (granted..granted + SETTLED).map(|n| target.one(&name(n)));
        answers.extend(world.harness.ask_all(claims.collect()).await);
        granted += SETTLED;
        world.settle_all().await;
        tell(&world.harness.nodes, &world.ledger).await;
        let claims = (granted..granted + UNSETTLED).map(|n| target.one(&name(n)));
        answers.extend(world.harness.ask_all(claims.collect()).await);
        granted += UNSETTLED;
        world.flush();
        world.all_halted().await;
        world.all_offered(2).await;

        let first = node(&world.harness.options, &[]).await;
        let partition = first.partitions()[round % 2];
        tokio::time::sleep(world.harness.options.term_grace).await;
        let mut repairing = Box::pin(repaired(&first, partition, &world.ledger));
        let done = for_polls(repairing.as_mut(), polls).await;
        println!("{stopped:?} after {polls} polls: {done:?}");
        tell(&world.harness.nodes, &world.ledger).await;
        let continues = [Stopped::Late, Stopped::Overtaken].contains(&stopped);
        let mut late = (continues && done.is_none()).then_some(repairing);
        // By then, nodes have reported the ledger's positions to Redis.
        tokio::time::sleep(Duration::from_millis(150)).await;
        if stopped == Stopped::GoneAndEmptied {
            if (0..2).any(|id| !world.has_field(id, "halted")) {
                // The entries that the first repair appended are lost before they are settled, so this many more units
                // are withheld.
                withheld_max += UNSETTLED as u64;
            }
            world.flush();
            world.all_halted().await;
            let lost = || (0..2).all(|id| world.has_field(id, "lost_to"));
            wait_for("the loss", lost).await;
            world.all_offered(3).await;
        }
        // Simulates the expiry of the dead repairer's lease.
        for id in 0..2 {
            let key = world.key(id);
            let words = ["HDEL", &key, "repairer", "repair_until"];
            blocking(|| world.redis().call(&words).unwrap());
        }
        let second = &world.harness.nodes[1];
        if stopped == Stopped::Overtaken
            && let Some(late) = late.take()
        {
            let mut overtakes = Box::pin(repaired(second, partition, &world.ledger));
            let done = for_polls(overtakes.as_mut(), polls).await;
            let ended = tokio::time::timeout(INSIST_MAX, late).await;
            println!("the overtaken one: {ended:?}");
            assert!(ended.is_ok(), "the stopped repair does not end");
            if done.is_none() {
                println!("the other one: {:?}", overtakes.await);
            }
        }
        let until = Instant::now() + INSIST_MAX;
        while !world.is_open() {
            for partition in second.partitions() {
                let repaired = second.repair(partition, &*world.ledger, false).await;
                assert!(repaired.is_ok() || Instant::now() < until, "{repaired:?}");
            }
            assert!(Instant::now() < until, "not repaired in time");
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(late) = &mut late {
            let ended = tokio::time::timeout(INSIST_MAX, late).await;
            println!("the late one: {ended:?}");
        }
        drop(late);
        first.abort();
        world.all_open().await;
        world.check(target, SOME, withheld_max).await;
        world.harness.replay(&answers).await;
        if done.is_some() {
            return;
        }
        polls += 1 + polls / 3;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repairer_may_die_at_every_step() {
    stops_everywhere(Stopped::Gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_may_be_emptied_at_every_step_of_a_repair() {
    stops_everywhere(Stopped::GoneAndEmptied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_steps_of_a_repair_change_nothing() {
    stops_everywhere(Stopped::Late).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repairer_that_is_overtaken_disturbs_no_other() {
    stops_everywhere(Stopped::Overtaken).await;
}

/// The ledger's records of each partition: position, repairs and withheld units.
async fn records(world: &World) -> Vec<String> {
    let mut records = Vec::new();
    for partition in world.harness.nodes[0].partitions() {
        let settled = world.ledger.settled(partition).await.unwrap();
        let repairs = world.ledger.repairs(partition, 100).await.unwrap();
        let withheld = world.ledger.withheld(partition).await.unwrap();
        records.push(format!("{settled} {repairs:?} {withheld:?}"));
    }
    records
}

/// Another process claims the repair in the ledger at every step, as a repairer on another primary does. Redis still
/// records the first process as the repairer. The first process changes nothing more in the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repairer_on_an_isolated_primary_changes_nothing_in_the_ledger() {
    let mut world = World::new(|url| RedisOptions {
        shard_supply_min: 100,
        term_grace: Duration::from_millis(600),
        call_timeout: Duration::from_secs(10),
        ..patient(url)
    })
    .await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let (mut answers, mut polls, mut unclaimed) = (Vec::new(), 1, 0);
    let mut is_claimed = false;
    for round in 0_usize.. {
        // The ledger has the campaign and some of the claims.
        let first = round * (SETTLED + UNSETTLED);
        let claims = (first..first + SETTLED).map(|n| target.one(&name(n)));
        answers.extend(world.harness.ask_all(claims.collect()).await);
        world.settle_all().await;
        tell(&world.harness.nodes, &world.ledger).await;
        let claims = (first + SETTLED..first + SETTLED + UNSETTLED).map(|n| target.one(&name(n)));
        answers.extend(world.harness.ask_all(claims.collect()).await);
        world.flush();
        world.all_halted().await;
        world.all_offered(2).await;
        let first = node(&world.harness.options, &[]).await;
        let partition = first.partitions()[0];
        tokio::time::sleep(world.harness.options.term_grace).await;
        let attempts = world.ledger.last_attempt(partition).await.unwrap();
        let mut repairing = Box::pin(repaired(&first, partition, &world.ledger));
        let done = for_polls(repairing.as_mut(), polls).await;
        if done.is_none() {
            let (mut claimed, mut has_begun) = (Vec::new(), false);
            for partition in first.partitions() {
                let last = world.ledger.last_attempt(partition).await.unwrap();
                has_begun |= partition == first.partitions()[0] && last > attempts;
                let attempt = RepairAttempt {
                    partition,
                    number: last + 1,
                    repairer: "elsewhere".to_owned(),
                };
                world.ledger.claim_repair(&attempt).await.unwrap();
                claimed.push(attempt);
            }
            // Steps before the claim are skipped quickly. Later steps are stopped often.
            polls = match (is_claimed, has_begun) {
                (true, _) => polls + 16,
                (false, true) => unclaimed + 8,
                (false, false) => {
                    unclaimed = polls;
                    polls + 1 + polls / 3
                }
            };
            is_claimed |= has_begun;
            let before = records(&world).await;
            let ended = tokio::time::timeout(INSIST_MAX, repairing).await;
            println!("claimed: {has_begun}, next after {polls} polls: {ended:?}");
            assert!(ended.is_ok(), "the stopped repair does not end");
            // If the first process had not started, its own attempt is a later one.
            let mut is_stale = true;
            for attempt in claimed {
                let last = world.ledger.last_attempt(attempt.partition).await;
                is_stale &= last == Ok(attempt.number);
            }
            assert!(!is_stale || records(&world).await == before);
        } else {
            drop(repairing);
        }
        first.abort();
        let second = &world.harness.nodes[1];
        let until = Instant::now() + INSIST_MAX;
        while !world.is_open() {
            for partition in second.partitions() {
                let repaired = second.repair(partition, &*world.ledger, false).await;
                assert!(repaired.is_ok() || Instant::now() < until, "{repaired:?}");
            }
            assert!(Instant::now() < until, "not repaired in time");
            tokio::time::sleep(PAUSE).await;
        }
        world.check(target, SOME, 0).await;
        world.harness.replay(&answers).await;
        tell(&world.harness.nodes, &world.ledger).await;
        if done.is_some() {
            return;
        }
    }
}

/// Number of a transfer that no log of these tests reaches.
const LATER_TRANSFER: u64 = 1 << 40;
/// Units that one shard sends to another by a script. They are in the sender's journal.
const SENT: u32 = 5;

/// One of two shards of a sale is lost, and its repair stops at every step. Another process repairs it, and the other
/// shard sends it units. Late steps of the stopped repair do not remove these units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_steps_take_no_units_away_that_are_sent_after_a_repair() {
    let mut world = World::new(|url| RedisOptions {
        shard_supply_min: 100,
        term_grace: Duration::from_millis(600),
        call_timeout: Duration::from_secs(10),
        ..patient(url)
    })
    .await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let mut polls = 1;
    for round in 0_usize.. {
        let claims = (0..SETTLED).map(|n| target.one(&name(round * SETTLED + n)));
        world.harness.ask_all(claims.collect()).await;
        world.settle_all().await;
        tell(&world.harness.nodes, &world.ledger).await;
        lose_first(&world).await;
        let partition = PartitionId(0);

        let first = node(&world.harness.options, &[]).await;
        tokio::time::sleep(world.harness.options.term_grace).await;
        let mut late = Box::pin(repaired(&first, partition, &world.ledger));
        let done = for_polls(late.as_mut(), polls).await;
        println!("after {polls} polls: {done:?}");
        let key = world.key(0);
        let words = ["HDEL", &key, "repairer", "repair_until"];
        blocking(|| world.redis().call(&words).unwrap());
        if done.is_none() {
            let second = &world.harness.nodes[1];
            let until = Instant::now() + INSIST_MAX;
            while !world.is_open() {
                let repaired = second.repair(partition, &*world.ledger, false).await;
                assert!(repaired.is_ok() || Instant::now() < until, "{repaired:?}");
                assert!(Instant::now() < until, "not repaired in time");
                tokio::time::sleep(PAUSE).await;
            }
            send(&world, target.id);
            let ended = tokio::time::timeout(INSIST_MAX, late).await;
            println!("the late one: {ended:?}");
            assert!(ended.is_ok(), "the stopped repair does not end");
        } else {
            drop(late);
        }
        first.abort();
        world.all_open().await;
        world.check(target, SOME, 0).await;
        if done.is_some() {
            return;
        }
        polls += 1 + polls / 3;
    }
}

/// The ledger was set back, so a shard that lost nothing knows later transfers of the lost shard. The lost shard is
/// repaired, and units move between both as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_repaired_with_a_ledger_that_was_set_back() {
    let mut world = World::new(|url| RedisOptions {
        shard_supply_min: 100,
        term_grace: Duration::from_millis(600),
        ..patient(url)
    })
    .await;
    let target = world.open(open_now(sale(SOME)).hold_ms(3_600_000)).await;
    let claims = (0..SETTLED).map(|n| target.one(&name(n)));
    let mut answers = world.harness.ask_all(claims.collect()).await;
    world.settle_all().await;
    tell(&world.harness.nodes, &world.ledger).await;
    let key = world.key(1);
    let part = key.replace(":partition", &format!(":c:{}", target.id));
    let last = LATER_TRANSFER.to_string();
    blocking(|| world.redis().call(&["HSET", &part, "from:0", &last])).unwrap();
    lose_first(&world).await;
    world.run();
    world.all_open().await;
    let sent = blocking(|| {
        let part = part.replace("{p01}", "{p00}");
        world.redis().call(&["HGET", &part, "sent"]).unwrap()
    });
    let sent: u64 = sent.text().unwrap().parse().unwrap();
    assert!(sent > LATER_TRANSFER, "{sent}");
    let claims = (SETTLED..SOME as usize).map(|n| target.one(&name(n)));
    answers.extend(world.harness.ask_all(claims.collect()).await);
    world.settling.take().unwrap().abort();
    world.check(target, SOME, 0).await;
    let tally = world.harness.nodes[0].tally(target.id).await;
    assert_eq!(tally.unwrap().unwrap().remaining, 0);
    world.harness.replay(&answers).await;
}

/// Makes partition 0 lose everything, and waits until all nodes have noticed.
async fn lose_first(world: &World) {
    let pattern = world.key(0).replace(":partition", ":*");
    let script = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
    blocking(|| world.redis().call(&["EVAL", script, "0", &pattern])).unwrap();
    let lost = || world.has_field(0, "lost_to");
    wait_for("the loss", lost).await;
    let halted = |node: &RedisEngine| {
        matches!(
            node.state(PartitionId(0)),
            PartitionHealth::Halted { lost: Some(_), .. }
        )
    };
    wait_for("the halt", || world.harness.nodes.iter().all(halted)).await;
}

/// Starts a transfer from the shard on partition 1 to that on partition 0, as `transfer_out.lua` does.
fn send(world: &World, campaign: CampaignId) {
    let part = world
        .key(1)
        .replace(":partition", &format!(":c:{campaign}"));
    let script = format!(
        "local number = redis.call('HINCRBY', KEYS[1], 'sent', 1) \
         for _, field in ipairs({{'supply', 'remaining'}}) do redis.call('HINCRBY', KEYS[1], field, -{SENT}) end \
         redis.call('HSET', KEYS[2], '0', number .. '\\n{SENT}') \
         redis.call('HSET', KEYS[1], 'moving', redis.call('HLEN', KEYS[2]))"
    );
    let journal = format!("{part}:transfers");
    let words = ["EVAL", &script, "2", &part, &journal];
    blocking(|| world.redis().call(&words).unwrap());
}
