//! Redis' clock alone decides when a campaign is open. Engines without a clock of their own agree to the millisecond.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    campaign::AckLevel,
    outcome::Outcome,
    ports::{Claimed, Engine as _},
    time::Timestamp,
};
use qiang_redis::RedisEngine;
use qiang_testkit::{
    campaign::{Target, sale},
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
