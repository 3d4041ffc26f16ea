//! What an engine offers to whoever looks after its partitions.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;

use super::{EngineError, Ledger, RepairEngine};
use crate::{
    event::{PartitionId, Seq},
    id::CampaignId,
    reconcile::{CampaignDifference, Difference},
    time::Timestamp,
};

/// A node as a partition has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSighting {
    /// Its name.
    pub node: String,
    /// When it was heard of last, by the engine's clock.
    pub seen_at: Timestamp,
    /// The term in which it has reported.
    pub term: u64,
    /// The last entry that it has observed.
    pub observed: Seq,
}

/// A partition as its engine has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionView {
    /// Fields of its state, by the names that the engine keeps them under.
    pub state: BTreeMap<String, String>,
    /// The nodes that it has seen.
    pub nodes: Vec<NodeSighting>,
    /// Units that are withheld, by campaign.
    pub withheld: BTreeMap<CampaignId, u64>,
}

/// What was found where a partition was held against the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Campaigns that were compared to their end.
    pub campaigns: u64,
    /// Rows that were compared.
    pub rows: u64,
    /// Where the sides differ, and did so again a moment later.
    pub differences: Vec<Difference>,
    /// Facts of campaigns in which the sides differ, and did so again a moment later.
    pub campaign_differences: Vec<CampaignDifference>,
    /// Whether everything that is live was compared: a campaign that cannot be compared is passed over.
    pub is_complete: bool,
}

/// An engine whose partitions are looked at, repaired and resumed by hand.
#[async_trait]
pub trait OperatorEngine: RepairEngine {
    /// What the engine has of a partition.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn view(&self, partition: PartitionId) -> Result<PartitionView, EngineError>;

    /// Holds what is live of a partition against the ledger, in both directions, and stops after `time_max`. Nothing
    /// is changed.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer, the partition is not open, or too much of it is in flight.
    async fn reconcile(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        time_max: Duration,
    ) -> Result<Reconciled, EngineError>;

    /// Ends a partition's halt without a repair: a loss is taken as it is. False where it is not halted.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn resume(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<bool, EngineError>;

    /// Gives back what repairs have withheld in a partition; returns how many units that was.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer, or the partition is not open.
    async fn give_back(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<u64, EngineError>;
}
