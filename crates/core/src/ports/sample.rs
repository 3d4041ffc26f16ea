//! What an engine offers that is held against a ledger all the time, some rows at a time.

use std::time::Duration;

use async_trait::async_trait;

use super::{EngineError, Ledger, RepairEngine};
use crate::{
    event::PartitionId,
    id::CampaignId,
    reconcile::{CampaignComparison, Difference},
};

/// Where a walk over the rows of a campaign's part stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleCursor {
    /// Before the rows with higher numbers.
    Rows {
        /// The number.
        after: u32,
        /// Where both sides ended when the walk began: what grows faster than the walk goes does not hold it up.
        /// None before that is known.
        until: Option<u32>,
    },
    /// Among those rows of the engine that no number leads to.
    Scan {
        /// As the engine knows the place.
        cursor: String,
    },
}

impl Default for SampleCursor {
    fn default() -> Self {
        Self::Rows {
            after: 0,
            until: None,
        }
    }
}

/// Some rows of a campaign's part, held against each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// How many numbers were looked at.
    pub rows: u64,
    /// Where the sides differ; entries in flight are differences of their own kind.
    pub differences: Vec<Difference>,
    /// Where to go on; none at the end of the part.
    pub next: Option<SampleCursor>,
}

/// An engine whose rows can be held against a ledger's, some at a time.
#[async_trait]
pub trait SampleEngine: RepairEngine {
    /// Whether this process is the one that reconciles a partition, from now on for so long. Another one may be.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn leads_sampling(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError>;

    /// Holds about `rows_max` rows of a partition's part of a campaign against the ledger, in both directions. None
    /// where it is not the time for it: the partition is not open, or too much of it is in flight. As with
    /// [`RepairEngine::differences`], a difference is one if it is still there later.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn sample(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
        cursor: &SampleCursor,
        rows_max: u32,
    ) -> Result<Option<Sample>, EngineError>;

    /// Number of a partition's campaigns that repairs have taken out of service, until the ledger can read them and
    /// their quarantine is redriven.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn count_out_of_service(&self, partition: PartitionId) -> Result<u64, EngineError>;

    /// Compares the facts of a partition's part of a campaign, such as phase, stock and terms, once. A difference is
    /// one if it is still there later.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn compare_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<CampaignComparison, EngineError>;
}
