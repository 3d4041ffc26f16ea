//! Options of the transport, and limits of all its waits.

use std::time::Duration;

use qiang_core::event::PartitionId;

/// Maximum entries per message.
pub(crate) const MESSAGE_ENTRIES_MAX: usize = 512;
/// Maximum messages that a relay has published and RabbitMQ has not confirmed.
pub(crate) const UNCONFIRMED_MAX: usize = 32;
/// Maximum entries that a relay is ahead of the ledger. It bounds the queue if nothing consumes.
pub(crate) const AHEAD_MAX: u64 = 262_144;
/// Interval at which a relay checks the log for new entries.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);
/// Interval at which a relay checks whether another relay of the partition has stopped.
pub(crate) const LOCK_POLL: Duration = Duration::from_millis(500);
/// First and longest pause after failures; each pause doubles the one before.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Time limit for one answer of RabbitMQ.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(5);
/// Deliveries of a message before RabbitMQ moves it to the dead-letter queue. RabbitMQ also counts deliveries to
/// workers that die or lose their connection, and version 4 would stop at 20. Such a message is not faulty.
pub(crate) const DELIVERIES_MAX: i64 = 1_000_000;
/// Number of unreadable messages kept; older ones are dropped.
pub(crate) const DEAD_MAX: i64 = 1_000;

/// Options of the transport. Not for output: the URL may contain a password.
#[derive(Clone)]
pub struct BrokerOptions {
    /// `amqp://` or `amqps://` URL of RabbitMQ.
    pub url: String,
    /// Prefix of every queue's name.
    pub prefix: String,
    /// Name of the worker, as RabbitMQ shows it.
    pub worker: String,
    /// Maximum unacknowledged messages that RabbitMQ delivers.
    pub prefetch: u16,
    /// Interval of heartbeats of both sides.
    pub heartbeat_seconds: u16,
    /// Time for which the consumer waits for entries that are in the log, before it reads them from the log. After a
    /// failure of this length, RabbitMQ is not asked for the same time.
    pub patience: Duration,
}

impl BrokerOptions {
    /// Default options.
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

    /// Name of a partition's queue.
    pub(crate) fn queue(&self, partition: PartitionId) -> String {
        format!("{}.p{:02}", self.prefix, partition.0)
    }

    /// Name of the queue for unreadable messages.
    pub(crate) fn dead(&self, partition: PartitionId) -> String {
        format!("{}.dead", self.queue(partition))
    }

    /// Name of an exclusive queue that serves as a lock: its owner relays the partition. It is always empty.
    pub(crate) fn lock(&self, partition: PartitionId) -> String {
        format!("{}.relay", self.queue(partition))
    }
}
