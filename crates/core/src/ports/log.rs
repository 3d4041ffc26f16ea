//! The log as settlement reads it.

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// A partition's append-only sequence of entries, as settlement reads it.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// The partitions of this log.
    fn partitions(&self) -> Vec<PartitionId>;

    /// The epoch of a partition: another one once it was rebuilt after a loss. What was read or sent in another epoch
    /// may be of a history that is lost. Empty where nothing is ever rebuilt. Waits, in a bounded time, until it is
    /// known.
    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError>;

    /// The last entry of a partition; 0 when there is none. It may be one that [`EventLog::read`] does not give yet,
    /// because it is not kept for good.
    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError>;

    /// Up to `limit` entries after `after`, in order, without gaps, as far as they are kept for good. Entries that were
    /// released may be gone, in which case it begins with the first one that is not.
    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError>;

    /// The ledger has the partition up to `settled`: a log that ends before it has lost something. Whoever grants has
    /// to know.
    fn note_settled(&self, _partition: PartitionId, _settled: Seq) {}

    /// Notes that entries `first` to `last` follow the ledger's position and that the log no longer has them. A process
    /// that repairs halts the partition ([`RepairEngine::halt_log_gap`](super::RepairEngine::halt_log_gap)); otherwise
    /// they stay unsettled.
    fn note_log_gap(&self, _partition: PartitionId, _first: Seq, _last: Seq) {}

    /// Whether the last read ended before the log does, because what follows is not kept for good yet: replicas do not
    /// have it.
    fn awaits_replicas(&self, _partition: PartitionId) -> bool {
        false
    }

    /// Entries up to and with `upto` are in the ledger: the log may forget them, at once or after a while.
    async fn release(&self, _partition: PartitionId, _upto: Seq) -> Result<(), LedgerError> {
        Ok(())
    }
}
