//! Engine, log and ledger in one process on one SQLite file, or the ledger alone.
//!
//! A writer thread owns the [`Book`] and the file. While it commits, claims wait in a bounded queue; the next batch
//! decides all of them. One transaction appends their log entries with `synchronous=FULL`, and the claims are answered
//! after it. Idempotent settlement then updates the ledger's tables from the log.
//!
//! [`SqliteLedger`] is the same ledger on a file of its own, for engines whose logs are elsewhere.
//!
//! `docs/reference/data-model.md` describes the tables.

mod archive;
mod clock;
mod cold_rows;
mod commit_watchdog;
pub mod copies;
mod data_file;
mod deferred_read;
mod downtimes;
mod engine;
mod error;
mod fence;
mod file;
mod gate_counters;
mod grant_positions;
mod job;
mod ledger;
mod ledger_file;
mod log;
mod new_campaign_ids;
mod open_mark;
mod pace;
mod port;
mod positions;
mod queue;
mod reader;
mod rebuild;
mod recall;
mod recall_thread;
mod replay;
mod standalone;
mod task;
mod thread;
mod transaction;
mod waiting;
mod watch;
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
    error::DataFileError,
    file::SCHEMA_VERSION,
    ledger_file::LedgerFile,
    positions::PARTITIONS_MAX,
    standalone::{QUEUED_JOBS_MAX, SqliteLedger, StandaloneHost},
};
use self::{
    commit_watchdog::CommitWatchdog,
    deferred_read::DeferredRead,
    file::DataFileKind,
    gate_counters::GateCounters,
    log::EventRefs,
    pace::BACKLOG_MAX,
    positions::PartitionPositions,
    queue::{PushError, TaskQueue},
    reader::Readers,
    rebuild::RebuiltBook,
    recall::ROWS_AT_ONCE,
    recall_thread::{RecallQueues, RecallThreads},
    task::WriterTask,
    thread::WriterThread,
    writer::Writer,
};

/// Maximum claims and commands that wait for the writer; more are refused as overload.
pub const QUEUED_TASKS_MAX: usize = 65_536;

/// The only partition of the embedded engine.
const PARTITION: PartitionId = PartitionId(0);

/// State shared by the writer and the callers.
struct EngineShared {
    queue: TaskQueue<WriterTask>,
    /// Deferred reads of evicted campaigns.
    recalls: RecallQueues,
    /// Changed only by the writer. Between a decision and its commit, the book is ahead of the file.
    book: RwLock<Book>,
    /// Position of the last committed entry.
    committed: AtomicU64,
    positions: PartitionPositions,
    /// Reason while granting is stopped, which also halts the queue; otherwise `None`.
    stopped: RwLock<Option<String>>,
    under_way: CommitWatchdog,
    /// Reason while settlement is stuck; otherwise `None`.
    stuck: RwLock<Option<String>>,
    gate_answers: GateCounters,
    /// Quarantined entries at the writer's last count.
    quarantined: RwLock<QuarantineCount>,
}

impl EngineShared {
    fn new(book: Book) -> Self {
        Self {
            queue: TaskQueue::new(QUEUED_TASKS_MAX),
            recalls: RecallQueues::new(QUEUED_TASKS_MAX),
            committed: AtomicU64::new(book.head()),
            book: RwLock::new(book),
            positions: PartitionPositions::default(),
            stopped: RwLock::new(None),
            under_way: CommitWatchdog::new(),
            stuck: RwLock::new(None),
            quarantined: RwLock::default(),
            gate_answers: GateCounters::default(),
        }
    }

    fn send_for(&self, errand: DeferredRead) {
        if let Err((error, errand)) = self.recalls.push(errand) {
            errand.refuse(&error.into());
        }
    }

    /// Stops granting. All waiting tasks, and all later ones until granting resumes, are refused at once, because the
    /// writer's repair may take long.
    fn stop(&self, reason: &str) {
        *self.stopped.write() = Some(reason.to_owned());
        let unavailable = EngineError::unavailable(reason);
        for task in self.queue.halt() {
            task.refuse(&unavailable);
        }
    }

    /// The error for a task that was not queued. `None` if granting has resumed since.
    fn refusal(&self, error: PushError) -> Option<EngineError> {
        match error {
            PushError::Halted => self.stopped.read().clone().map(EngineError::unavailable),
            PushError::Full | PushError::Closed => Some(error.into()),
        }
    }

    fn resume(&self, book: Book) {
        let mut shared = self.book.write();
        self.committed.store(book.head(), Ordering::Release);
        *shared = book;
        drop(shared);
        // In this order: once a caller reads that granting continues, its tasks are queued.
        self.queue.resume();
        *self.stopped.write() = None;
    }
}

/// Options of the embedded engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Grace of orders for payments that are reported late.
    pub grace: Grace,
    /// Idle time after which a fully settled campaign is evicted. A campaign that is due within this time stays. The
    /// next claim or command reloads a small campaign, which takes a few tens of microseconds for a red packet.
    pub idle_campaign_ttl: Duration,
    /// Grants above which an evicted campaign is not reloaded for a request. Claims and commands are then decided from
    /// the rows of their users and orders. Such a campaign is reloaded whole if it has many requests, or if the log
    /// is not settled soon. That takes about a second for a million orders, on a thread of its own.
    pub small_campaign_max: u64,
    /// Time without progress of a commit after which all calls are refused as unavailable.
    pub commit_hangs_after: Duration,
    /// Unsettled entries above which every batch is followed by the settlement of more entries than it appended. If
    /// settlement is stuck, claims are refused above this bound, and all calls that append to the log a quarter above
    /// it.
    pub backlog_max: u64,
    /// Maximum answers that wait for the ledger. One owner's campaigns have at most half of them, and one campaign a
    /// quarter; each of several leaves a share for the next. Claims above the share of their campaign or its owner are
    /// refused before they are decided.
    pub ledger_waits_max: usize,
    /// Maximum wait of such an answer. After it, the answer is uncertain.
    pub ledger_wait: Duration,
    /// Largest time by which the clock may be earlier than the newest entry of the log at the start.
    pub clock_behind_max: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            grace: Grace::default(),
            idle_campaign_ttl: Duration::from_secs(600),
            small_campaign_max: ROWS_AT_ONCE,
            commit_hangs_after: Duration::from_secs(2),
            backlog_max: BACKLOG_MAX,
            ledger_waits_max: 65_536,
            ledger_wait: Duration::from_secs(10),
            clock_behind_max: Duration::MAX,
        }
    }
}

/// The embedded engine with its log and ledger. A clone is another handle of the same engine. The writer stops when
/// [`Embedded::close`] is called or the last handle is dropped.
pub type Embedded = LedgerFile<EngineHost>;

/// Writer and readers of an engine's file.
#[derive(Clone)]
pub struct EngineHost {
    shared: Arc<EngineShared>,
    clock: Arc<dyn Clock>,
    readers: Arc<Readers>,
    writer: Arc<WriterThread>,
    commit_hangs_after: Duration,
    start_gap: Duration,
}

impl Embedded {
    /// Opens the file, creates or migrates it if needed, replays the unsettled log, and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, is in use by another process under any path, is newer than this program, or is
    /// damaged.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, DataFileError> {
        Self::open_with(path, clock, EmbeddedOptions::default())
    }

    /// Opens the file with options.
    ///
    /// # Errors
    /// As [`Embedded::open`]; or the clock is too much earlier than the newest entry of the log.
    pub fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: EmbeddedOptions,
    ) -> Result<Self, DataFileError> {
        let path = &data_file::real_path(path)?;
        let lock = data_file::lock(path)?;
        let now = clock.now();
        let conn = file::open_engine(path, now, options.clock_behind_max)?;
        file::say_opened(path, lock.is_new());
        let start_gap = downtimes::ended_at(&conn, now)?;
        let mut refs = EventRefs::default();
        let RebuiltBook { book, places } = rebuild::rebuild(&conn, &mut refs, options.grace)?;
        let shared = Arc::new(EngineShared::new(book));
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
                // Campaigns reloaded by now are still used for decisions.
                queues.recalls.close();
                recalls.join();
                queues.queue.close();
            },
        )?;
        Ok(LedgerFile(EngineHost {
            shared,
            clock,
            readers,
            writer: Arc::new(writer),
            commit_hangs_after: options.commit_hangs_after,
            start_gap,
        }))
    }

    /// Whether an existing file is an embedded engine's. False for a standalone ledger.
    ///
    /// # Errors
    /// The file cannot be read or is not Qiang's.
    pub fn is_engine(path: &Path) -> Result<bool, DataFileError> {
        let path = data_file::real_path(path)?;
        Ok(file::kind_of(&path)? == Some(DataFileKind::Engine))
    }

    /// Time between the last sign of life in the file and this start, by the clock of the start. It is long after a
    /// downtime, and if the clock is ahead.
    pub fn start_gap(&self) -> Duration {
        self.start_gap
    }

    /// Path of the file, without symlinks.
    pub fn path(&self) -> &Path {
        self.readers.path()
    }

    /// Answers all accepted calls, refuses later ones and stops the writer. Blocks until then.
    pub fn close(&self) {
        self.writer.stop();
    }

    /// Refuses all waiting calls and stops the writer after its current batch. Blocks until then. Answered grants are
    /// kept, and unsettled entries are settled after the next start.
    pub fn abort(&self) {
        for task in self.shared.queue.abort() {
            task.refuse(&EngineError::Stopping);
        }
        for errand in self.shared.recalls.abort() {
            errand.refuse(&EngineError::Stopping);
        }
        self.writer.stop();
    }

    /// Number of campaigns in memory.
    pub fn campaigns_in_memory(&self) -> usize {
        self.shared.book.read().len()
    }

    /// Number of campaigns reloaded whole since the start. Reads that need only a few rows do not count.
    pub fn campaigns_read(&self) -> u64 {
        self.shared.recalls.whole()
    }

    /// Number of tasks that wait for the writer.
    pub fn queued(&self) -> usize {
        self.shared.queue.len()
    }

    /// Positions of the last committed and the last settled entry.
    pub fn positions(&self) -> (Seq, Seq) {
        (
            self.shared.committed.load(Ordering::Acquire),
            self.shared.positions.for_partition(PARTITION),
        )
    }

    /// The reason why settlement is stuck, if it is. Granting continues up to [`EmbeddedOptions::backlog_max`].
    pub fn stuck(&self) -> Option<String> {
        self.shared.stuck.read().clone()
    }

    /// Number of quarantined entries, as counted about a second ago.
    pub fn quarantined(&self) -> QuarantineCount {
        *self.shared.quarantined.read()
    }

    /// The reason why granting is stopped at present, if it is.
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped.read().clone()
    }
}
