//! Settlement: transport_options every partition's log into the ledger, behind the rush.
//!
//! One task a partition. It is woken when something was appended, and looks by itself after a while in case nobody
//! said so. What fails is tried again after a pause that grows; one partition that is stuck holds up no other. A log
//! that has lost entries is not settled any more until somebody who has repaired it says so: its next entries would be
//! about a history that the ledger does not know.

mod bisect;
mod monitor;
mod step;
mod worker;

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EventLog, Ledger, Transport, TransportStatus},
};
use tokio::{sync::watch, task::JoinHandle};

pub use self::bisect::REFUSED_MAX;
pub use self::monitor::SettlementMonitor;
pub use self::step::{StepError, StepResult, settle_once, settle_via};
use self::worker::Worker;

/// How long a partition waits for a signal before it looks by itself.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Entries that one transaction carries over.
pub const ENTRIES_MAX: usize = 4_096;
/// The pause after a step that did not fill a transaction: a little later there is more to carry for the same price.
pub const REST: Duration = Duration::from_millis(2);
/// The first pause after a failure.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest pause after failures.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Is told that a partition's log has lost entries: the partition, up to where the ledger has it, and where the log
/// ends. Called once each time that it is found out; whoever grants must stop there.
pub type OnRollback = Box<dyn Fn(PartitionId, Seq, Seq) + Send + Sync>;

/// How settlement goes about it.
pub struct Options {
    /// How long a partition waits for a signal before it looks by itself.
    pub poll_interval: Duration,
    /// Entries that one transaction carries over.
    pub entries_max: usize,
    /// The pause after a step that did not fill a transaction.
    pub rest: Duration,
    /// The first pause after a failure; each further one doubles it.
    pub backoff_min: Duration,
    /// The longest pause after failures.
    pub backoff_max: Duration,
    /// Is told of logs that have lost entries.
    pub on_rollback: OnRollback,
    /// What brings the entries; without one they are read from the log.
    pub transport: Option<Arc<dyn Transport>>,
}

impl Options {
    /// The usual ones.
    #[must_use]
    pub fn new(on_rollback: OnRollback) -> Self {
        Self {
            poll_interval: POLL_INTERVAL,
            entries_max: ENTRIES_MAX,
            rest: REST,
            backoff_min: BACKOFF_MIN,
            backoff_max: BACKOFF_MAX,
            on_rollback,
            transport: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("poll_interval", &self.poll_interval)
            .field("entries_max", &self.entries_max)
            .finish_non_exhaustive()
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

/// Whether a partition goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Health {
    Well,
    /// It is tried again by itself.
    Failing(String),
    /// It is not tried again before [`Settlement::resume`].
    Halted(String),
}

/// What a worker shows.
#[derive(Debug)]
struct Shown {
    position: Position,
    health: Health,
}

/// What the workers are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Signal {
    /// Grows when something was appended.
    wakes: u64,
    /// Grows when a log was repaired.
    resumes: u64,
    stop: bool,
}

/// Settlement at work. Dropped, it comes to its end by itself; [`Settlement::stop`] waits for that.
pub struct Settlement {
    signal: watch::Sender<Signal>,
    shown: Vec<Arc<Mutex<Shown>>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    transport: Option<Arc<dyn Transport>>,
}

impl Settlement {
    /// Starts a task for every partition of the log. Needs a tokio runtime around it.
    #[must_use]
    pub fn start(log: Arc<dyn EventLog>, ledger: Arc<dyn Ledger>, options: Options) -> Self {
        let signal = watch::Sender::new(Signal::default());
        let transport = options.transport.clone();
        let options = Arc::new(options);
        let (mut shown, mut workers) = (Vec::new(), Vec::new());
        for partition in log.partitions() {
            let position = Position {
                partition,
                head: 0,
                settled: 0,
            };
            let health = Health::Well;
            let show = Arc::new(Mutex::new(Shown { position, health }));
            let worker = Worker::new(
                partition,
                Arc::clone(&log),
                Arc::clone(&ledger),
                Arc::clone(&options),
                Arc::clone(&show),
                signal.subscribe(),
            );
            workers.push(tokio::spawn(worker.run()));
            shown.push(show);
        }
        Self {
            signal,
            shown,
            workers: Mutex::new(workers),
            transport,
        }
    }

    /// Says that something was appended. Cheap, and may be said as often as one likes.
    pub fn wake(&self) {
        self.signal.send_modify(|signal| signal.wakes += 1);
    }

    /// Says that the logs that had lost entries were repaired: they are looked at anew.
    pub fn resume(&self) {
        self.signal.send_modify(|signal| signal.resumes += 1);
    }

    /// Why some partition does not go on, if one does not.
    #[must_use]
    pub fn stuck(&self) -> Option<String> {
        let stuck = |shown: &Arc<Mutex<Shown>>| {
            let shown = shown.lock();
            let partition = shown.position.partition.0;
            match &shown.health {
                Health::Well => None,
                Health::Failing(why) | Health::Halted(why) => {
                    Some(format!("partition {partition}: {why}"))
                }
            }
        };
        if let Some(why) = self.shown.iter().find_map(stuck) {
            return Some(why);
        }
        let gone = self.workers.lock().iter().any(JoinHandle::is_finished);
        (gone && !self.signal.borrow().stop).then(|| "a worker has failed; restart".to_owned())
    }

    /// How far each partition is.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.shown
            .iter()
            .map(|shown| shown.lock().position)
            .collect()
    }

    /// How each partition is, and how its transport is with it; without one, nothing is said of that.
    #[must_use]
    pub fn statuses(&self) -> Vec<(Position, TransportStatus)> {
        let status = |position: Position| {
            let transport = self.transport.as_ref();
            let status = transport.map(|transport| transport.status(position.partition));
            (position, status.unwrap_or_default())
        };
        self.positions().into_iter().map(status).collect()
    }

    /// Entries of all partitions that are not settled yet.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.positions().iter().map(Position::lag).sum()
    }

    /// Finishes what was read and is being settled, and starts nothing more.
    pub async fn stop(&self) {
        self.signal.send_modify(|signal| signal.stop = true);
        let workers = std::mem::take(&mut *self.workers.lock());
        for worker in workers {
            // A panic has been reported by its hook.
            drop(worker.await);
        }
        if let Some(transport) = &self.transport {
            transport.leave().await;
        }
    }
}
