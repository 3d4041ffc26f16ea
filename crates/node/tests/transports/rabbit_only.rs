//! What is particular to the transport on RabbitMQ.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lapin::{
    options::{BasicGetOptions, ConfirmSelectOptions},
    types::ShortString,
};
use qiang_broker::{Options, RabbitTransport};
use qiang_core::ports::Transport;
use qiang_testkit::{
    campaign::sale,
    conformance::transport::{Bench, run},
};

use crate::on_rabbit::OnRabbit;

const PATIENCE: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

fn impatient(bench: &Bench<OnRabbit>) -> RabbitTransport {
    let options = Options {
        patience: PATIENCE,
        ..bench.subject.options("impatient")
    };
    let log = Arc::new(bench.subject.ends.engine.clone());
    let ledger = bench.subject.ends.book.shared();
    RabbitTransport::start(options, log, ledger).expect("a good URL")
}

/// The ledger does not wait for RabbitMQ to come back; that it is gone is said, and it is used again when it is back.
#[test]
fn without_rabbitmq_entries_come_from_the_log() {
    run(true, async |bench: &mut Bench<OnRabbit>| {
        let sale = bench.open(sale(10_000)).await;
        let worker = impatient(bench);
        bench.crowd(sale, 0..100).await;
        bench.carry_all(&worker).await;
        for partition in bench.partitions() {
            let queue = bench.subject.queue(partition);
            bench.subject.server.wait_until_kept(&queue);
        }
        bench.subject.server.kill();
        bench.crowd(sale, 100..200).await;
        bench.carry_all(&worker).await;
        for partition in bench.partitions() {
            assert!(worker.status(partition).stuck.is_some());
        }
        bench.subject.server.start_again();
        let until = Instant::now() + LONG;
        for partition in bench.partitions() {
            while worker.status(partition).stuck.is_some() {
                let status = worker.status(partition);
                assert!(Instant::now() < until, "{partition:?}: {status:?}");
                drop(bench.step(&worker, partition, PATIENCE).await);
            }
        }
        worker.leave().await;
    });
}

/// What nobody can read is kept where somebody can look at it.
#[test]
fn messages_of_another_form_are_kept_aside() {
    run(false, async |bench: &mut Bench<OnRabbit>| {
        let sale = bench.open(sale(10_000)).await;
        bench.crowd(sale, 0..50).await;
        let worker = bench.worker("w").await;
        let partition = bench.partitions()[0];
        let (_connection, channel) = bench.subject.channel().await;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await.expect("confirms");
        let newer = b"qiang 2 0 1 1\nof a later version";
        bench.subject.publish(&channel, partition, newer).await;
        bench.carry_all(&*worker).await;
        let dead: ShortString = format!("{}.dead", bench.subject.queue(partition)).into();
        let until = Instant::now() + LONG;
        let kept = loop {
            let options = BasicGetOptions { no_ack: true };
            let got = channel.basic_get(dead.clone(), options).await;
            match got.expect("an answer") {
                Some(message) => break message.delivery.data,
                None => assert!(Instant::now() < until, "it is lost"),
            }
            drop(bench.step(&*worker, partition, PATIENCE).await);
        };
        assert_eq!(kept, newer);
        assert_eq!(worker.status(partition).unreadable, 1);
        worker.leave().await;
    });
}
