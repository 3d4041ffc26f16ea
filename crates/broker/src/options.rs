//! What can be set, and the bounds of everything that waits.

use std::time::Duration;

use qiang_core::event::PartitionId;

/// Entries of one message.
pub(crate) const MESSAGE_ENTRIES_MAX: usize = 512;
/// Messages that a relay has published and RabbitMQ has not confirmed.
pub(crate) const UNCONFIRMED_MAX: usize = 32;
/// Entries that a relay is ahead of the ledger at most: so many are in the queue when nobody consumes.
pub(crate) const AHEAD_MAX: u64 = 262_144;
/// How often a relay looks whether the log has grown.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);
/// How often a relay asks whether the one that relays the partition is gone.
pub(crate) const LOCK_POLL: Duration = Duration::from_millis(500);
/// Pauses after failures grow from the first to the second.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long RabbitMQ may take for one answer.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(5);
/// How often a message may come again before RabbitMQ puts it aside. It counts each time that a worker dies or loses
/// its connection, and RabbitMQ 4 would stop at 20: a message has done nothing wrong by that.
pub(crate) const DELIVERIES_MAX: i64 = 1_000_000;
/// Messages that nobody can read of which the last are kept.
pub(crate) const DEAD_MAX: i64 = 1_000;

/// What can be set about the transport. Not to be printed: the URL may hold a password.
#[derive(Clone)]
pub struct Options {
    /// `amqp://` or `amqps://` URL of RabbitMQ.
    pub url: String,
    /// What every queue's name begins with.
    pub prefix: String,
    /// The worker's name, as RabbitMQ shows it.
    pub worker: String,
    /// Messages that RabbitMQ hands out before the first of them is acknowledged.
    pub prefetch: u16,
    /// How often both sides say that they are alive.
    pub heartbeat_seconds: u16,
    /// How long entries that are in the log may take to come before they are read from it; and how long RabbitMQ is
    /// not asked again when it has failed for that long.
    pub patience: Duration,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(url: &str, worker: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: "qiang".to_owned(),
            worker: worker.to_owned(),
            prefetch: 64,
            heartbeat_seconds: 10,
            patience: Duration::from_secs(5),
        }
    }

    /// A partition's queue.
    pub(crate) fn queue(&self, partition: PartitionId) -> String {
        format!("{}.p{:02}", self.prefix, partition.0)
    }

    /// Messages that nobody could read.
    pub(crate) fn dead(&self, partition: PartitionId) -> String {
        format!("{}.dead", self.queue(partition))
    }

    /// Who has this queue relays the partition. Nothing is ever in it.
    pub(crate) fn lock(&self, partition: PartitionId) -> String {
        format!("{}.relay", self.queue(partition))
    }
}
