//! Standalone ledger on a SQLite file of its own, for engines with logs elsewhere.
//!
//! The tables and the settlement are those of the embedded engine. One writer thread makes all changes, those of many
//! callers in one transaction. A change is answered after its commit with `synchronous=FULL`.

mod port;
mod writer;

use std::{path::Path, sync::Arc};

use parking_lot::RwLock;
use qiang_core::ports::{Clock, EngineError};

use self::writer::LedgerWriter;
use crate::{
    data_file,
    error::DataFileError,
    file::{self, DataFileKind},
    job::LedgerJob,
    ledger_file::LedgerFile,
    positions::PartitionPositions,
    queue::TaskQueue,
    reader::Readers,
    thread::WriterThread,
};

/// Maximum waiting changes; more are refused.
pub const QUEUED_JOBS_MAX: usize = 65_536;

/// State shared by the writer and the callers.
struct LedgerShared {
    queue: TaskQueue<Box<dyn LedgerJob>>,
    /// Committed position of each partition.
    positions: PartitionPositions,
    /// Reason while the ledger is stopped; `None` while it works.
    stopped: RwLock<Option<String>>,
}

/// Ledger on a file of its own. A clone is another handle of the same ledger. The writer stops when
/// [`SqliteLedger::close`] is called or the last handle is dropped.
pub type SqliteLedger = LedgerFile<StandaloneHost>;

/// Writer and readers of a standalone ledger's file.
#[derive(Clone)]
pub struct StandaloneHost {
    shared: Arc<LedgerShared>,
    readers: Arc<Readers>,
    writer: Arc<WriterThread>,
}

impl SqliteLedger {
    /// Opens the file, creates or migrates it if needed, and starts the writer.
    ///
    /// # Errors
    /// The file cannot be opened, is in use by another process, is newer than this program, or is an engine's.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, DataFileError> {
        let path = &data_file::real_path(path)?;
        let lock = data_file::lock(path)?;
        let conn = file::open_writer(path, DataFileKind::Ledger, clock.now())?;
        file::say_opened(path, lock.is_new());
        let shared = Arc::new(LedgerShared {
            queue: TaskQueue::new(QUEUED_JOBS_MAX),
            positions: PartitionPositions::default(),
            stopped: RwLock::new(None),
        });
        let writer = LedgerWriter::new(path.to_owned(), Arc::clone(&shared), clock, conn)?;
        let queue = Arc::clone(&shared);
        let writer = WriterThread::start(
            lock,
            move || writer.run_until_closed(),
            move || queue.queue.close(),
        )?;
        Ok(LedgerFile(StandaloneHost {
            shared,
            readers: Arc::new(Readers::new(path)),
            writer: Arc::new(writer),
        }))
    }

    /// Makes the accepted changes, refuses later ones and stops the writer. Blocks until then.
    pub fn close(&self) {
        self.writer.stop();
    }

    /// Refuses the waiting changes and stops the writer after its current transaction. Blocks until then. Answered
    /// changes are kept.
    pub fn abort(&self) {
        for job in self.shared.queue.abort() {
            job.answer(Err(&EngineError::Stopping));
        }
        self.writer.stop();
    }

    /// The reason why no change is made at present, if the ledger is stopped.
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped.read().clone()
    }

    /// Queues a job, or answers it with the error at once.
    fn push(&self, job: Box<dyn LedgerJob>) {
        if let Err((error, job)) = self.shared.queue.push(job) {
            job.answer(Err(&error.into()));
        }
    }
}
