//! A worker of the suite: consumes a transport for all partitions, as in production.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EventLog, LedgerError, Transport, TransportStatus},
};
use qiang_testkit::conformance::transport::Worker;
use qiang_worker::settlement::{ConsumerStatus, PartitionConsumer};
use tokio::sync::Mutex;

pub(crate) struct Consumers {
    transport: Arc<dyn Transport>,
    partitions: BTreeMap<PartitionId, (Mutex<PartitionConsumer>, ConsumerStatus)>,
}

impl Consumers {
    pub(crate) fn new(transport: impl Transport, log: impl EventLog) -> Self {
        let (transport, log): (Arc<dyn Transport>, Arc<dyn EventLog>) =
            (Arc::new(transport), Arc::new(log));
        let consumer = |partition| {
            let consumer =
                PartitionConsumer::new(Arc::clone(&transport), Arc::clone(&log), partition);
            let status = consumer.status();
            (partition, (Mutex::new(consumer), status))
        };
        let partitions = log.partitions().into_iter().map(consumer).collect();
        Self {
            transport,
            partitions,
        }
    }
}

#[async_trait]
impl Worker for Consumers {
    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError> {
        let mut consumer = self.partitions[&partition].0.lock().await;
        consumer.take(after, limit, wait_max).await
    }

    async fn ack(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError> {
        self.partitions[&partition]
            .0
            .lock()
            .await
            .ack(settled)
            .await
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        self.partitions[&partition].1.get()
    }

    async fn release_ownership(&self) {
        self.transport.release_ownership().await;
    }
}
