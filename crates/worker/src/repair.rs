//! Repairs partitions after a loss of data, automatically.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::PartitionId,
    ports::{EngineError, Ledger, RepairEngine, RepairState},
};

use crate::host::{Host, NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two checks of a partition.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Maximum pause after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Actor that starts repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairMode {
    /// Every process that runs the reconcilers. One at a time performs a repair.
    Automatic,
    /// An operator, with `qiang partition repair`.
    Manual,
}

/// Starts one reconciler per partition of an engine, so a long or failing repair delays no other partition. Needs a
/// tokio runtime.
pub fn start_all(
    host: &Host,
    engine: &Arc<dyn RepairEngine>,
    ledger: &Arc<dyn Ledger>,
    mode: RepairMode,
) {
    if mode == RepairMode::Manual {
        return;
    }
    for partition in engine.partitions() {
        let repair = PartitionRepair {
            engine: Arc::clone(engine),
            ledger: Arc::clone(ledger),
            partition,
        };
        let name = format!("repair of partition {}", partition.0);
        host.start(&name, PartitionRepair::SCHEDULE, repair);
    }
}

/// Repairs one partition.
struct PartitionRepair {
    engine: Arc<dyn RepairEngine>,
    ledger: Arc<dyn Ledger>,
    partition: PartitionId,
}

impl PartitionRepair {
    const SCHEDULE: Schedule = Schedule {
        backoff_max: BACKOFF_MAX,
        ..Schedule::every(LOOK_EVERY)
    };

    async fn check_partitions(&mut self) -> Result<(), EngineError> {
        let partition = self.partition;
        self.engine.halt_log_gap(partition).await?;
        if self.engine.has_lost(partition).await? {
            let repaired = self.engine.repair(partition, &*self.ledger, false).await?;
            if let RepairState::Repaired(report) = repaired {
                tracing::warn!(
                    partition = partition.0,
                    campaigns = report.campaigns,
                    restored = report.restored,
                    appended = report.appended,
                    withheld = report.withheld,
                    unnamed = report.unnamed,
                    out_of_service = report.out_of_service,
                    conflicts = report.conflicts.len(),
                    "a partition that had lost entries is repaired, and grants again"
                );
            }
        }
        Ok(())
    }
}

impl Reconciler for PartitionRepair {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let looked = self.check_partitions().await;
        let failing = |error: EngineError| ReconcileError(error.to_string());
        looked.map(|()| NextRun::Wait).map_err(failing)
    }
}
