//! Trait of engines that can be repaired from a ledger.

use async_trait::async_trait;

use super::{EngineError, EventLog, Ledger};
use crate::{
    event::{PartitionId, Seq},
    id::CampaignId,
    reconcile::Difference,
};

/// Result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Campaigns that were examined.
    pub campaigns: u64,
    /// Lost rows of the engine that were restored.
    pub restored: u64,
    /// Entries that were appended, because neither the log nor the ledger had them.
    pub appended: u64,
    /// Units that are withheld.
    pub withheld: u64,
    /// Lost entries whose content is unknown.
    pub unnamed: u64,
    /// Campaigns that were taken out of service: the ledger cannot read them, or has entries of them in quarantine.
    pub out_of_service: u64,
    /// Rows of the engine that contradict the ledger.
    pub conflicts: Vec<Difference>,
}

/// Repair state of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairState {
    /// Nothing is lost.
    Whole,
    /// Entries are lost, and the repair must wait: nodes have not reported their answers yet, or another process
    /// repairs the partition.
    Waiting,
    /// The partition was just repaired, and grants again.
    Repaired(RepairReport),
}

/// An engine whose partitions may lose entries. It can be compared with a ledger and rebuilt from it.
#[async_trait]
pub trait RepairEngine: EventLog {
    /// Reports that the ledger has these partitions up to these entries, so that nodes need not keep them for a repair.
    fn release_kept(&self, settled: &[(PartitionId, Seq)]);

    /// Halts a partition if settlement has noted a gap in its log ([`EventLog::note_log_gap`]), and the ledger never
    /// had the entries: they were deleted by hand, and a repair restores them.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn halt_log_gap(&self, _partition: PartitionId) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether a partition is halted because of a loss. Changes nothing.
    ///
    /// # Errors
    /// If the engine does not answer.
    async fn has_lost(&self, partition: PartitionId) -> Result<bool, EngineError>;

    /// Repairs a partition after a loss. With `at_once`, it does not wait for nodes: entries that they have not
    /// reported yet count as unknown. It then also accepts a ledger that was restored from a state older than the
    /// engine's oldest data.
    ///
    /// # Errors
    /// If the engine or the ledger does not answer, or their contents cannot be repaired. The partition stays halted,
    /// and the repair may be repeated.
    async fn repair(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<RepairState, EngineError>;

    /// The campaigns of a partition that may still change, according to the engine or the ledger.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn live_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError>;

    /// Differences between a partition's shard of a campaign and the ledger. Entries in flight are differences of the
    /// kind [`InFlight`](crate::reconcile::DifferenceKind::InFlight). While claims are decided, a difference may be
    /// temporary: it is real only if a later call still finds it.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn differences(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<Difference>, EngineError>;
}
