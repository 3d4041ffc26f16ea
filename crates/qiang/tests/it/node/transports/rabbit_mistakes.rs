//! Changes that people make to RabbitMQ, and its own reaction to a shortage of memory or disk. No entry is lost, and
//! the transport is used again afterwards.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lapin::options::QueuePurgeOptions;
use qiang_core::event::PartitionId;
use qiang_testkit::{
    campaign::sale,
    conformance::transport::{Fixture, Worker, run},
    servers::rabbitmq::RabbitMq,
};
use qiang_worker::broker::BrokerOptions;

use crate::node::transports::on_rabbit::OnRabbit;

/// How long a worker waits for messages before it reads the log.
const PATIENCE: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);
/// Reason of a worker while RabbitMQ has an alarm.
const ALARM: &str = "RabbitMQ accepts no messages";

fn worker_on(fixture: &Fixture<OnRabbit>, server: &RabbitMq, name: &str) -> Arc<dyn Worker> {
    fixture.subject.worker_with(BrokerOptions {
        patience: PATIENCE,
        url: server.url(),
        ..fixture.subject.options(name)
    })
}

fn control(fixture: &Fixture<OnRabbit>, words: &[&str]) {
    tokio::task::block_in_place(|| fixture.subject.server.control(words));
}

/// Settles new claims until a round needs no entry from the log, so that messages bring the entries again.
async fn until_used_again(fixture: &mut Fixture<OnRabbit>, worker: &dyn Worker, from: u32) {
    let sale = fixture.open(sale(10_000)).await;
    let refilled = |partitions: &[PartitionId]| -> u64 {
        let all = partitions.iter().map(|it| worker.status(*it).refilled);
        all.sum()
    };
    let partitions = fixture.partitions();
    let until = Instant::now() + LONG;
    for round in 0.. {
        let before = refilled(&partitions);
        fixture
            .claim(sale, from + round * 10..from + round * 10 + 10)
            .await;
        fixture.settle_all(worker).await;
        if refilled(&partitions) == before {
            return;
        }
        assert!(Instant::now() < until, "entries still come from the log");
    }
}

/// All queues are purged while entries are in flight.
#[test]
fn purged_queues_lose_no_entry() {
    run(true, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        let worker = worker_on(fixture, &fixture.subject.server, "w");
        let (_connection, channel) = fixture.subject.channel().await;
        for round in 0..5 {
            fixture.claim(sale, round * 40..round * 40 + 40).await;
            for partition in fixture.partitions() {
                let queue = fixture.subject.queue(partition);
                // The queue does not exist before the worker's first step.
                let purged =
                    channel.queue_purge(queue.as_str().into(), QueuePurgeOptions::default());
                if round > 0 {
                    purged.await.expect("the queue is purged");
                }
            }
            fixture.settle_all(&*worker).await;
        }
        until_used_again(fixture, &*worker, 1_000).await;
        worker.release_ownership().await;
    });
}

/// A policy drops messages: by age, or because the queue may hold only one.
#[test]
fn policies_that_drop_messages_lose_no_entry() {
    run(true, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        let worker = worker_on(fixture, &fixture.subject.server, "w");
        let pattern = format!(
            "^{}$",
            fixture
                .subject
                .queue(PartitionId(0))
                .replace("00", "[0-9]+")
        );
        let policies = [
            "{\"message-ttl\": 1}",
            "{\"max-length\": 1, \"overflow\": \"drop-head\"}",
        ];
        for (round, policy) in (0..).zip(policies) {
            control(
                fixture,
                &[
                    "set_policy",
                    "--apply-to",
                    "queues",
                    "mistake",
                    &pattern,
                    policy,
                ],
            );
            for part in 0..5 {
                let from = round * 200 + part * 40;
                fixture.claim(sale, from..from + 40).await;
                fixture.settle_all(&*worker).await;
            }
        }
        control(fixture, &["clear_policy", "mistake"]);
        until_used_again(fixture, &*worker, 1_000).await;
        worker.release_ownership().await;
    });
}

/// RabbitMQ accepts no messages after some commands, until another one. Entries come from the log, and the worker
/// reports the fault. Messages are used again afterwards.
fn nothing_is_held_up(begin: &[&[&str]], reason: &str, end: &[&str]) {
    run(true, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        let worker = worker_on(fixture, &fixture.subject.server, "w");
        fixture.claim(sale, 0..50).await;
        fixture.settle_all(&*worker).await;
        for words in begin {
            control(fixture, words);
        }
        for round in 1..5 {
            fixture.claim(sale, round * 50..round * 50 + 50).await;
            fixture.settle_all(&*worker).await;
        }
        for partition in fixture.partitions() {
            let status = worker.status(partition);
            let stuck = status.stuck.as_deref().unwrap_or_default();
            assert!(stuck.contains(reason), "{partition:?}: {status:?}");
        }
        control(fixture, end);
        until_used_again(fixture, &*worker, 1_000).await;
        for partition in fixture.partitions() {
            let status = worker.status(partition);
            assert!(status.stuck.is_none(), "{partition:?}: {status:?}");
        }
        worker.release_ownership().await;
    });
}

#[test]
fn an_alarm_of_memory_holds_nothing_up() {
    nothing_is_held_up(
        &[&["set_vm_memory_high_watermark", "0.000001"]],
        ALARM,
        &["set_vm_memory_high_watermark", "0.8"],
    );
}

#[test]
fn an_alarm_of_disk_holds_nothing_up() {
    nothing_is_held_up(
        &[&["set_disk_free_limit", "1000000000000000"]],
        ALARM,
        &["set_disk_free_limit", "50000000"],
    );
}

/// The worker's user loses its rights in the virtual host, and gets them again.
#[test]
fn a_right_that_is_taken_and_given_back_loses_no_entry() {
    nothing_is_held_up(
        &[
            &["set_permissions", "guest", "", "", ""],
            // An open channel keeps its rights.
            &["close_all_connections", "by the test"],
        ],
        "ACCESS_REFUSED",
        &["set_permissions", "guest", ".*", ".*", ".*"],
    );
}

/// Two workers use two RabbitMQ servers. Every entry is settled exactly once.
#[test]
fn workers_on_two_servers_lose_no_entry() {
    run(true, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        let other = tokio::task::block_in_place(RabbitMq::start);
        let one = worker_on(fixture, &fixture.subject.server, "one");
        let two = worker_on(fixture, &other, "two");
        for round in 0..4 {
            fixture.claim(sale, round * 50..round * 50 + 50).await;
            match round % 2 {
                0 => fixture.settle_all(&*one).await,
                _ => fixture.settle_all(&*two).await,
            }
        }
        one.release_ownership().await;
        two.release_ownership().await;
    });
}
