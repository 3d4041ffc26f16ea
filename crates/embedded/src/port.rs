//! The `Ledger` and `EventLog` ports of the embedded engine.

use std::sync::Arc;

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{EventLog, LedgerError},
};

use crate::{
    Embedded, PARTITION,
    job::LedgerJob,
    ledger_file::SqliteLedgerHost,
    log,
    log::EventRefs,
    new_campaign_ids::NewCampaignIds,
    positions::PartitionPositions,
    reader::{self, Readers},
    task::WriterTask,
};

impl SqliteLedgerHost for Embedded {
    fn push_job(&self, job: Box<dyn LedgerJob>) {
        self.push(WriterTask::Ledger(job));
    }

    fn push_campaigns(&self, campaigns: Box<NewCampaignIds>) {
        self.push(WriterTask::Enter(campaigns));
    }

    fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    fn committed_positions(&self) -> &PartitionPositions {
        &self.shared.positions
    }

    fn admit(&self, partition: PartitionId) -> Result<(), LedgerError> {
        if partition == PARTITION {
            return Ok(());
        }
        let reason = format!("this file has partition 0 alone, and not {}", partition.0);
        Err(LedgerError::Damaged { reason })
    }

    fn last_committed(&self) -> Option<(PartitionId, Seq)> {
        Some((PARTITION, self.positions().0))
    }
}

#[async_trait]
impl EventLog for Embedded {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PARTITION]
    }

    async fn epoch(&self, _partition: PartitionId) -> Result<String, LedgerError> {
        Ok(String::new())
    }

    async fn head(&self, _partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.positions().0)
    }

    async fn read(
        &self,
        _partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        reader::query(&self.readers, move |conn| {
            let mut entries = Vec::new();
            log::read(conn, &mut EventRefs::default(), after, limit, |entry| {
                entries.push(entry)
            })?;
            Ok(entries)
        })
        .await
    }
}
