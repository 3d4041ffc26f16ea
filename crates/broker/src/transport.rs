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
    ports::{EventLog, Ledger, LedgerError, Taken, Transport, TransportStatus},
};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    line::Line,
    link::{BrokerError, Link},
    options::Options,
    relay::Relay,
};

/// Relays and consumes all partitions of a log. Dropped, it stops at once; what it had is handed to others.
pub struct RabbitTransport {
    link: Arc<Link>,
    lines: BTreeMap<PartitionId, tokio::sync::Mutex<Line>>,
    shown: BTreeMap<PartitionId, Arc<Mutex<TransportStatus>>>,
    relays: Mutex<Vec<JoinHandle<()>>>,
    left: AtomicBool,
}

impl RabbitTransport {
    /// Starts a relay for every partition, on the current runtime. `ledger` tells them where to begin.
    ///
    /// # Errors
    /// When the URL is none; RabbitMQ need not be there yet.
    pub fn start(
        options: Options,
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
    ) -> Result<Self, BrokerError> {
        let link = Arc::new(Link::new(options)?);
        let (mut lines, mut shown, mut relays) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for partition in log.partitions() {
            let again = Arc::new(Notify::new());
            let show: Arc<Mutex<TransportStatus>> = Arc::default();
            let relay = Relay {
                link: Arc::clone(&link),
                log: Arc::clone(&log),
                ledger: Arc::clone(&ledger),
                partition,
                again: Arc::clone(&again),
                shown: Arc::clone(&show),
            };
            relays.push(tokio::spawn(relay.run()));
            let (link, log) = (Arc::clone(&link), Arc::clone(&log));
            let line = Line::new(link, log, partition, again, Arc::clone(&show));
            lines.insert(partition, tokio::sync::Mutex::new(line));
            shown.insert(partition, show);
        }
        Ok(Self {
            link,
            lines,
            shown,
            relays: Mutex::new(relays),
            left: AtomicBool::new(false),
        })
    }

    fn line(&self, partition: PartitionId) -> Result<&tokio::sync::Mutex<Line>, LedgerError> {
        let line = self.lines.get(&partition);
        line.ok_or_else(|| LedgerError::Damaged {
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
    fn partitions(&self) -> Vec<PartitionId> {
        self.lines.keys().copied().collect()
    }

    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        let mut line = self.line(partition)?.lock().await;
        if self.left.load(Ordering::Acquire) {
            return Ok(Taken::NotOwner);
        }
        line.take(after, limit, wait_max).await
    }

    async fn done(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError> {
        self.line(partition)?.lock().await.done(settled).await
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        let shown = self.shown.get(&partition);
        shown.map(|shown| shown.lock().clone()).unwrap_or_default()
    }

    async fn leave(&self) {
        self.left.store(true, Ordering::Release);
        self.stop_relays();
        for line in self.lines.values() {
            line.lock().await.leave();
        }
        self.link.close().await;
    }
}

impl Drop for RabbitTransport {
    fn drop(&mut self) {
        self.stop_relays();
    }
}
