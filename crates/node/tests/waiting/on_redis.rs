//! What only lines on Redis do: several nodes, and a Redis that is killed.

use std::time::Duration;

use qiang_core::{outcome::Outcome, ports::WaitingRoom as _, waiting::Decision};
use qiang_redis::Options;
use qiang_testkit::{
    campaign::sale,
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::{
    cases::Line,
    ground::{Ground as _, OnRedis},
};

/// One node decides a line at a time; another one goes on when it is gone.
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
    assert_eq!(first.iter().flatten().flatten().count(), 1);
    assert_eq!(second.iter().filter(|it| it.is_none()).count(), 1);
    tokio::time::sleep(lease + Duration::from_millis(100)).await;
    assert_eq!(led(&other).await.iter().flatten().flatten().count(), 1);
    other.close().await;
}

/// Whoever was given a place before Redis was killed has it afterwards, where Redis keeps what it acknowledges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_survive_a_killed_redis() {
    const USERS: u32 = 200;
    let server = Standalone::start(&ServerOptions::new().fsync_always());
    let options = Options {
        urls: vec![server.url()],
        partitions: 2,
        ..Options::default()
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
        let granted = matches!(decision, Decision::Claimed(Outcome::Granted(_), _));
        assert_eq!(granted, n < 50, "u{n}: {decision:?}");
    }
}
