//! The `Ledger` port of the standalone ledger.

use std::sync::Arc;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::LedgerError,
};

use super::SqliteLedger;
use crate::{
    job::LedgerJob, ledger_file::SqliteLedgerHost, new_campaign_ids::NewCampaignIds,
    positions::PartitionPositions, reader::Readers,
};

impl SqliteLedgerHost for SqliteLedger {
    fn push_job(&self, job: Box<dyn LedgerJob>) {
        self.push(job);
    }

    /// Queues campaigns of any size as one job: no claim waits for this writer.
    fn push_campaigns(&self, campaigns: Box<NewCampaignIds>) {
        self.push(campaigns);
    }

    fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    fn committed_positions(&self) -> &PartitionPositions {
        &self.shared.positions
    }

    fn admit(&self, partition: PartitionId) -> Result<(), LedgerError> {
        self.shared.positions.watch(partition).map(drop)
    }

    fn last_committed(&self) -> Option<(PartitionId, Seq)> {
        None
    }
}
