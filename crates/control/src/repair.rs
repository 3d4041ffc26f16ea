//! Repairs partitions that have lost something, by themselves, and lets settlement go on when they are whole again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use qiang_core::{
    event::PartitionId,
    ports::{EngineError, Ledger, RepairEngine, RepairState},
};
use tokio::time::Instant;

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often partitions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often it is asked how far the ledger is.
const POSITIONS_EVERY: Duration = Duration::from_secs(1);

/// Who repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Every process that looks after partitions; one at a time does it.
    Automatic,
    /// An operator, with `qiang partition repair`.
    Manual,
}

/// Is called when a partition that had lost something is whole again, whoever has repaired it.
pub type OnRepaired = Box<dyn Fn(PartitionId) + Send + Sync>;

/// Repairs an engine's partitions.
pub struct PartitionRepair {
    engine: Arc<dyn RepairEngine>,
    ledger: Arc<dyn Ledger>,
    mode: RepairMode,
    on_repaired: OnRepaired,
    lost: BTreeSet<PartitionId>,
    asked: Option<Instant>,
}

impl PartitionRepair {
    /// When it looks.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Repairs this engine from this ledger.
    #[must_use]
    pub fn new(
        engine: Arc<dyn RepairEngine>,
        ledger: Arc<dyn Ledger>,
        mode: RepairMode,
        on_repaired: OnRepaired,
    ) -> Self {
        Self {
            engine,
            ledger,
            mode,
            on_repaired,
            lost: BTreeSet::new(),
            asked: None,
        }
    }

    /// Has the engine drop what it keeps for a repair and the ledger has.
    async fn release(&mut self) -> Result<(), EngineError> {
        if self.asked.is_some_and(|at| at.elapsed() < POSITIONS_EVERY) {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let positions = self.ledger.positions().await;
        let positions = positions.map_err(|error| EngineError::Unavailable {
            reason: format!("the ledger: {error}"),
        })?;
        self.engine.release_kept(&positions);
        Ok(())
    }

    async fn look(&mut self, partition: PartitionId) -> Result<(), EngineError> {
        let mut lost = self.engine.has_lost(partition).await?;
        if lost && self.mode == RepairMode::Automatic {
            let repaired = self.engine.repair(partition, &*self.ledger, false).await?;
            lost = repaired == RepairState::Waiting;
            if let RepairState::Repaired(report) = repaired {
                tracing::warn!(
                    partition = partition.0,
                    campaigns = report.campaigns,
                    restored = report.restored,
                    appended = report.appended,
                    withheld = report.withheld,
                    unnamed = report.unnamed,
                    conflicts = report.conflicts.len(),
                    "a partition that had lost entries is repaired, and grants again"
                );
            }
        }
        if !lost && self.lost.remove(&partition) {
            (self.on_repaired)(partition);
        }
        Ok(())
    }
}

impl Reconciler for PartitionRepair {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let mut failed = BTreeMap::new();
        // Before anything is repaired: the repair of one partition may be that of others, too.
        for partition in self.engine.partitions() {
            match self.engine.has_lost(partition).await {
                Ok(true) => drop(self.lost.insert(partition)),
                Ok(false) => {}
                Err(error) => drop(failed.insert(partition, error)),
            }
        }
        for partition in self.engine.partitions() {
            // One that cannot be repaired holds up no other.
            if let Err(error) = self.look(partition).await {
                failed.insert(partition, error);
            }
        }
        let released = self.release().await;
        let first = failed.into_iter().next();
        let first = first.map(|(partition, error)| format!("partition {}: {error}", partition.0));
        match first.or_else(|| released.err().map(|error| error.to_string())) {
            Some(reason) => Err(Stuck::Failing(reason)),
            None => Ok(Next::Wait),
        }
    }
}
