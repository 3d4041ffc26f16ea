//! The transport `rabbitmq`.

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
    ports::{DeliveryTag, EventLog, Ledger, LedgerError, Received, Transport, TransportStatus},
};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    consumer::QueueConsumer,
    link::{BrokerError, Link},
    options::Options,
    relay::Relay,
};

/// Relays and consumes all partitions of a log. Dropped, it stops at once; others receive what it had.
pub struct RabbitTransport {
    link: Arc<Link>,
    consumers: BTreeMap<PartitionId, tokio::sync::Mutex<QueueConsumer>>,
    shown: BTreeMap<PartitionId, Arc<Mutex<TransportStatus>>>,
    relays: Mutex<Vec<JoinHandle<()>>>,
    released: AtomicBool,
}

impl RabbitTransport {
    /// Starts a relay for every partition, on the current runtime. `ledger` tells them where to begin.
    ///
    /// # Errors
    /// When the URL cannot be read; RabbitMQ need not be there yet.
    pub fn start(
        options: Options,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, BrokerError> {
        let link = Arc::new(Link::new(options)?);
        let (mut consumers, mut shown, mut relays) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for partition in log.partitions() {
            let queue_lost = Arc::new(Notify::new());
            let show: Arc<Mutex<TransportStatus>> = Arc::default();
            let relay = Relay {
                link: Arc::clone(&link),
                log: Arc::clone(&log),
                ledger: Arc::clone(&ledger),
                partition,
                queue_lost: Arc::clone(&queue_lost),
                shown: Arc::clone(&show),
            };
            relays.push(tokio::spawn(relay.run()));
            let consumer =
                QueueConsumer::new(Arc::clone(&link), partition, queue_lost, Arc::clone(&show));
            consumers.insert(partition, tokio::sync::Mutex::new(consumer));
            shown.insert(partition, show);
        }
        Ok(Self {
            link,
            consumers,
            shown,
            relays: Mutex::new(relays),
            released: AtomicBool::new(false),
        })
    }

    fn consumer(
        &self,
        partition: PartitionId,
    ) -> Result<&tokio::sync::Mutex<QueueConsumer>, LedgerError> {
        let consumer = self.consumers.get(&partition);
        consumer.ok_or_else(|| LedgerError::Damaged {
            reason: format!("there is no partition {}", partition.0),
        })
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
    ) -> Result<Received, LedgerError> {
        let mut consumer = self.consumer(partition)?.lock().await;
        if self.released.load(Ordering::Acquire) {
            return Ok(Received::NotOwner);
        }
        Ok(consumer.receive(limit, wait_max).await?)
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

    fn status(&self, partition: PartitionId) -> TransportStatus {
        let shown = self.shown.get(&partition);
        shown.map(|shown| shown.lock().clone()).unwrap_or_default()
    }

    async fn release_ownership(&self) {
        self.released.store(true, Ordering::Release);
        self.stop_relays();
        for consumer in self.consumers.values() {
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
