//! Evicts closed campaigns from the engine.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::PartitionId,
    ports::{EngineError, Ledger, RetireEngine},
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for closed campaigns.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Time for which a process keeps the lease after its last renewal.
const LEASE: Duration = Duration::from_secs(10);

/// Evicts closed campaigns of all partitions from an engine.
pub struct Retirement {
    engine: Arc<dyn RetireEngine>,
    ledger: Arc<dyn Ledger>,
}

impl Retirement {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates an evictor of this engine's campaigns that are completely in this ledger.
    #[must_use]
    pub fn new(engine: Arc<dyn RetireEngine>, ledger: Arc<dyn Ledger>) -> Self {
        Self { engine, ledger }
    }
}

impl Retirement {
    /// Performs one step in a partition. Returns whether there is more to do at once.
    async fn step(&self, partition: PartitionId) -> Result<bool, EngineError> {
        if !self.engine.leads_retiring(partition, LEASE).await? {
            return Ok(false);
        }
        Ok(self.engine.retire(partition, &*self.ledger).await?.more)
    }
}

impl Reconciler for Retirement {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let (mut next, mut failed) = (NextRun::Wait, None);
        for partition in self.engine.partitions() {
            // A partition that does not answer delays no other.
            match self.step(partition).await {
                Ok(true) => next = NextRun::Again,
                Ok(false) => {}
                Err(error) => {
                    let reason = || format!("partition {}: {error}", partition.0);
                    failed.get_or_insert_with(reason);
                }
            }
        }
        match failed {
            Some(reason) => Err(ReconcileError(reason)),
            None => Ok(next),
        }
    }
}
