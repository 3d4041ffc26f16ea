//! The standalone ledger, on a SQLite file of its own, for engines whose logs are elsewhere.
//!
//! The tables and the settlement are those of the embedded engine. One writer thread makes all changes, many callers'
//! in one transaction; nothing is answered before its commit with `synchronous=FULL`.

mod port;
mod writer;

use std::{path::Path, sync::Arc};

use parking_lot::RwLock;
use qiang_core::ports::{Clock, EngineError};

use self::writer::Writer;
use crate::{
    data_file,
    error::StoreError,
    file::{self, FileKind},
    job::LedgerJob,
    positions::Positions,
    queue::Queue,
    reader::Readers,
    thread::WriterThread,
};

/// Changes that may wait for the writer; more are turned away.
pub const QUEUED_JOBS_MAX: usize = 65_536;

/// What the writer and the callers share.
struct Shared {
    queue: Queue<Box<dyn LedgerJob>>,
    /// How far each partition is settled, as committed.
    positions: Positions,
    /// Why nothing is changed, while nothing is.
    stopped: RwLock<Option<String>>,
}

/// The ledger on a file of its own. Cloning gives another handle to the same one; the writer stops when
/// [`SqliteLedger::close`] is called, or when the last handle goes.
#[derive(Clone)]
pub struct SqliteLedger {
    shared: Arc<Shared>,
    readers: Arc<Readers>,
    writer: Arc<WriterThread>,
}

impl SqliteLedger {
    /// Opens the file, creating or migrating it as needed, and starts the writer.
    ///
    /// # Errors
    /// When the file cannot be opened, is in use by another process, is newer than this program, or is an engine's.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let path = &data_file::real_path(path)?;
        let lock = data_file::lock(path)?;
        let conn = file::open_writer(path, FileKind::Ledger, clock.now())?;
        file::say_opened(path, lock.is_new());
        let shared = Arc::new(Shared {
            queue: Queue::new(QUEUED_JOBS_MAX),
            positions: Positions::default(),
            stopped: RwLock::new(None),
        });
        let writer = Writer::new(path.to_owned(), Arc::clone(&shared), clock, conn)?;
        let queue = Arc::clone(&shared);
        let writer = WriterThread::start(
            lock,
            move || writer.run_until_closed(),
            move || queue.queue.close(),
        )?;
        Ok(Self {
            shared,
            readers: Arc::new(Readers::new(path)),
            writer: Arc::new(writer),
        })
    }

    /// Makes the changes that were accepted, refuses those that come after, and stops the writer. Blocks meanwhile.
    pub fn close(&self) {
        self.writer.stop();
    }

    /// Refuses the changes that still wait, and stops the writer at the end of its turn. Blocks meanwhile. What was
    /// answered is kept as ever.
    pub fn abort(&self) {
        for job in self.shared.queue.abort() {
            job.answer(Err(&EngineError::Stopping));
        }
        self.writer.stop();
    }

    /// Why nothing is changed at the moment, if that is so.
    pub fn stopped(&self) -> Option<String> {
        self.shared.stopped.read().clone()
    }

    /// Queues a job, or answers it at once that it cannot be.
    fn push(&self, job: Box<dyn LedgerJob>) {
        if let Err((error, job)) = self.shared.queue.push(job) {
            job.answer(Err(&error.into()));
        }
    }
}
