//! Settlement: brings every partition's log into the ledger, behind the engine.
//!
//! One reconciler a partition. It is woken when somebody waits for what was appended, and looks by itself after a
//! while. What fails is tried again after a pause that grows; one partition that is stuck holds up no other. A log that
//! has lost entries refuses to be read until it was repaired: its next entries would be about a history that the ledger
//! does not know.

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

/// How long a partition waits for a signal before it looks by itself.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Entries that one transaction settles.
pub const ENTRIES_MAX: usize = 4_096;
/// The pause after a step that did not fill a transaction: a little later there is more to settle for the same price.
pub const REST: Duration = Duration::from_millis(2);
/// The first pause after a failure.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest pause after failures.
pub const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Is called with a partition whose log has lost entries: the partition, up to where the ledger has it, and where the
/// log ends. Called once each time that it is found out; whoever grants must stop there.
pub type OnRollback = Box<dyn Fn(PartitionId, Seq, Seq) + Send + Sync>;

/// How settlement goes about it.
pub struct Options {
    /// When a partition is looked at.
    pub schedule: Schedule,
    /// Entries that one transaction settles.
    pub entries_max: usize,
    /// Is called with logs that have lost entries.
    pub on_rollback: OnRollback,
    /// What brings the entries; without one they are read from the log.
    pub transport: Option<Arc<dyn Transport>>,
}

impl Options {
    /// The usual ones.
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

/// How far one partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: PartitionId,
    /// Where its log ended when last seen.
    pub head: Seq,
    /// Up to where the ledger has it.
    pub settled: Seq,
}

impl Position {
    /// Entries that are not settled yet.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.head.saturating_sub(self.settled)
    }
}

/// Settlement at work. Dropped, it comes to its end by itself; [`Settlement::stop`] waits for that.
pub struct Settlement {
    host: Host,
    partitions: BTreeMap<PartitionId, Settled>,
    transport: Option<Arc<dyn Transport>>,
}

/// One partition that is settled here.
struct Settled {
    position: Arc<Mutex<Position>>,
    status: Option<ConsumerStatus>,
    waker: Waker,
}

impl Settlement {
    /// Starts a reconciler for every partition of the log. Needs a tokio runtime around it.
    #[must_use]
    pub fn start(log: Arc<dyn EventLog>, ledger: Arc<dyn Ledger>, options: Options) -> Self {
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
            let settled = Settled {
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

    /// Says that somebody waits for what was appended to a partition. Cheap, and may be said as often as one likes.
    pub fn wake(&self, partition: PartitionId) {
        if let Some(transport) = &self.transport {
            transport.wake(partition);
        }
        if let Some(settled) = self.partitions.get(&partition) {
            settled.waker.wake();
        }
    }

    /// The same of all partitions.
    pub fn wake_all(&self) {
        self.partitions.keys().for_each(|it| self.wake(*it));
    }

    /// Why some partition does not go on, if one does not.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        self.host.stuck()
    }

    /// Whether and why a partition does not go on.
    #[must_use]
    pub fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        self.host.stuck_one(&name_of(partition))
    }

    /// How far each partition is, and how its transport is doing; without one, nothing is said of that.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Position, TransportStatus)> {
        let status = |settled: &Settled| {
            let status = settled.status.as_ref().map(ConsumerStatus::get);
            (*settled.position.lock(), status.unwrap_or_default())
        };
        self.partitions.values().map(status).collect()
    }

    /// Finishes what was read and is being settled, and starts nothing more.
    pub async fn stop(&self) {
        self.host.stop().await;
        if let Some(transport) = &self.transport {
            transport.release_ownership().await;
        }
    }
}

/// The name of a partition's reconciler.
fn name_of(partition: PartitionId) -> String {
    format!("partition {}", partition.0)
}
