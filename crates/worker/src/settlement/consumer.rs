//! Consumes what a transport brings of one partition: puts it in order, and reads from the log what does not come.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{DeliveryTag, EventLog, LedgerError, Received, Transport, TransportStatus},
};
use tokio::time::{Instant, sleep};

use super::inbox::{Following, GapDetector, Inbox};

/// How often the log is looked at while it stands in for the transport.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The consumer of one partition. It hands out entries after the ledger's position, and acknowledges what is settled.
pub struct PartitionConsumer {
    transport: Arc<dyn Transport>,
    pub(super) log: Arc<dyn EventLog>,
    pub(super) partition: PartitionId,
    inbox: Inbox,
    gaps: GapDetector,
    /// To be acknowledged.
    acks: Vec<DeliveryTag>,
    /// The partition's epoch: what was received in another one is of a history that is lost.
    epoch: String,
    /// Up to here the transport does not bring what follows the position: it did once, and the ledger was set back, or
    /// it has lost it. It is read from the log.
    missing: Seq,
    /// The position, and since when nothing has come that follows it.
    waiting: (Seq, Instant),
    /// The transport does not work, and is not asked before this.
    detour: Option<Instant>,
    /// What the consumer adds to the transport's own status.
    shown: Arc<Mutex<TransportStatus>>,
}

/// Tells how a consumer is doing, wherever it is.
#[derive(Clone)]
pub struct ConsumerStatus {
    transport: Arc<dyn Transport>,
    partition: PartitionId,
    shown: Arc<Mutex<TransportStatus>>,
}

impl ConsumerStatus {
    /// How it is doing now.
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
    /// A consumer that has received nothing yet.
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

    /// How it is doing, to be asked while it works.
    #[must_use]
    pub fn status(&self) -> ConsumerStatus {
        ConsumerStatus {
            transport: Arc::clone(&self.transport),
            partition: self.partition,
            shown: Arc::clone(&self.shown),
        }
    }

    /// Up to `limit` entries right after `after`, which is the ledger's position as it is now. Waits for the first one,
    /// at most `wait_max`. None if nothing came, if another worker has the partition, or if what came does not follow
    /// the position, which may have grown old. May be dropped before it ends.
    ///
    /// # Errors
    /// When the transport or the log does not answer or makes no sense; [`LedgerError::LogLost`] if the log ends before
    /// the position; [`LedgerError::LogGone`] if it no longer has what follows the position.
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
            // The ledger need not wait for the transport. That it does not work is shown all the same.
            self.detour = Some(Instant::now() + delay_max);
            return self.take_from_log(after, limit, Duration::ZERO).await;
        }
        taken
    }

    /// Entries up to and with `settled` are in the ledger for good: acknowledges what brought them, and lets the log
    /// forget them.
    ///
    /// # Errors
    /// When the transport or the log does not answer. Repeating it is safe.
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
        // What another worker may have settled by now is not handed out.
        if self.receive(after, 0, wait_max).await?.is_none() {
            return Ok(Vec::new());
        }
        // Where the log ended before the transport was asked for the last time, if that was to bring it.
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

    /// Receives, and tells whether that changed anything; none if another worker has the partition.
    async fn receive(
        &mut self,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Option<bool>, LedgerError> {
        let (transport, partition) = (&self.transport, self.partition);
        let received = transport.receive(partition, settled, limit, wait_max);
        let (restarted, deliveries) = match received.await? {
            Received::Deliveries(deliveries) => (false, deliveries),
            Received::Restarted(deliveries) => (true, deliveries),
            Received::NotOwner => {
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

    /// What was received comes again.
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

    /// Reads from the log what the transport has not brought: entries after `after`, of which those up to `upto` are
    /// missing. False if they may be settled by now.
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
        // The head is read first: entries appended between both reads are not mistaken for a gap.
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

    /// Shows what a call came to.
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

/// What lies between the position and the first entry that the log still has.
fn gone(after: Seq, last: Seq) -> LedgerError {
    let first = after + 1;
    LedgerError::LogGone { first, last }
}
