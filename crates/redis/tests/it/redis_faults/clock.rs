//! Redis' clock alone decides when a campaign is open. Engines without a clock of their own agree to the millisecond.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    outcome::Outcome,
    ports::{Claimed, Engine as _},
    time::Timestamp,
};
use qiang_redis::{ConnectError, RedisEngine, RedisOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
    servers::redis::Server,
};

use crate::redis_faults::harness::{
    Answered, Harness, Record, blocking, grant_of, name, options, shared,
};

const OPENS_IN_MS: i64 = 300;
const OPEN_MS: i64 = 700;
const WORKERS: usize = 8;

/// The time of Redis.
fn time(server: &Server) -> Timestamp {
    let reply = blocking(|| server.call(&["TIME"]).unwrap());
    let word = |n: usize| reply.array()[n].text().unwrap().parse::<i64>().unwrap();
    Timestamp::from_millis(1_000 * word(0) + word(1) / 1_000)
}

/// A node does not start while Redis' clock is earlier than the log. A refused start changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_behind_the_newest_entry_is_refused() {
    const HOUR_MS: i64 = 3_600_000;
    let with = |now: Timestamp, options: &RedisOptions| RedisOptions {
        clock: Some(ManualClock::new(now)),
        clock_behind_max: Duration::from_secs(60),
        ..options.clone()
    };
    let options = options(shared().url());
    let mut harness = Harness::new(with(OPENS, &options)).await;
    let options = harness.options.clone();
    let target = harness.open(sale(10)).await;
    harness.ask_all(vec![target.one("ann")]).await;
    for node in &harness.nodes {
        node.close().await;
    }
    let open_at = async |after_ms: i64| {
        let options = with(OPENS.plus_millis(after_ms), &options);
        let settled = [0, 1].map(|n| (PartitionId(n), 1));
        RedisEngine::connect(options, &settled).await
    };
    for _ in 0..2 {
        let refused = open_at(-8 * HOUR_MS).await.map(drop);
        let is_named = matches!(
            refused,
            Err(ConnectError::ClockBehind {
                behind_s: 28_800,
                ..
            })
        );
        assert!(is_named, "{refused:?}");
    }
    assert!(open_at(-60_001).await.is_err());
    // A tool may connect, for example to repair.
    let tool = RedisOptions {
        serves: false,
        ..with(OPENS.plus_millis(-8 * HOUR_MS), &options)
    };
    RedisEngine::attach(tool, &[]).await.unwrap().close().await;
    for after_ms in [-60_000, 1_000 * HOUR_MS] {
        open_at(after_ms).await.unwrap().close().await;
    }
}

/// New users claim on this node at every moment, gate included, from before the start until after the end.
async fn ask_on(
    node: RedisEngine,
    record: Arc<Record>,
    worker: usize,
    target: Target,
    until: Timestamp,
) -> Vec<(Timestamp, Answered, Timestamp)> {
    let mut answers = Vec::new();
    for n in 0.. {
        let claim = target.one(&name(worker + n * WORKERS));
        let before = time(shared().primary());
        if before > until {
            break;
        }
        let claimed = match node.try_gate_outcome(&claim) {
            Some(outcome) => Claimed {
                outcome,
                ack: AckLevel::Memory,
            },
            None => record.ask(&node, &claim).await.unwrap(),
        };
        answers.push((before, (claim, claimed), time(shared().primary())));
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_window_opens_and_ends_by_the_clock_of_redis() {
    let mut harness = Harness::new(options(shared().url())).await;
    let opens = time(shared().primary()).plus_millis(OPENS_IN_MS);
    let ends = opens.plus_millis(OPEN_MS);
    let target = harness.open(sale(50_000).window(opens, OPEN_MS)).await;
    let until = ends.plus_millis(OPENS_IN_MS);
    let start = |worker: usize| {
        let (node, record) = (
            harness.nodes[worker % 2].clone(),
            Arc::clone(&harness.record),
        );
        tokio::spawn(ask_on(node, record, worker, target, until))
    };
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    let mut answers = Vec::new();
    for worker in workers {
        answers.extend(worker.await.unwrap());
    }
    let mut seen = [0; 3];
    for (before, (claim, claimed), after) in answers {
        // Redis decided at some moment between `before` and `after`.
        let could = match claimed.outcome {
            Outcome::NotStarted { starts_at } => {
                seen[0] += 1;
                starts_at == opens && before < opens
            }
            Outcome::Granted(_) => {
                seen[1] += 1;
                let at = grant_of(&claimed).unwrap().granted_at;
                before <= at && at <= after && opens <= at && at < ends
            }
            Outcome::Ended => {
                seen[2] += 1;
                after >= ends
            }
            _ => false,
        };
        assert!(
            could,
            "{claim:?}: {claimed:?} between {before:?} and {after:?}, open {opens:?} to {ends:?}"
        );
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    harness.audit().await;
}
