//! Read-only connections for blocking threads.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use qiang_core::ports::LedgerError;
use rusqlite::Connection;

use crate::{error::DataFileError, file};

/// Maximum idle connections. Further ones are opened on demand and closed after use.
const KEPT_MAX: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    kept: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            kept: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DataFileError>,
    ) -> Result<T, DataFileError> {
        let kept = self.kept.lock().pop();
        let conn = match kept {
            Some(conn) => conn,
            None => file::open_reader(&self.path)?,
        };
        let result = read(&conn);
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX && result.is_ok() {
            kept.push(conn);
        }
        result
    }
}

/// Runs a query on a thread that may block.
pub(crate) async fn query<T: Send + 'static>(
    readers: &std::sync::Arc<Readers>,
    read: impl FnOnce(&Connection) -> Result<T, DataFileError> + Send + 'static,
) -> Result<T, LedgerError> {
    let readers = std::sync::Arc::clone(readers);
    let (answer, answered) = tokio::sync::oneshot::channel();
    // One type for all queries, so that the thread pool's code is compiled once.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(answer.send(readers.with(read))));
    drop(tokio::task::spawn_blocking(work));
    match answered.await {
        Ok(result) => result.map_err(LedgerError::from),
        Err(_) => Err(LedgerError::unavailable(
            "the query ended without an answer",
        )),
    }
}
