//! Engine, event log and ledger in one process, on one SQLite file; or the ledger alone.
//!
//! A writer thread owns the [`Book`] and the file. Claims gather in a bounded queue while it commits and are decided
//! together in the next turn: one transaction appends their log entries with `synchronous=FULL`, and only then are
//! they answered. The ledger's tables follow from the log right behind it, by idempotent settlement.
//!
//! [`SqliteLedger`] is the same ledger on a file of its own, for engines whose logs are elsewhere.
//!
//! `docs/reference/data-model.md` describes the tables.

mod account_host;
mod archive;
mod binding_host;
mod clock;
mod cold;
pub mod copies;
mod data_file;
mod downtimes;
mod engine;
mod errand;
mod error;
mod file;
mod gate_counters;
mod history_host;
mod job;
mod key_host;
mod ledger;
mod ledger_host;
mod log;
mod new_campaigns;
mod open_mark;
mod pace;
mod payout_host;
mod places;
mod port;
mod positions;
mod queue;
mod reader;
mod rebuild;
mod recall;
mod recall_thread;
mod repair_host;
mod replay;
mod standalone;
mod task;
mod thread;
mod transaction;
mod under_way;
mod waiting;
mod watch;
mod webhook_host;
mod writer;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use qiang_core::{
    book::{Book, Grace},
    event::{PartitionId, Seq},
    ports::{Clock, EngineError, QuarantineCount},
};

pub use self::{
    archive::LogArchives,
    clock::{GuardedClock, SystemClock},
    error::StoreError,
    file::SCHEMA_VERSION,
    positions::PARTITIONS_MAX,
    standalone::{QUEUED_JOBS_MAX, SqliteLedger},
};
use self::{
    errand::Errand,
    file::FileKind,
    gate_counters::GateCounters,
    log::Refs,
    pace::BACKLOG_MAX,
    positions::Positions,
    queue::{PushError, Queue},
    reader::Readers,
    rebuild::Rebuilt,
    recall_thread::{RecallThreads, Recalls},
    task::Task,
    thread::WriterThread,
    under_way::UnderWay,
    writer::Writer,
};

/// Claims and commands that may wait for the writer; more are refused as overload.
pub const QUEUED_TASKS_MAX: usize = 65_536;

/// The only partition of the embedded engine.
const PARTITION: PartitionId = PartitionId(0);

/// What the writer and the callers share.
struct Shared {
    queue: Queue<Task>,
    /// What is to be read because the book does not have it.
    recalls: Recalls,
    /// Changed by the writer alone. Between a decision and its commit it is ahead of the file.
    book: RwLock<Book>,
    /// The last log entry that is committed.
    committed: AtomicU64,
    positions: Positions,
    /// Why nothing is granted, while nothing is. The queue is halted meanwhile.
    stopped: RwLock<Option<String>>,
    under_way: UnderWay,
    /// Why settlement does not go on, while it does not.
    stuck: RwLock<Option<String>>,
    gate_answers: GateCounters,
    /// What is in quarantine, as the writer counted it last.
    quarantined: RwLock<QuarantineCount>,
}

impl Shared {
    fn new(book: Book) -> Self {
        Self {
            queue: Queue::new(QUEUED_TASKS_MAX),
            recalls: Recalls::new(QUEUED_TASKS_MAX),
            committed: AtomicU64::new(book.head()),
            book: RwLock::new(book),
            positions: Positions::default(),
            stopped: RwLock::new(None),
            under_way: UnderWay::new(),
            stuck: RwLock::new(None),
            quarantined: RwLock::default(),
            gate_answers: GateCounters::default(),
        }
    }

    fn send_for(&self, errand: Errand) {
        if let Err((error, errand)) = self.recalls.push(errand) {
            errand.refuse(&error.into());
        }
    }

    /// Stops granting. Everything that waits, and everything that comes before granting goes on, is refused at once:
    /// the writer may be busy for long with what it has to repair.
    fn stop(&self, reason: &str) {
        *self.stopped.write() = Some(reason.to_owned());
        let unavailable = EngineError::unavailable(reason);
        for task in self.queue.halt() {
            task.refuse(&unavailable);
        }
    }

    /// Why a task is refused that was not queued.
    fn refusal(&self, error: PushError) -> EngineError {
        let reason = self.stopped.read().clone();
        let reason = reason.filter(|_| error == PushError::Halted);
        reason.map_or_else(|| error.into(), EngineError::unavailable)
    }

    fn resume(&self, book: Book) {
        let mut shared = self.book.write();
        self.committed.store(book.head(), Ordering::Release);
        *shared = book;
        *self.stopped.write() = None;
        drop(shared);
        self.queue.resume();
    }
}

/// How an engine works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// How long orders have for payments that are reported late.
    pub grace: Grace,
    /// How long a campaign stays in memory that nobody asks for, once the ledger has everything of it. One that is due
    /// within that time stays. A claim or command waits until the campaign is read: a few tens of microseconds for a
    /// packet, about a second for a million orders.
    pub keep_idle: Duration,
    /// How long a commit may be without progress before whatever is submitted is refused as unavailable.
    pub commit_hangs_after: Duration,
    /// Unsettled entries past which every batch is followed by as much settlement, and more. Where settlement is stuck,
    /// claims are refused past it, and a quarter above it everything that appends to the log.
    pub backlog_max: u64,
    /// Answers that may wait for the ledger, for campaigns that ask for it. One campaign has half of them at most, and
    /// of several each leaves a share for the next. Past that its claims are refused before they are decided.
    pub ledger_waits_max: usize,
    /// How long each of them waits. Then it is not known whether it is kept.
    pub ledger_wait: Duration,
    /// How far the clock may be behind the newest entry of the log at the start.
    pub clock_behind_max: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            grace: Grace::default(),
            keep_idle: Duration::from_secs(600),
            commit_hangs_after: Duration::from_secs(2),
            backlog_max: BACKLOG_MAX,
            ledger_waits_max: 65_536,
            ledger_wait: Duration::from_secs(10),
            clock_behind_max: Duration::MAX,
        }
    }
}

/// The embedded engine, log and ledger. Cloning gives another handle to the same one; the writer stops when
/// [`Embedded::close`] is called, or when the last handle goes.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    readers: Arc<Readers>,
    writer: Arc<WriterThread>,
    commit_hangs_after: Duration,
}

impl Embedded {
    /// Opens the file, creating or migrating it as needed, replays what is not settled, and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened, is in use by another process under any path, is newer than this program, or is
    /// damaged.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_with(path, clock, EmbeddedOptions::default())
    }

    /// The same.
    ///
    /// # Errors
    /// As [`Embedded::open`]; if the clock is too far behind the newest entry of the log.
    pub fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: EmbeddedOptions,
    ) -> Result<Self, StoreError> {
        let path = &data_file::real_path(path)?;
        let lock = data_file::lock(path)?;
        let conn = file::open_engine(path, clock.now(), options.clock_behind_max)?;
        file::say_opened(path, lock.is_new());
        let mut refs = Refs::default();
        let Rebuilt { book, places } = rebuild::rebuild(&conn, &mut refs, options.grace)?;
        let shared = Arc::new(Shared::new(book));
        let readers = Arc::new(Readers::new(path));
        let writer = Writer::new(path, &shared, &clock, (conn, refs, places), options)?;
        let recalls = RecallThreads::start(path, &shared, &clock)?;
        let queues = Arc::clone(&shared);
        let writer = WriterThread::start(
            lock,
            move || {
                thread::raise_priority();
                writer.run_until_closed();
            },
            move || {
                // What it has read by now is still decided.
                queues.recalls.close();
                recalls.join();
                queues.queue.close();
            },
        )?;
        Ok(Self {
            shared,
            clock,
            readers,
            writer: Arc::new(writer),
            commit_hangs_after: options.commit_hangs_after,
        })
    }

    /// Whether a file that is there is an embedded engine's, and not a standalone ledger.
    ///
    /// # Errors
    /// When the file cannot be read, or is no file of Qiang's.
    pub fn is_engine(path: &Path) -> Result<bool, StoreError> {
        let path = data_file::real_path(path)?;
        Ok(file::kind_of(&path)? == Some(FileKind::Engine))
    }

    /// The file's path, without symlinks.
    pub fn path(&self) -> &Path {
        self.readers.path()
    }

    /// Answers everything that was accepted, refuses what comes after, and stops the writer. Blocks meanwhile.
    pub fn close(&self) {
        self.writer.stop();
    }

    /// Refuses everything that still waits, and stops the writer at the end of its turn. Blocks meanwhile. Grants that
    /// were answered are kept; entries that are not settled yet are settled after the next start.
    pub fn abort(&self) {
        for task in self.shared.queue.abort() {
            task.refuse(&EngineError::Stopping);
        }
        for errand in self.shared.recalls.abort() {
            errand.refuse(&EngineError::Stopping);
        }
        self.writer.stop();
    }

    /// Campaigns in memory. The others are read when somebody asks for them.
    pub fn campaigns_in_memory(&self) -> usize {
        self.shared.book.read().len()
    }

    /// How many campaigns were read whole since the start, because the book did not have them. What is answered from a
    /// few rows does not count.
    pub fn campaigns_read(&self) -> u64 {
        self.shared.recalls.whole()
    }

    /// Tasks that wait for the writer.
    pub fn queued(&self) -> usize {
        self.shared.queue.len()
    }

    /// The last committed log entry, and the last settled one.
    pub fn positions(&self) -> (Seq, Seq) {
        (
            self.shared.committed.load(Ordering::Acquire),
            self.shared.positions.of(PARTITION),
        )
    }

    /// Why settlement is stuck, if it is. Granting goes on meanwhile, up to [`EmbeddedOptions::backlog_max`].
    pub fn stuck(&self) -> Option<String> {
        self.shared.stuck.read().clone()
    }

    /// How many entries its ledger has in quarantine, as counted about a second ago.
    pub fn quarantined(&self) -> QuarantineCount {
        *self.shared.quarantined.read()
    }

    /// Why nothing is granted at the moment, if that is so.
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped.read().clone()
    }
}
