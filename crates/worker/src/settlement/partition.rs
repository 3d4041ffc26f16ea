//! Reconciler of one partition.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger},
};
use tokio::time::Instant;

use super::{
    Position, SettlementOptions,
    consumer::PartitionConsumer,
    monitor::STALL_MAX,
    step::{StepError, StepResult, settle_once, settle_via},
};
use crate::host::{NextRun, ReconcileError, Reconciler};

/// Interval between two releases of the log while nothing is settled.
const RELEASE_EVERY: Duration = Duration::from_secs(10);

/// Settles one partition, one step per run.
pub(super) struct PartitionSettlement {
    pub(super) partition: PartitionId,
    pub(super) log: Arc<dyn EventLog>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) options: Arc<SettlementOptions>,
    /// Consumer of the transport. Without one, entries are read from the log.
    pub(super) consumer: Option<PartitionConsumer>,
    pub(super) position: Arc<Mutex<Position>>,
    /// Whether the last run found that the log has lost entries.
    pub(super) rolled_back: bool,
    /// Time since which nothing was settled because replicas lack the entries.
    pub(super) waits_since: Option<Instant>,
    /// Time of the next release without a settled entry. Another process may have stopped between its commit and its
    /// release, and the log must still drop what it keeps for a limited time.
    pub(super) release_at: Instant,
}

impl PartitionSettlement {
    /// Releases settled entries from the log.
    async fn release(&mut self, step: StepResult) -> Result<(), StepError> {
        let due = self.release_at <= Instant::now();
        let released = if due && step.entries == 0 {
            match &mut self.consumer {
                Some(consumer) => consumer.ack(step.settled).await,
                None => self.log.release(self.partition, step.settled).await,
            }
        } else {
            step.released
        };
        if due || step.entries > 0 {
            self.release_at = Instant::now() + RELEASE_EVERY;
        }
        released.map_err(|error| {
            self.release_at = Instant::now();
            StepError::Log(error)
        })
    }

    /// Error for entries that replicas have lacked for a long time. A short wait is no fault of settlement.
    fn waits_for_replicas(&mut self, step: &StepResult) -> Option<ReconcileError> {
        let waiting = match step.entries {
            0 if self.log.awaits_replicas(self.partition) => step.head - step.settled,
            _ => 0,
        };
        if waiting == 0 {
            self.waits_since = None;
            return None;
        }
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= STALL_MAX).then(|| {
            let seconds = STALL_MAX.as_secs();
            ReconcileError(format!(
                "{waiting} entries have not been settled for {seconds} s, because replicas lack them"
            ))
        })
    }

    fn show(&self, head: Seq, settled: Seq) {
        let mut position = self.position.lock();
        (position.head, position.settled) = (head, settled);
    }
}

impl Reconciler for PartitionSettlement {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let (ledger, limit) = (&*self.ledger, self.options.entries_max);
        let step = match &mut self.consumer {
            Some(consumer) => {
                settle_via(consumer, ledger, limit, self.options.schedule.interval).await
            }
            None => settle_once(&*self.log, ledger, self.partition, limit).await,
        };
        let failing = |error: &StepError| ReconcileError(error.chain());
        match step {
            Ok(step) => {
                self.rolled_back = false;
                self.show(step.head, step.settled);
                let waits = self.waits_for_replicas(&step);
                let next = match step.entries >= limit {
                    true => NextRun::Again,
                    false => NextRun::Wait,
                };
                let released = self.release(step).await;
                released.map_err(|error| failing(&error))?;
                waits.map_or(Ok(next), Err)
            }
            Err(error @ StepError::RolledBack { settled, head }) => {
                self.show(head, settled);
                if !std::mem::replace(&mut self.rolled_back, true) {
                    (self.options.on_rollback)(self.partition, settled, head);
                }
                // The log refuses reads until it is repaired, possibly by another process.
                Err(failing(&error))
            }
            Err(error) => Err(failing(&error)),
        }
    }
}
