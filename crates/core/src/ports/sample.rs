//! Trait of engines that are continuously compared with a ledger, in samples of rows.

use std::time::Duration;

use async_trait::async_trait;

use super::{EngineError, Ledger, RepairEngine};
use crate::{
    event::PartitionId,
    id::CampaignId,
    reconcile::{CampaignComparison, Difference},
};

/// Position of a walk over the rows of a campaign's shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleCursor {
    /// Before the rows with numbers above `after`.
    Rows {
        /// The number.
        after: u32,
        /// Last number of both sides at the start of the walk, so that new rows do not prolong the walk. `None` before
        /// it is known.
        until: Option<u32>,
    },
    /// Among rows of the engine that are not found by number.
    Scan {
        /// Position in the engine's own format.
        cursor: String,
    },
    /// Among the users of a sale.
    Users {
        /// Position in the engine's own format.
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

/// Result of comparing some rows of a campaign's shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleResult {
    /// Number of compared numbers.
    pub rows: u64,
    /// Differences between engine and ledger; entries in flight are a kind of their own.
    pub differences: Vec<Difference>,
    /// Position of the next sample; `None` at the end of the shard.
    pub next: Option<SampleCursor>,
}

/// An engine whose rows can be compared with a ledger's, in samples.
#[async_trait]
pub trait SampleEngine: RepairEngine {
    /// Whether this process reconciles a partition, from now on for `lease`. If not, another process may.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn leads_sampling(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError>;

    /// Compares about `rows_max` rows of a partition's shard of a campaign with the ledger, in both directions. Returns
    /// `None` if it must be tried later: the partition is not open, or too many of its entries are in flight. As with
    /// [`RepairEngine::differences`], a difference is real only if a later call still finds it.
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
    ) -> Result<Option<SampleResult>, EngineError>;

    /// Number of a partition's campaigns that repairs have taken out of service, until the ledger can read them and
    /// their quarantine is redriven.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn count_out_of_service(&self, partition: PartitionId) -> Result<u64, EngineError>;

    /// Compares the facts of a partition's shard of a campaign, such as phase, stock and terms, once. A difference is
    /// real only if a later call still finds it.
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
