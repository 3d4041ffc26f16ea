//! Attempt of one process at the repair of one partition.

use crate::event::PartitionId;

/// Attempt of one process at the repair of one partition.
///
/// The ledger numbers the attempts at each partition and accepts writes of the last one alone. If a process was stopped
/// and continues after another one has taken over, the ledger refuses its writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairAttempt {
    /// Partition that is repaired.
    pub partition: PartitionId,
    /// Number of the attempt, from 1: one more than that of the last attempt before the process took the repair in the
    /// engine.
    pub number: u64,
    /// Random name of the process's attempt. If two processes claim one number, one gets it.
    pub repairer: String,
}
