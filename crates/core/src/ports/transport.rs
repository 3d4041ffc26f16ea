//! The transport: how a partition's entries travel from its log to whoever settles them.

use std::time::Duration;

use async_trait::async_trait;

use super::LedgerError;
use crate::event::{Entry, PartitionId, Seq};

/// What a transport has for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// Entries without a gap, the first right after the position that was asked for.
    Run(Vec<Entry>),
    /// Nothing came in the time; or what came does not follow the position, which may have grown old: it is to be read
    /// again, and asked for again.
    Nothing,
    /// Another worker settles this partition. It may be asked for again, in case that one dies.
    NotOwner,
}

/// How a transport is with one partition: for metrics and for readiness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportStatus {
    /// Whether this worker settles the partition.
    pub ours: bool,
    /// What no worker has been handed yet, as of a moment ago, while this worker settles the partition: entries of a
    /// stream, items of a list, messages of a queue.
    pub queued: u64,
    /// Entries that were brought and are not settled.
    pub waiting: u64,
    /// Deliveries (records, items, messages) that were brought and are not acknowledged.
    pub unacknowledged: u64,
    /// Deliveries that came again: what was handed out before, here or to a worker that is gone.
    pub recovered: u64,
    /// Entries that were sent to the queue once more.
    pub republished: u64,
    /// Times that the connection was lost and made again.
    pub reconnected: u64,
    /// Entries that had to be read from the log, because the transport did not bring them.
    pub refilled: u64,
    /// Deliveries that could not be read, and were put where somebody can look at them.
    pub unreadable: u64,
    /// Times that the group, the list or the queue was missing and made anew.
    pub remade: u64,
    /// What is wrong, while something is.
    pub stuck: Option<String>,
}

/// Carries partitions' entries to the ledger: at least once, in order, and nothing past what is missing.
///
/// Whoever settles takes entries after the ledger's position, settles them, and says [`Transport::done`] after the
/// commit. What was taken and is not done comes again: to the same worker when it takes again, to another one when it
/// dies. A partition is one worker's at a time, so that workers do not do the same work twice; but nothing depends on
/// it, because the ledger takes every entry once, in order, and no other.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// The partitions that it carries.
    fn partitions(&self) -> Vec<PartitionId>;

    /// Up to `limit` entries right after `after`, which is the ledger's position. Waits for the first one, at most
    /// `wait_max`. May be dropped before it ends.
    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError>;

    /// Entries up to and with `settled` are in the ledger for good: they are acknowledged, and the log may forget them.
    async fn done(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError>;

    /// How it is with a partition.
    fn status(&self, partition: PartitionId) -> TransportStatus;

    /// Lets other workers take over at once. What was taken and is not done goes to them.
    async fn leave(&self) {}
}
