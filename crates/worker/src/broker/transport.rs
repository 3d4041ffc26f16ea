//! Transport `rabbitmq`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{
        DeliveryBatch, DeliveryTag, EventLog, Ledger, LedgerError, Transport, TransportStatus,
    },
};
use tokio::task::JoinHandle;

use crate::broker::{
    consumer::QueueConsumer,
    link::{BrokerError, Link, PartitionQueue},
    options::BrokerOptions,
    relay::Relay,
};

/// Relays and consumes all partitions of a log. It stops when it is dropped; other workers then get its unacknowledged
/// messages.
pub struct RabbitTransport {
    link: Arc<Link>,
    queues: BTreeMap<PartitionId, (Arc<PartitionQueue>, tokio::sync::Mutex<QueueConsumer>)>,
    relays: Mutex<Vec<JoinHandle<()>>>,
    released: AtomicBool,
}

impl RabbitTransport {
    /// Starts a relay for every partition on the current runtime. Relays begin at the position of `ledger`.
    ///
    /// # Errors
    /// If the URL is invalid. RabbitMQ may be unreachable.
    pub fn start(
        options: BrokerOptions,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, BrokerError> {
        let link = Arc::new(Link::new(options)?);
        let (mut queues, mut relays) = (BTreeMap::new(), Vec::new());
        for partition in log.partitions() {
            let queue = PartitionQueue::new(&link, &log, partition);
            let relay = Relay {
                queue: Arc::clone(&queue),
                ledger: Arc::clone(&ledger),
            };
            relays.push(tokio::spawn(relay.run()));
            let consumer = QueueConsumer::new(Arc::clone(&queue));
            queues.insert(partition, (queue, tokio::sync::Mutex::new(consumer)));
        }
        Ok(Self {
            link,
            queues,
            relays: Mutex::new(relays),
            released: AtomicBool::new(false),
        })
    }

    /// Checks that RabbitMQ is reachable, in at most 5 s. The transport also works if RabbitMQ starts later.
    ///
    /// # Errors
    /// If RabbitMQ does not answer.
    pub async fn check(&self) -> Result<(), BrokerError> {
        self.link.check().await
    }

    fn consumer(
        &self,
        partition: PartitionId,
    ) -> Result<&tokio::sync::Mutex<QueueConsumer>, LedgerError> {
        let queue = self.queues.get(&partition);
        let (_, consumer) = queue.ok_or_else(|| {
            LedgerError::damaged(format!("there is no partition {}", partition.0))
        })?;
        Ok(consumer)
    }

    fn stop_relays(&self) {
        for relay in self.relays.lock().drain(..) {
            relay.abort();
        }
    }
}

#[async_trait]
impl Transport for RabbitTransport {
    async fn receive(
        &self,
        partition: PartitionId,
        _settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        let mut consumer = self.consumer(partition)?.lock().await;
        if self.released.load(Ordering::Acquire) {
            return Ok(DeliveryBatch::NotOwner);
        }
        consumer.receive(limit, wait_max).await
    }

    async fn ack(
        &self,
        partition: PartitionId,
        tags: &mut Vec<DeliveryTag>,
    ) -> Result<(), LedgerError> {
        Ok(self.consumer(partition)?.lock().await.ack(tags).await?)
    }

    fn delay_max(&self) -> Option<Duration> {
        Some(self.link.options.patience)
    }

    fn wake(&self, partition: PartitionId) {
        if let Some((queue, _)) = self.queues.get(&partition) {
            queue.woken.notify_one();
        }
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        let status = |(queue, _): &(Arc<PartitionQueue>, _)| queue.shown.lock().clone();
        self.queues.get(&partition).map(status).unwrap_or_default()
    }

    async fn release_ownership(&self) {
        self.released.store(true, Ordering::Release);
        self.stop_relays();
        for (_, consumer) in self.queues.values() {
            consumer.lock().await.release();
        }
        self.link.close().await;
    }
}

impl Drop for RabbitTransport {
    fn drop(&mut self) {
        self.stop_relays();
    }
}
