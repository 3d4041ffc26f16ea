//! Trait of engines for operators of partitions.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;

use super::{EngineError, Ledger, RepairEngine};
use crate::{
    event::{PartitionId, Seq},
    id::CampaignId,
    reconcile::{CampaignDifference, Difference},
    time::Timestamp,
};

/// A node as observed by a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSighting {
    /// Its name.
    pub node: String,
    /// Time of its last report, by the engine's clock.
    pub seen_at: Timestamp,
    /// Leadership term of that report.
    pub term: u64,
    /// Last entry that it has observed.
    pub observed: Seq,
}

/// A partition's state in its engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionView {
    /// Fields of its state, by the engine's names.
    pub state: BTreeMap<String, String>,
    /// Nodes that it has observed.
    pub nodes: Vec<NodeSighting>,
    /// Units that are withheld, by campaign.
    pub withheld: BTreeMap<CampaignId, u64>,
}

/// Result of comparing a partition with the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReconcileResult {
    /// Campaigns that were compared completely.
    pub campaigns: u64,
    /// Rows that were compared.
    pub rows: u64,
    /// Differences that a second comparison a moment later still found.
    pub differences: Vec<Difference>,
    /// Differences in facts of campaigns that a second comparison a moment later still found.
    pub campaign_differences: Vec<CampaignDifference>,
    /// Whether all live campaigns were compared. A campaign that cannot be compared is skipped.
    pub is_complete: bool,
}

/// An engine whose partitions operators view, repair and resume.
#[async_trait]
pub trait OperatorEngine: RepairEngine {
    /// State of a partition in the engine.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn view(&self, partition: PartitionId) -> Result<PartitionView, EngineError>;

    /// Compares the live campaigns of a partition with the ledger, in both directions, and stops after `time_max`.
    /// Changes nothing.
    ///
    /// # Errors
    /// If the engine or the ledger does not answer, the partition is not open, or too many of its entries are in
    /// flight.
    async fn reconcile(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        time_max: Duration,
    ) -> Result<ReconcileResult, EngineError>;

    /// Ends a partition's halt without a repair, and accepts the loss. Returns false if it is not halted.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn resume(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<bool, EngineError>;

    /// Releases the units that repairs withhold in a partition; returns their number.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer, or the partition is not open.
    async fn give_back(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<u64, EngineError>;
}
