//! The transport: what brings a partition's entries from its log to whoever settles them.

use std::time::Duration;

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// What a transport knows one delivery of a partition by.
pub type DeliveryTag = u64;

/// One record, item or message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// What it is acknowledged by.
    pub tag: DeliveryTag,
    /// Its entries, in order and without gaps; never none.
    pub entries: Vec<Entry>,
}

/// What a transport has for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Further deliveries; none if none came in the time.
    Deliveries(Vec<Delivery>),
    /// The first deliveries after the transport began anew. What was received before and is not acknowledged comes
    /// again, and its tags mean nothing any more.
    Restarted(Vec<Delivery>),
    /// Another worker has the partition. What was received before comes again, to whoever has it then.
    NotOwner,
}

/// How one partition's entries travel: for metrics and for readiness. A transport counts what it sees; whoever consumes
/// it adds [`waiting`](Self::waiting), [`unacknowledged`](Self::unacknowledged), [`refilled`](Self::refilled) and
/// [`stuck`](Self::stuck).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportStatus {
    /// Whether this worker settles the partition.
    pub ours: bool,
    /// What no worker has received yet, as of a moment ago, while this worker settles the partition: entries of a
    /// stream, items of a list, messages of a queue.
    pub queued: u64,
    /// Entries that were received and are not settled.
    pub waiting: u64,
    /// Deliveries (records, items, messages) that were received and are not acknowledged.
    pub unacknowledged: u64,
    /// Deliveries that came again: they were received before, here or by a worker that is gone.
    pub recovered: u64,
    /// Entries that were sent to the queue once more.
    pub republished: u64,
    /// Times that the connection was lost and made again.
    pub reconnected: u64,
    /// Leases that this worker lost while it held them: it did nothing for longer than a lease lasts, or could not
    /// renew it in time.
    pub leases_lost: u64,
    /// Entries that had to be read from the log, because the transport did not bring them.
    pub refilled: u64,
    /// Deliveries that could not be read, and were put where somebody can look at them.
    pub unreadable: u64,
    /// Times that the group, the list or the queue was missing and made anew.
    pub remade: u64,
    /// What is wrong, while something is.
    pub stuck: Option<String>,
}

/// Brings partitions' entries to whoever settles them, at least once.
///
/// It promises no order and no completeness: its consumer puts entries in order, and reads from the log what does not
/// come. What is received and not acknowledged comes again: after a restart of the transport to the same worker, and to
/// another one when this one dies. One worker has a partition at a time, so that workers do not do the same work twice;
/// nothing else depends on it, because the ledger takes every entry once, in order, and no other.
///
/// One task at a time receives and acknowledges for a partition. Both calls may be dropped before they end.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Brings what is there: about `limit` entries at most. Waits for the first delivery, or for the partition if
    /// another worker has it; at most `wait_max`, and less if that suits the transport. With a `limit` of 0 it brings
    /// and waits for nothing, and answers whether the partition is this worker's.
    ///
    /// `settled` is the ledger's position: a transport that has to be set up anew begins behind it.
    async fn receive(
        &self,
        partition: PartitionId,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Received, LedgerError>;

    /// Acknowledges deliveries, whose entries are in the ledger for good. Takes out of `tags` what need not be
    /// acknowledged again, also when it fails or is dropped.
    async fn ack(
        &self,
        partition: PartitionId,
        tags: &mut Vec<DeliveryTag>,
    ) -> Result<(), LedgerError>;

    /// How long an entry may take from the log to here: it is read from the log if it takes longer, and also if the
    /// transport fails for that long. None where an entry is in the log and on its way in one step, and where the log
    /// fails with the transport.
    fn delay_max(&self) -> Option<Duration> {
        None
    }

    /// Somebody waits for what was just appended to a partition: brings it at once, where it would not do so anyway.
    fn wake(&self, _partition: PartitionId) {}

    /// What it has counted of a partition.
    fn status(&self, partition: PartitionId) -> TransportStatus;

    /// Gives all partitions up, so that other workers take over at once. What is not acknowledged goes to them.
    async fn release_ownership(&self) {}
}
