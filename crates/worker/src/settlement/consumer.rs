//! Consumes the deliveries of a transport for one partition: orders them, and reads missing entries from the log.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{DeliveryBatch, DeliveryTag, EventLog, LedgerError, Transport, TransportStatus},
};
use tokio::time::{Instant, sleep};

use super::inbox::{Following, GapDetector, Inbox};

/// Interval between two reads of the log while it replaces the transport.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Consumer of one partition. It returns entries after the ledger's position, and acknowledges settled ones.
pub struct PartitionConsumer {
    transport: Arc<dyn Transport>,
    pub(super) log: Arc<dyn EventLog>,
    pub(super) partition: PartitionId,
    inbox: Inbox,
    gaps: GapDetector,
    /// Deliveries to acknowledge.
    acks: Vec<DeliveryTag>,
    /// Epoch of the partition. Entries that were received in another epoch belong to a lost history.
    epoch: String,
    /// Last entry that the transport does not deliver, so the log is read up to it. The ledger was set back after its
    /// delivery, or the transport has lost it.
    missing: Seq,
    /// The position, and the time since which no entry that follows it has arrived.
    waiting: (Seq, Instant),
    /// Time until which a failing transport is not used.
    detour: Option<Instant>,
    /// Status that the consumer adds to the transport's own one.
    shown: Arc<Mutex<TransportStatus>>,
}

/// Status of a consumer, readable from other tasks.
#[derive(Clone)]
pub struct ConsumerStatus {
    transport: Arc<dyn Transport>,
    partition: PartitionId,
    shown: Arc<Mutex<TransportStatus>>,
}

impl ConsumerStatus {
    /// Current status.
    #[must_use]
    pub fn get(&self) -> TransportStatus {
        let shown = self.shown.lock();
        TransportStatus {
            waiting: shown.waiting,
            unacknowledged: shown.unacknowledged,
            refilled: shown.refilled,
            stuck: shown.stuck.clone(),
            ..self.transport.status(self.partition)
        }
    }
}

impl PartitionConsumer {
    /// Creates a consumer that has received nothing yet.
    #[must_use]
    pub fn new(
        transport: Arc<dyn Transport>,
        log: Arc<dyn EventLog>,
        partition: PartitionId,
    ) -> Self {
        Self {
            transport,
            log,
            partition,
            inbox: Inbox::default(),
            gaps: GapDetector::default(),
            acks: Vec::new(),
            epoch: String::new(),
            missing: 0,
            waiting: (0, Instant::now()),
            detour: None,
            shown: Arc::default(),
        }
    }

    /// Status, readable while the consumer works.
    #[must_use]
    pub fn status(&self) -> ConsumerStatus {
        ConsumerStatus {
            transport: Arc::clone(&self.transport),
            partition: self.partition,
            shown: Arc::clone(&self.shown),
        }
    }

    /// Up to `limit` entries directly after `after`, which must be the ledger's current position. Waits at most
    /// `wait_max` for the first one. Returns an empty list if nothing arrived, or if another worker owns the partition.
    /// The same holds if the entries do not follow the position, which may be outdated. The call may be dropped before
    /// it ends.
    ///
    /// # Errors
    /// If the transport or the log does not answer, or answers with invalid data. [`LedgerError::LogLost`] if the log
    /// ends before the position. [`LedgerError::LogGone`] if it no longer has the entries after the position.
    pub async fn take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError> {
        let limit = limit.max(1);
        self.gaps.begin(after);
        let epoch = self.note(self.log.epoch(self.partition).await)?;
        if epoch != self.epoch {
            self.epoch = epoch;
            self.acks.extend(self.inbox.abandon());
        }
        if self.waiting.0 != after {
            self.waiting = (after, Instant::now());
        }
        if self.detour.is_some_and(|until| Instant::now() < until) {
            return self.take_from_log(after, limit, wait_max).await;
        }
        let taken = self.try_take(after, limit, wait_max).await;
        if taken.is_ok() {
            self.detour = None;
        }
        let taken = self.note(taken);
        if taken.is_err()
            && let Some(delay_max) = self.transport.delay_max()
            && (self.detour.is_some() || self.waiting.1.elapsed() >= delay_max)
        {
            // The ledger need not wait for the transport. The status still shows the failure.
            self.detour = Some(Instant::now() + delay_max);
            return self.take_from_log(after, limit, Duration::ZERO).await;
        }
        taken
    }

    /// Acknowledges the deliveries of entries up to and including `settled`, and releases these entries from the log.
    /// They must be in the ledger.
    ///
    /// # Errors
    /// If the transport or the log does not answer. Repeating the call is safe.
    pub async fn ack(&mut self, settled: Seq) -> Result<(), LedgerError> {
        let result = match self.acknowledge(settled).await {
            Ok(()) => self.log.release(self.partition, settled).await,
            failed => failed,
        };
        self.note(result)
    }

    async fn try_take(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError> {
        let until = Instant::now() + wait_max;
        // A limit of 0 only checks the ownership: another worker may have settled the entries in the inbox.
        if self.receive(after, 0, wait_max).await?.is_none() {
            return Ok(Vec::new());
        }
        // End of the log before the last request to the transport, if that request had to deliver it.
        let mut overdue = None;
        loop {
            self.acknowledge(after).await?;
            match self.inbox.following(after, limit) {
                Following::Run(entries) => {
                    self.waiting.1 = Instant::now();
                    return Ok(entries);
                }
                Following::Gap(upto) => {
                    if !self.refill(after, upto, limit).await? {
                        return Ok(Vec::new());
                    }
                    continue;
                }
                Following::Nothing if after < self.missing => {
                    if !self.refill(after, self.missing, limit).await? {
                        return Ok(Vec::new());
                    }
                    continue;
                }
                Following::Nothing => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            let wait = match overdue {
                Some(_) => Duration::ZERO,
                None => left,
            };
            let Some(changed) = self.receive(after, limit, wait).await? else {
                return Ok(Vec::new());
            };
            let missing = overdue.take();
            if changed {
                continue;
            }
            if let Some(upto) = missing {
                if !self.refill(after, upto, limit).await? {
                    return Ok(Vec::new());
                }
                continue;
            }
            let head = self.log.head(self.partition).await?;
            if head < after {
                return Err(LedgerError::LogLost { head });
            }
            if head == after {
                self.waiting.1 = Instant::now();
            } else if self.waiting.1.elapsed() >= self.transport.delay_max().unwrap_or_default() {
                overdue = Some(head);
                continue;
            }
            if left.is_zero() {
                return Ok(Vec::new());
            }
        }
    }

    /// Receives deliveries, and returns whether that changed anything. `None` if another worker owns the partition.
    async fn receive(
        &mut self,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Option<bool>, LedgerError> {
        let (transport, partition) = (&self.transport, self.partition);
        let received = transport.receive(partition, settled, limit, wait_max);
        let (restarted, deliveries) = match received.await? {
            DeliveryBatch::Deliveries(deliveries) => (false, deliveries),
            DeliveryBatch::Restarted(deliveries) => (true, deliveries),
            DeliveryBatch::NotOwner => {
                self.forget();
                return Ok(None);
            }
        };
        if restarted {
            self.forget();
            self.waiting.1 = Instant::now();
        }
        let changed = restarted || !deliveries.is_empty();
        for delivery in deliveries {
            self.inbox.receive(delivery);
        }
        Ok(Some(changed))
    }

    /// Drops everything received, because the transport will deliver it again.
    fn forget(&mut self) {
        self.inbox.clear();
        self.acks.clear();
    }

    async fn acknowledge(&mut self, settled: Seq) -> Result<(), LedgerError> {
        self.acks.extend(self.inbox.settled(settled));
        if self.acks.is_empty() {
            return Ok(());
        }
        self.transport.ack(self.partition, &mut self.acks).await
    }

    /// Reads entries after `after` from the log, because the transport did not deliver those up to `upto`. Returns
    /// false if another worker may have settled them.
    async fn refill(&mut self, after: Seq, upto: Seq, limit: usize) -> Result<bool, LedgerError> {
        let confirmed = self.gaps.confirmed(after);
        if !confirmed && after >= self.missing {
            return Ok(false);
        }
        let entries = self.log.read(self.partition, after, limit).await?;
        if entries.is_empty() && self.log.awaits_replicas(self.partition) {
            return Ok(false);
        }
        let last = entries.first().map_or(upto, |first| first.seq - 1);
        if last > after {
            return match confirmed {
                true => Err(gone(after, last)),
                false => Ok(false),
            };
        }
        self.missing = self.missing.max(upto);
        let missing = entries.iter().filter(|entry| entry.seq <= upto).count() as u64;
        tracing::info!(
            partition = self.partition.0,
            missing,
            "the transport did not bring all entries: read from the log"
        );
        self.shown.lock().refilled += missing;
        self.inbox.fill(entries);
        Ok(true)
    }

    async fn take_from_log(
        &mut self,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Vec<Entry>, LedgerError> {
        // The head is read first, so entries that are appended between both reads are not mistaken for a gap.
        let head = self.log.head(self.partition).await?;
        let run = self.log.read(self.partition, after, limit).await?;
        match run.first() {
            None if head > after && !self.log.awaits_replicas(self.partition) => {
                match self.gaps.confirmed(after) {
                    true => Err(gone(after, head)),
                    false => Ok(run),
                }
            }
            None => {
                sleep(wait_max.min(LOOK_EVERY)).await;
                Ok(run)
            }
            Some(first) if first.seq == after + 1 => {
                self.shown.lock().refilled += run.len() as u64;
                Ok(run)
            }
            Some(first) if self.gaps.confirmed(after) => Err(gone(after, first.seq - 1)),
            Some(_) => Ok(Vec::new()),
        }
    }

    /// Records the result of a call in the status.
    fn note<T>(&self, result: Result<T, LedgerError>) -> Result<T, LedgerError> {
        let mut shown = self.shown.lock();
        shown.waiting = self.inbox.len() as u64;
        shown.unacknowledged = self.inbox.unacknowledged() as u64;
        if let Err(error) = &result {
            let (partition, reason) = (self.partition.0, error.to_string());
            if shown.stuck.is_none() {
                tracing::warn!(partition, reason, "the transport brings nothing");
            }
            shown.stuck = Some(reason);
        } else if self.detour.is_none() {
            shown.stuck = None;
        }
        result
    }
}

/// Error for the entries between the position and the first entry that the log still has.
fn gone(after: Seq, last: Seq) -> LedgerError {
    let first = after + 1;
    LedgerError::LogGone { first, last }
}
