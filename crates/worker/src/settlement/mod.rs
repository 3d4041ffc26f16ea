//! Settlement: writes each partition's log entries to the ledger, after the engine has committed them.
//!
//! Each partition has its own reconciler. A caller that waits for an entry wakes it; otherwise it runs on a timer.
//! Failures are retried with growing pauses, and a stuck partition delays no other. A log that has lost entries refuses
//! reads until it is repaired. Its next entries would belong to a history that the ledger does not have.

mod bisect;
mod consumer;
mod inbox;
mod monitor;
mod partition;
mod rest;
mod step;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, Transport, TransportStatus},
};
use tokio::time::Instant;

use self::partition::PartitionSettlement;
pub use self::{
    consumer::{ConsumerStatus, PartitionConsumer},
    monitor::{OnPositions, STALL_MAX, SettlementMonitor},
    rest::{Unsettled, settle_rest},
    step::{StepError, StepResult, settle_once, settle_via},
};
pub use qiang_core::settlement::REFUSED_MAX;

use crate::host::{Host, Schedule, Waker};

/// Maximum wait of a partition for a signal; then it looks without one.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum entries per transaction.
pub const ENTRIES_MAX: usize = 4_096;
/// Pause after a step that did not fill a transaction. A later transaction settles more entries at the same cost.
pub const REST: Duration = Duration::from_millis(2);
/// First pause after a failure.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// Maximum pause after failures.
pub const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Callback for a partition whose log has lost entries. Its arguments are the partition, the last entry in the ledger,
/// and the last entry in the log. It is called once per detection. The node must stop grants of the partition.
pub type OnRollback = Box<dyn Fn(PartitionId, Seq, Seq) + Send + Sync>;

/// Options of settlement.
pub struct SettlementOptions {
    /// Schedule of each partition.
    pub schedule: Schedule,
    /// Maximum entries per transaction.
    pub entries_max: usize,
    /// Callback for logs that have lost entries.
    pub on_rollback: OnRollback,
    /// Transport of the entries. Without one they are read from the log.
    pub transport: Option<Arc<dyn Transport>>,
}

impl SettlementOptions {
    /// Default options.
    #[must_use]
    pub fn new(on_rollback: OnRollback) -> Self {
        Self {
            schedule: Schedule {
                interval: POLL_INTERVAL,
                rest: REST,
                backoff_min: BACKOFF_MIN,
                backoff_max: BACKOFF_MAX,
            },
            entries_max: ENTRIES_MAX,
            on_rollback,
            transport: None,
        }
    }
}

/// Settlement position of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: PartitionId,
    /// Last entry of its log when last read.
    pub head: Seq,
    /// Last entry that the ledger has.
    pub settled: Seq,
}

impl Position {
    /// Entries that are not settled yet.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.head.saturating_sub(self.settled)
    }
}

/// Running settlement. If it is dropped, it finishes in the background; [`Settlement::stop`] waits for that.
pub struct Settlement {
    host: Host,
    partitions: BTreeMap<PartitionId, SettledPartition>,
    transport: Option<Arc<dyn Transport>>,
}

/// One partition that this process settles.
struct SettledPartition {
    position: Arc<Mutex<Position>>,
    status: Option<ConsumerStatus>,
    waker: Waker,
}

impl Settlement {
    /// Starts one reconciler per partition of the log. Needs a tokio runtime.
    #[must_use]
    pub fn start(
        log: Arc<dyn EventLog>,
        ledger: Arc<dyn Ledger>,
        options: SettlementOptions,
    ) -> Self {
        let host = Host::new("settlement");
        let transport = options.transport.clone();
        let options = Arc::new(options);
        let mut partitions = BTreeMap::new();
        for partition in log.partitions() {
            let position = Arc::new(Mutex::new(Position {
                partition,
                head: 0,
                settled: 0,
            }));
            let consumer = transport.as_ref().map(|transport| {
                PartitionConsumer::new(Arc::clone(transport), Arc::clone(&log), partition)
            });
            let status = consumer.as_ref().map(PartitionConsumer::status);
            let reconciler = PartitionSettlement {
                partition,
                log: Arc::clone(&log),
                ledger: Arc::clone(&ledger),
                options: Arc::clone(&options),
                consumer,
                position: Arc::clone(&position),
                waits_since: None,
                release_at: Instant::now(),
                rolled_back: false,
            };
            let waker = host.start(&name_of(partition), options.schedule, reconciler);
            let settled = SettledPartition {
                position,
                status,
                waker,
            };
            partitions.insert(partition, settled);
        }
        Self {
            host,
            partitions,
            transport,
        }
    }

    /// Wakes a partition, because a caller waits for an appended entry. It is cheap, and may be called any number of
    /// times.
    pub fn wake(&self, partition: PartitionId) {
        if let Some(transport) = &self.transport {
            transport.wake(partition);
        }
        if let Some(settled) = self.partitions.get(&partition) {
            settled.waker.wake();
        }
    }

    /// Wakes all partitions.
    pub fn wake_all(&self) {
        self.partitions.keys().for_each(|it| self.wake(*it));
    }

    /// Reason why a partition makes no progress, if there is one.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        self.host.stuck()
    }

    /// Reason why this partition makes no progress, if it is stuck.
    #[must_use]
    pub fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        self.host.stuck_one(&name_of(partition))
    }

    /// Position of each partition, and status of its transport. Without a transport the status is empty.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Position, TransportStatus)> {
        let status = |settled: &SettledPartition| {
            let status = settled.status.as_ref().map(ConsumerStatus::get);
            (*settled.position.lock(), status.unwrap_or_default())
        };
        self.partitions.values().map(status).collect()
    }

    /// Finishes the entries that are being settled, and starts nothing else.
    pub async fn stop(&self) {
        self.host.stop().await;
        if let Some(transport) = &self.transport {
            transport.release_ownership().await;
        }
    }
}

/// Name of a partition's reconciler.
fn name_of(partition: PartitionId) -> String {
    format!("partition {}", partition.0)
}
