//! Tests of the transport on RabbitMQ alone.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use lapin::{
    options::{
        BasicConsumeOptions, BasicGetOptions, BasicRejectOptions, ConfirmSelectOptions,
        QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use qiang_testkit::{
    campaign::sale,
    conformance::transport::{Fixture, Worker, run},
};
use qiang_worker::broker::BrokerOptions;

use crate::node::transports::on_rabbit::OnRabbit;

const PATIENCE: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

fn impatient(fixture: &Fixture<OnRabbit>) -> Arc<dyn Worker> {
    fixture.subject.worker_with(BrokerOptions {
        patience: PATIENCE,
        ..fixture.subject.options("impatient")
    })
}

/// The ledger does not wait for RabbitMQ. The worker reports an outage, and uses RabbitMQ again after it.
#[test]
fn without_rabbitmq_entries_come_from_the_log() {
    run(true, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        let worker = impatient(fixture);
        fixture.claim(sale, 0..100).await;
        fixture.settle_all(&*worker).await;
        for partition in fixture.partitions() {
            let queue = fixture.subject.queue(partition);
            fixture.subject.server.wait_until_kept(&queue);
        }
        fixture.subject.server.kill();
        fixture.claim(sale, 100..200).await;
        fixture.settle_all(&*worker).await;
        for partition in fixture.partitions() {
            assert!(worker.status(partition).stuck.is_some());
        }
        fixture.subject.server.start_again();
        let until = Instant::now() + LONG;
        for partition in fixture.partitions() {
            while worker.status(partition).stuck.is_some() {
                let status = worker.status(partition);
                assert!(Instant::now() < until, "{partition:?}: {status:?}");
                drop(fixture.step(&*worker, partition, PATIENCE).await);
            }
        }
        worker.release_ownership().await;
    });
}

/// A message that cannot be read goes to a queue where operators can read it.
#[test]
fn messages_of_another_form_are_kept_aside() {
    run(false, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        fixture.claim(sale, 0..50).await;
        let worker = fixture.worker("w").await;
        let partition = fixture.partitions()[0];
        let (_connection, channel) = fixture.subject.channel().await;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await.expect("confirms");
        let newer = b"qiang 3 0 1 1\nof a later version";
        fixture.subject.publish(&channel, partition, newer).await;
        fixture.settle_all(&*worker).await;
        let dead: ShortString = format!("{}.dead", fixture.subject.queue(partition)).into();
        let until = Instant::now() + LONG;
        let kept = loop {
            let options = BasicGetOptions { no_ack: true };
            let got = channel.basic_get(dead.clone(), options).await;
            match got.expect("an answer") {
                Some(message) => break message.delivery.data,
                None => assert!(Instant::now() < until, "the message is lost"),
            }
            drop(fixture.step(&*worker, partition, PATIENCE).await);
        };
        assert_eq!(kept, newer);
        assert_eq!(worker.status(partition).unreadable, 1);
        worker.release_ownership().await;
    });
}

/// The arguments of a queue, without the delivery limit.
fn unlimited_arguments(dead: &str) -> FieldTable {
    let mut table = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    table.insert("x-queue-type".into(), text("quorum"));
    table.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    table.insert("x-dead-letter-exchange".into(), text(""));
    table.insert("x-dead-letter-routing-key".into(), text(dead));
    table
}

/// RabbitMQ 4 removes a message after 20 deliveries unless its queue sets a limit, as ours does. A queue without the
/// limit from another program is refused by name until it is deleted.
#[test]
fn a_queue_has_a_delivery_limit_of_its_own() {
    run(false, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        fixture.claim(sale, 0..50).await;
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let queue = fixture.subject.queue(fixture.partitions()[0]);
        let dead = format!("{queue}.dead");
        let (_connection, channel) = fixture.subject.channel().await;
        let declared =
            channel.queue_declare(queue.as_str().into(), durable, unlimited_arguments(&dead));
        let refused = declared
            .await
            .expect_err("the queue has a limit")
            .to_string();
        assert!(refused.contains("x-delivery-limit"), "{refused}");

        let (_connection, channel) = fixture.subject.channel().await;
        let deleted = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        deleted.await.expect("the queue is deleted");
        let declared =
            channel.queue_declare(queue.as_str().into(), durable, unlimited_arguments(&dead));
        declared
            .await
            .expect("the queue of the other program is declared");
        let (worker, partition) = (fixture.worker("w").await, fixture.partitions()[0]);
        let until = Instant::now() + LONG;
        let of_other = format!("queue {queue} exists with other arguments");
        loop {
            match fixture.step(&*worker, partition, PATIENCE).await {
                Err(error) if error.to_string().contains(&of_other) => break,
                _ => assert!(Instant::now() < until, "the queue is used"),
            }
        }
        let (_connection, channel) = fixture.subject.channel().await;
        let deleted = channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default());
        deleted.await.expect("the queue is deleted");
        fixture.settle_all(&*worker).await;
        fixture.assert_nothing_refilled(&*worker);
        worker.release_ownership().await;
    });
}

/// Deliveries that fail: more than the 20 that RabbitMQ 4 allows in a queue without a limit of its own.
const REJECTIONS: usize = 30;

/// A message whose delivery has failed many times is still in its queue, and the worker gets it.
#[test]
fn a_message_survives_more_failed_deliveries_than_the_default_allows() {
    run(false, async |fixture: &mut Fixture<OnRabbit>| {
        let sale = fixture.open(sale(10_000)).await;
        fixture.claim(sale, 0..50).await;
        let partition = fixture.partitions()[0];
        // It declares the queues, and leaves.
        let worker = fixture.worker("first").await;
        fixture.settle_all(&*worker).await;
        worker.release_ownership().await;
        drop(worker);

        let (connection, channel) = fixture.subject.channel().await;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await.expect("confirms");
        let newer = b"qiang 3 0 1 1\nof a later version";
        fixture.subject.publish(&channel, partition, newer).await;
        let queue = fixture.subject.queue(partition);
        let consumer = channel.basic_consume(
            queue.as_str().into(),
            "failing".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let mut consumer = consumer.await.expect("a consumer");
        for number in 0..REJECTIONS {
            let delivery = tokio::time::timeout(LONG, consumer.next()).await;
            let delivery = delivery.unwrap_or_else(|_| panic!("only {number} deliveries"));
            let delivery = delivery.expect("an open channel").expect("a message");
            assert_eq!(delivery.data, newer);
            // A rejection counts as a failed delivery in every version; a negative acknowledgement does not in 4.3.
            let requeue = BasicRejectOptions { requeue: true };
            delivery.reject(requeue).await.expect("it is rejected");
        }
        connection.close(200, "OK".into()).await.expect("closed");

        let worker = fixture.worker("second").await;
        let until = Instant::now() + LONG;
        while worker.status(partition).unreadable == 0 {
            assert!(Instant::now() < until, "the message is gone");
            drop(fixture.step(&*worker, partition, PATIENCE).await);
        }
        assert_eq!(worker.status(partition).unreadable, 1);
        worker.release_ownership().await;
    });
}
