//! The reconciler of one partition.

use std::sync::Arc;

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger},
};

use super::{
    Options, Position,
    consumer::PartitionConsumer,
    step::{StepError, StepResult, settle_once, settle_via},
};
use crate::host::{Next, Reconciler, Stuck};

/// Settles one partition, a step a run.
pub(super) struct PartitionSettlement {
    pub(super) partition: PartitionId,
    pub(super) log: Arc<dyn EventLog>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) options: Arc<Options>,
    /// Brings the entries; without one they are read from the log.
    pub(super) consumer: Option<PartitionConsumer>,
    pub(super) position: Arc<Mutex<Position>>,
    /// Whether the log still has to learn what it may forget: somebody may have died before saying it.
    pub(super) unreleased: bool,
}

impl PartitionSettlement {
    /// Sees to it that the log knows what it may forget.
    async fn release(&mut self, step: StepResult) -> Result<(), StepError> {
        let released = if self.unreleased && step.entries == 0 {
            match &mut self.consumer {
                Some(consumer) => consumer.ack(step.settled).await,
                None => self.log.release(self.partition, step.settled).await,
            }
        } else {
            step.released
        };
        self.unreleased = released.is_err();
        released.map_err(StepError::Log)
    }

    fn show(&self, head: Seq, settled: Seq) {
        let mut position = self.position.lock();
        (position.head, position.settled) = (head, settled);
    }
}

impl Reconciler for PartitionSettlement {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let (ledger, limit) = (&*self.ledger, self.options.entries_max);
        let step = match &mut self.consumer {
            Some(consumer) => {
                settle_via(consumer, ledger, limit, self.options.schedule.interval).await
            }
            None => settle_once(&*self.log, ledger, self.partition, limit).await,
        };
        let failing = |error: &StepError| Stuck::Failing(error.chain());
        match step {
            Ok(step) => {
                self.show(step.head, step.settled);
                let next = match step.entries >= limit {
                    true => Next::Again,
                    false => Next::Wait,
                };
                let released = self.release(step).await;
                released.map(|()| next).map_err(|error| failing(&error))
            }
            Err(error @ StepError::RolledBack { settled, head }) => {
                self.show(head, settled);
                (self.options.on_rollback)(self.partition, settled, head);
                Err(Stuck::Halted(error.chain()))
            }
            Err(error) => Err(failing(&error)),
        }
    }
}
