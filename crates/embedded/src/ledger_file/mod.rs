//! The `Ledger` port of a file, whether it is an engine's or a standalone ledger: changes go to the writer as jobs,
//! queries to the readers. One file per group of stores.

mod accounts;
mod bindings;
mod campaigns;
mod histories;
mod keys;
mod metadata;
mod payouts;
mod repairs;
mod settlement;
mod webhooks;

use std::{ops::Deref, sync::Arc, time::Duration};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Creation, LedgerError},
};

use crate::{
    error::DataFileError,
    job::{Job, JobContext, LedgerJob},
    new_campaign_ids::{Entered, NewCampaignIds},
    positions::PartitionPositions,
    reader::Readers,
};

/// A ledger in a file. It implements the ledger's ports for each host.
#[derive(Clone)]
pub struct LedgerFile<H>(pub(crate) H);

impl<H: 'static> Deref for LedgerFile<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.0
    }
}

/// A file with the ledger's tables, its one writer, and its readers.
pub(crate) trait SqliteLedgerHost: Send + Sync {
    /// Gives a job to the writer, or answers it at once if the writer is closed.
    fn push_job(&self, job: Box<dyn LedgerJob>);

    /// Gives new campaigns to the writer, in the same way.
    fn push_campaigns(&self, campaigns: Box<NewCampaignIds>);

    fn readers(&self) -> &Arc<Readers>;

    /// Settled position of each partition, as committed.
    fn committed_positions(&self) -> &PartitionPositions;

    /// Refuses a partition that the file does not settle.
    fn admit(&self, partition: PartitionId) -> Result<(), LedgerError>;

    /// The last entry that this process has committed, if it decides entries itself: a sender's missing money may have
    /// been claimed in it and not be settled yet.
    fn last_committed(&self) -> Option<(PartitionId, Seq)>;
}

/// Runs work in the writer that settles this many entries.
pub(crate) async fn job<T: Send + 'static>(
    host: &impl SqliteLedgerHost,
    entries: usize,
    work: impl FnMut(&mut JobContext<'_, '_>) -> Result<T, DataFileError> + Send + 'static,
) -> Result<T, LedgerError> {
    let (job, receiver) = Job::boxed(entries, work);
    host.push_job(job);
    receiver
        .await
        .unwrap_or_else(|_| Err(LedgerError::unavailable("the writer is gone")))
}

/// Enters campaigns through the writer, and returns the result of each.
pub(crate) async fn enter(
    host: &impl SqliteLedgerHost,
    campaigns: Arc<[Creation]>,
) -> Result<Entered, LedgerError> {
    let (campaigns, receiver) = NewCampaignIds::boxed(campaigns);
    host.push_campaigns(campaigns);
    receiver
        .await
        .unwrap_or_else(|_| Err(LedgerError::unavailable("the writer is gone")))
}

/// Enters campaigns through the writer, all or none, and returns the result of each.
pub(crate) async fn enter_whole(
    host: &impl SqliteLedgerHost,
    campaigns: Arc<[Creation]>,
) -> Result<Entered, LedgerError> {
    let (mut campaigns, receiver) = NewCampaignIds::boxed(campaigns);
    campaigns.is_whole = true;
    host.push_campaigns(campaigns);
    receiver
        .await
        .unwrap_or_else(|_| Err(LedgerError::unavailable("the writer is gone")))
}

/// Longest wait of a sender with too little money for the settlement of recent claims.
pub(crate) const FUNDS_WAIT_MAX: Duration = Duration::from_secs(2);
