//! Transport: carries a partition's entries from its log to the consumer that settles them.

use std::time::Duration;

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// Number by which a transport identifies one delivery of a partition.
pub type DeliveryTag = u64;

/// One record, item or message of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Tag that acknowledges it.
    pub tag: DeliveryTag,
    /// Its entries, in order and without gaps; at least one.
    pub entries: Vec<Entry>,
}

/// Result of receiving a partition's deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryBatch {
    /// Further deliveries; empty if none arrived in time.
    Deliveries(Vec<Delivery>),
    /// The first deliveries after a restart of the transport. Earlier deliveries without acknowledgement arrive again;
    /// their old tags are invalid.
    Restarted(Vec<Delivery>),
    /// Another worker has the partition. The worker that has it receives unacknowledged deliveries again.
    NotOwner,
}

/// Status of the transport of one partition, for metrics and readiness. The transport counts what it observes; its
/// consumer adds [`waiting`](Self::waiting), [`unacknowledged`](Self::unacknowledged), [`refilled`](Self::refilled) and
/// [`stuck`](Self::stuck).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportStatus {
    /// Whether this worker settles the partition.
    pub ours: bool,
    /// Entries of a stream, items of a list or messages of a queue that no worker has received yet. Updated
    /// periodically while this worker settles the partition.
    pub queued: u64,
    /// Entries that were received and are not settled yet.
    pub waiting: u64,
    /// Deliveries (records, items, messages) that were received and are not acknowledged yet.
    pub unacknowledged: u64,
    /// Repeated deliveries: this worker, or one that stopped, received them before.
    pub recovered: u64,
    /// Entries that were sent to the queue again.
    pub republished: u64,
    /// Number of reconnections after a loss of the connection.
    pub reconnected: u64,
    /// Leases that this worker lost while it held them: it paused for longer than a lease lasts, or could not renew it
    /// in time.
    pub leases_lost: u64,
    /// Entries that were read from the log, because the transport did not deliver them.
    pub refilled: u64,
    /// Deliveries that could not be read, and were stored for inspection.
    pub unreadable: u64,
    /// Number of times that the consumer group, list or queue was recreated after a loss.
    pub remade: u64,
    /// Current error, if there is one.
    pub stuck: Option<String>,
}

/// Delivers partitions' entries to the consumers that settle them, at least once.
///
/// It guarantees neither order nor completeness: its consumer sorts entries, and reads missing ones from the log. A
/// delivery without acknowledgement arrives again: after a restart of the transport at the same worker, and at another
/// one if this worker stops. A partition has one worker at a time, which only avoids repeated work. Correctness does
/// not depend on it, because the ledger accepts each entry once and in order.
///
/// One task at a time receives and acknowledges for a partition. Both futures may be dropped before they complete.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Returns available deliveries, with about `limit` entries at most. Waits for the first delivery, or for the
    /// partition if another worker has it; at most `wait_max`, and less if that suits the transport. With a `limit` of
    /// 0 it returns and awaits no delivery, and only reports whether this worker has the partition.
    ///
    /// `settled` is the ledger's position: a transport that must be recreated begins after it.
    async fn receive(
        &self,
        partition: PartitionId,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError>;

    /// Acknowledges deliveries whose entries are durable in the ledger. Removes from `tags` each tag that needs no
    /// further acknowledgement, even if the call fails or is dropped.
    async fn ack(
        &self,
        partition: PartitionId,
        tags: &mut Vec<DeliveryTag>,
    ) -> Result<(), LedgerError>;

    /// Maximum time of an entry from the log to the consumer. If it takes longer, or if the transport fails for this
    /// long, the entry is read from the log. `None` if one step writes an entry to both the log and the transport, and
    /// the log fails with the transport.
    fn delay_max(&self) -> Option<Duration> {
        None
    }

    /// Reports that a caller waits for entries that were just appended to a partition. A transport that delays
    /// deliveries delivers them at once.
    fn wake(&self, _partition: PartitionId) {}

    /// Status of a partition's transport.
    fn status(&self, partition: PartitionId) -> TransportStatus;

    /// Releases all partitions, so that other workers take over at once and receive unacknowledged deliveries.
    async fn release_ownership(&self) {}
}
