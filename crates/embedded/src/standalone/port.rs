//! The `Ledger` port of the standalone ledger.

use std::sync::Arc;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::LedgerError,
};

use super::SqliteLedger;
use crate::{
    account_host::impl_accounts,
    binding_host::impl_binding,
    history_host::impl_history,
    job::LedgerJob,
    key_host::impl_keys,
    ledger_host::{SqliteLedgerHost, impl_ledger},
    new_campaign_ids::NewCampaignIds,
    payout_host::impl_payouts,
    positions::PartitionPositions,
    reader::Readers,
    repair_host::impl_repairs,
    webhook_host::impl_webhooks,
};

impl_ledger!(SqliteLedger);
impl_accounts!(SqliteLedger);
impl_binding!(SqliteLedger);
impl_repairs!(SqliteLedger);
impl_keys!(SqliteLedger);
impl_payouts!(SqliteLedger);
impl_webhooks!(SqliteLedger);
impl_history!(SqliteLedger);

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
