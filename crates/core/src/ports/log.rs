//! Log from which settlement reads.

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// A partition's append-only sequence of entries, from which settlement reads.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// The partitions of this log.
    fn partitions(&self) -> Vec<PartitionId>;

    /// Epoch of a partition, which changes when the partition is rebuilt after a loss. Entries of another epoch may
    /// belong to a lost history. Empty if the log is never rebuilt. Waits for a bounded time until the epoch is known.
    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError>;

    /// The last entry of a partition; 0 if there is none. [`EventLog::read`] does not return it before it is durable.
    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// Up to `limit` durable entries after `after`, in order, without gaps. If the first of them were released and
    /// deleted, it begins with the first remaining one.
    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// Reports that the ledger has the partition up to `settled`: if the log ends earlier, it has lost entries. The
    /// engine needs to know, because it must then stop granting.
    fn note_settled(&self, _partition: PartitionId, _settled: Seq) {}

    /// Notes that entries `first` to `last` follow the ledger's position and that the log no longer has them. A process
    /// that repairs halts the partition ([`RepairEngine::halt_log_gap`](super::RepairEngine::halt_log_gap)); otherwise
    /// they stay unsettled.
    fn note_log_gap(&self, _partition: PartitionId, _first: Seq, _last: Seq) {}

    /// Whether the last read ended before the end of the log, because replicas do not have the following entries yet.
    fn awaits_replicas(&self, _partition: PartitionId) -> bool {
        false
    }

    /// Reports that entries up to and including `upto` are in the ledger. The log may delete them, at once or later.
    async fn release(&self, _partition: PartitionId, _upto: Seq) -> Result<(), LedgerError> {
        Ok(())
    }
}
