//! The log as settlement reads it.

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// A partition's append-only sequence of entries, as settlement reads it.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// The partitions of this log.
    fn partitions(&self) -> Vec<PartitionId>;

    /// The last entry of a partition that is kept for good; 0 when there is none.
    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// Up to `limit` entries after `after`, in order, without gaps. Entries that were released may be gone.
    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Entries up to and with `upto` are in the ledger for good: the log may forget them.
    async fn release(&self, _partition: PartitionId, _upto: Seq) -> Result<(), LedgerError> {
        Ok(())
    }
}
