//! Has closed campaigns leave the engine.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::PartitionId,
    ports::{EngineError, Ledger, RetireEngine},
};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often it is looked for them.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// For how long a process does it that is not heard of.
const LEASE: Duration = Duration::from_secs(10);

/// Has closed campaigns of all partitions leave an engine.
pub struct Retirement {
    engine: Arc<dyn RetireEngine>,
    ledger: Arc<dyn Ledger>,
}

impl Retirement {
    /// When it runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Campaigns leave this engine once this ledger has everything of them.
    #[must_use]
    pub fn new(engine: Arc<dyn RetireEngine>, ledger: Arc<dyn Ledger>) -> Self {
        Self { engine, ledger }
    }
}

impl Retirement {
    /// One step in a partition; whether there is more to do at once.
    async fn step(&self, partition: PartitionId) -> Result<bool, EngineError> {
        if !self.engine.leads_retiring(partition, LEASE).await? {
            return Ok(false);
        }
        Ok(self.engine.retire(partition, &*self.ledger).await?.more)
    }
}

impl Reconciler for Retirement {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let (mut next, mut failed) = (Next::Wait, None);
        for partition in self.engine.partitions() {
            // One that does not answer holds up no other.
            match self.step(partition).await {
                Ok(true) => next = Next::Again,
                Ok(false) => {}
                Err(error) => {
                    let reason = || format!("partition {}: {error}", partition.0);
                    failed.get_or_insert_with(reason);
                }
            }
        }
        match failed {
            Some(reason) => Err(Stuck(reason)),
            None => Ok(next),
        }
    }
}
