//! Tests of queues on Redis alone: several nodes, and a Redis that is killed.

use std::time::Duration;

use qiang_core::{
    campaign::AckLevel,
    outcome::{Grant, Outcome},
    ports::{ActiveQueues, EngineError, WaitingRoom as _},
    queue_entry::{QueueDecision, QueueStatus},
};
use qiang_redis::RedisOptions;
use qiang_testkit::{
    campaign::{OPENS, sale, user},
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::node::waiting::{
    cases::{LIMITS, Line, sold_out},
    ground::{Ground as _, OnRedis},
};

/// Only one node decides a queue at a time. Another node continues after its lease ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_decides_at_a_time() {
    let line = Line::on(OnRedis::start().await, sale(5).setup(1)).await;
    line.enter(line.target.one("a")).await.unwrap();
    let other = line.ground.beside().await;
    let lease = Duration::from_millis(800);
    let led = async |node: &qiang_redis::RedisEngine| {
        let mut led = Vec::new();
        for partition in node.partitions() {
            led.push(node.lines(partition, lease).await.unwrap());
        }
        led
    };
    let (first, second) = (led(&line.ground.redis).await, led(&other).await);
    let lines = |of: &[ActiveQueues], own| {
        let mine = of.iter().filter(|lines| lines.own == own);
        mine.map(|lines| lines.campaigns.len()).sum::<usize>()
    };
    assert_eq!((lines(&first, true), lines(&first, false)), (1, 0));
    assert_eq!((lines(&second, true), lines(&second, false)), (0, 1));
    tokio::time::sleep(lease + Duration::from_millis(100)).await;
    assert_eq!(lines(&led(&other).await, true), 1);
    other.close().await;
}

/// A queue entry survives a kill of Redis, if Redis keeps acknowledged data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_survive_a_killed_redis() {
    const USERS: u32 = 200;
    let server = Standalone::start(&ServerOptions::new().fsync_always());
    let options = RedisOptions {
        urls: vec![server.url()],
        partitions: 2,
        ..RedisOptions::default()
    };
    let line = Line::on(OnRedis::with(options).await, sale(50).setup(1)).await;
    for n in 0..USERS {
        line.enter(line.target.one(&format!("u{n}"))).await.unwrap();
    }
    tokio::task::block_in_place(|| {
        server.kill();
        server.start_again();
    });
    let mut count = 0;
    while count < u64::from(USERS) {
        count += line.decide().await;
    }
    for n in 0..USERS {
        let decision = line.decision(&format!("u{n}")).await;
        let granted = matches!(decision, QueueDecision::Claimed(Outcome::Granted(_), _));
        assert_eq!(granted, n < 50, "u{n}: {decision:?}");
    }
}

/// A refusal is not reported before replicas have it. A failover may put its entry back in the queue, where it may be
/// granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_not_told_before_replicas_have_it() {
    let servers = Standalone::start(&ServerOptions::new().replicas(1));
    let options = RedisOptions {
        urls: vec![servers.url()],
        partitions: 2,
        replicas: 1,
        replica_timeout: Duration::from_millis(200),
        ..RedisOptions::default()
    };
    let ground = OnRedis::with(options).await;
    let line = Line::on(ground, sale(5).ack(AckLevel::Replica).setup(1)).await;
    for name in ["a", "b", "c"] {
        line.enter(line.target.one(name)).await.unwrap();
    }
    let grant = Grant {
        campaign: line.id(),
        number: 1,
        quantity: 1,
        amount_minor: 100,
        granted_at: OPENS,
        order: None,
    };
    let granted = QueueDecision::Claimed(Outcome::Granted(grant), AckLevel::Replica);
    let decided = [
        (line.place_of("a").await, sold_out()),
        (line.place_of("b").await, granted),
    ];
    let replica = servers.replica(0);
    tokio::task::block_in_place(|| replica.pause());
    let redis = &line.ground.redis;
    redis
        .record(line.id(), &decided, OPENS, LIMITS)
        .await
        .unwrap();
    let told = async |name| redis.standing(line.id(), &user(name)).await;
    let refused = told("a").await;
    assert!(
        matches!(refused, Err(EngineError::Uncertain { .. })),
        "{refused:?}"
    );
    // A grant is repeated under the same claim, and a waiting user has no result to lose. Both are answered.
    assert_eq!(line.decision("b").await, granted);
    let waits = told("c").await;
    assert!(
        matches!(waits, Ok(Some(QueueStatus::Waiting { .. }))),
        "{waits:?}"
    );
    tokio::task::block_in_place(|| replica.resume());
    tokio::task::block_in_place(|| servers.wait_for_replicas());
    assert_eq!(line.decision("a").await, sold_out());
}
