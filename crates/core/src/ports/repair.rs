//! What an engine offers that can be repaired from a ledger.

use async_trait::async_trait;

use super::{EngineError, EventLog, Ledger};
use crate::{
    event::{PartitionId, Seq},
    id::CampaignId,
    reconcile::Difference,
};

/// What a repair came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Campaigns that were looked at.
    pub campaigns: u64,
    /// Rows that the engine had lost and has again.
    pub restored: u64,
    /// Entries that were appended, because neither the log nor the ledger had them.
    pub appended: u64,
    /// Units that are withheld.
    pub withheld: u64,
    /// Entries that nobody can name.
    pub unnamed: u64,
    /// Campaigns that were taken out of service: the ledger cannot read them, or has entries of them in quarantine.
    pub out_of_service: u64,
    /// What cannot be kept beside what the ledger has.
    pub conflicts: Vec<Difference>,
}

/// Where a partition stands between loss and repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairState {
    /// Nothing is lost.
    Whole,
    /// Something is lost, and it is too early to repair it: nodes have not said what they have answered, or another
    /// process repairs it.
    Waiting,
    /// It was repaired just now, and grants again.
    Repaired(RepairReport),
}

/// An engine whose partitions may lose entries, and can be held against a ledger and rebuilt from it.
#[async_trait]
pub trait RepairEngine: EventLog {
    /// The ledger has these partitions up to these entries: nothing has to be kept of them for a repair.
    fn release_kept(&self, settled: &[(PartitionId, Seq)]);

    /// Halts a partition if settlement has noted a gap in its log ([`EventLog::note_log_gap`]), and the ledger never
    /// had the entries: they were deleted by hand, and a repair restores them.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn halt_log_gap(&self, _partition: PartitionId) -> Result<(), EngineError> {
        Ok(())
    }

    /// Whether a partition is halted because something is lost. Changes nothing.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn has_lost(&self, partition: PartitionId) -> Result<bool, EngineError>;

    /// Repairs a partition if something is lost. With `at_once` nobody is waited for: what nodes have not said by now
    /// counts as unknown; and a ledger that was set back behind what has left the engine is taken at its word.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer, or when they hold what cannot be repaired. The partition stays
    /// halted, and the repair may be repeated.
    async fn repair(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<RepairState, EngineError>;

    /// The campaigns to which something may still happen in a partition, by the engine or by the ledger.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn live_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError>;

    /// Where a partition's part of a campaign differs from the ledger. Entries in flight are differences of the kind
    /// [`InFlight`](crate::reconcile::DifferenceKind::InFlight). While claims are decided, a difference may be one of
    /// the moment: it is one if it is still there later.
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
