//! Fence of a data file: of all processes that opened it for writing, only the latest one commits.
//!
//! Each start raises the generation in the file and remembers it. Each transaction compares it under the file's write
//! lock, which the transaction keeps until its commit. Locks of files do not cover every path to a file; the fence does
//! as long as the paths share one write-ahead log. The [watch](crate::watch) covers paths with different ones.
//!
//! Architecture invariant: no write path can leave the fence out. A hook refuses each commit of the connection whose
//! transaction did not begin with [`FencedConnection::begin`].

use std::{
    cell::Cell,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{error::DataFileError, open_mark};

const GENERATION: &str = "SELECT generation FROM file_kind";
/// Writes the row again. SQLite starts its log anew after a checkpoint, and each log must have the generation: a log
/// without it would look as new as any data file. SQLite writes no page for an equal row.
const FLIP: &str = "UPDATE file_kind SET flips = 1 - flips";
const RAISE: &str = "UPDATE file_kind SET generation = generation + 1 RETURNING generation";

/// Connection of the only process that may write to a file.
#[derive(Debug)]
pub(crate) struct FencedConnection {
    conn: Connection,
    path: PathBuf,
    generation: i64,
    /// Mark of an earlier start that the data file had when this one raised the generation.
    earlier_mark: Option<String>,
    /// Whether the open transaction has compared the generation.
    is_compared: Arc<AtomicBool>,
    /// Set once a later generation was found, and never reset.
    is_superseded: Cell<bool>,
}

impl Deref for FencedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl FencedConnection {
    /// Raises the generation of a file, whose generation without its log is `in_file`, in one transaction with
    /// `work`. From its commit on, earlier processes are fenced.
    pub(crate) fn raise(
        conn: Connection,
        path: &Path,
        in_file: Option<i64>,
        work: impl FnOnce(&Connection) -> Result<(), DataFileError>,
    ) -> Result<Self, DataFileError> {
        let tx = begin_unfenced(&conn)?;
        let before: i64 = tx.query_row(GENERATION, [], |row| row.get(0))?;
        if in_file.is_some_and(|in_file| in_file > before) {
            return Err(DataFileError::StaleLog {
                path: path.display().to_string(),
            });
        }
        work(&tx)?;
        let generation = tx.query_row(RAISE, [], |row| row.get(0))?;
        let earlier_mark = open_mark::in_file(&tx, path)?;
        tx.commit()?;
        Self::of(conn, path, (generation, earlier_mark))
    }

    /// Replaces the connection after a failure, within the same generation.
    pub(crate) fn reopened(&self, conn: Connection) -> Result<Self, DataFileError> {
        let start = (self.generation, self.earlier_mark.clone());
        let reopened = Self::of(conn, &self.path, start)?;
        if let Err(error) = reopened.compare() {
            self.is_superseded.set(reopened.is_superseded.get());
            return Err(error);
        }
        Ok(reopened)
    }

    fn of(
        conn: Connection,
        path: &Path,
        (generation, earlier_mark): (i64, Option<String>),
    ) -> Result<Self, DataFileError> {
        let is_compared = Arc::new(AtomicBool::new(false));
        let (commits, rolls_back) = (Arc::clone(&is_compared), Arc::clone(&is_compared));
        conn.commit_hook(Some(move || !commits.swap(false, Ordering::Relaxed)))?;
        conn.rollback_hook(Some(move || rolls_back.store(false, Ordering::Relaxed)))?;
        Ok(Self {
            conn,
            path: path.to_owned(),
            generation,
            earlier_mark,
            is_compared,
            is_superseded: Cell::new(false),
        })
    }

    /// Begins a transaction of the writer, and refuses if a later process serves the file. It takes the file's write
    /// lock at its start, and waits for other holders: a transaction that reads first would fail at its first change.
    pub(crate) fn begin(&self) -> Result<Transaction<'_>, DataFileError> {
        if self.is_superseded.get() {
            return Err(self.superseded());
        }
        let tx = begin_unfenced(&self.conn)?;
        self.compare()?;
        self.conn.prepare_cached(FLIP)?.execute([])?;
        self.is_compared.store(true, Ordering::Relaxed);
        Ok(tx)
    }

    /// Refuses if the generation in the file is not this connection's.
    fn compare(&self) -> Result<(), DataFileError> {
        let mut statement = self.conn.prepare_cached(GENERATION)?;
        let found: i64 = statement.query_row([], |row| row.get(0))?;
        if found == self.generation {
            return Ok(());
        }
        self.is_superseded.set(true);
        Err(self.superseded())
    }

    pub(crate) fn earlier_mark(&self) -> Option<&str> {
        self.earlier_mark.as_deref()
    }

    /// Whether a later process is known to serve the file. False if the file cannot be read.
    pub(crate) fn is_superseded(&self) -> bool {
        self.is_superseded.get() || matches!(self.compare(), Err(DataFileError::Superseded { .. }))
    }

    /// Records that a later process serves the file, and returns the error.
    pub(crate) fn supersede(&self) -> DataFileError {
        self.is_superseded.set(true);
        self.superseded()
    }

    /// The connection without the fence, for tests that write rows directly.
    #[cfg(test)]
    pub(crate) fn unfenced(self) -> Connection {
        self.conn.commit_hook(None::<fn() -> bool>).unwrap();
        self.conn.rollback_hook(None::<fn()>).unwrap();
        self.conn
    }

    fn superseded(&self) -> DataFileError {
        DataFileError::Superseded {
            path: self.path.display().to_string(),
        }
    }
}

/// Begins a writing transaction on a file that this process does not serve.
pub(crate) fn begin_unfenced(conn: &Connection) -> Result<Transaction<'_>, DataFileError> {
    Ok(Transaction::new_unchecked(
        conn,
        TransactionBehavior::Immediate,
    )?)
}

#[cfg(test)]
mod tests {
    use qiang_core::time::Timestamp;

    use super::*;
    use crate::file::{self, DataFileKind};

    fn open(folder: &tempfile::TempDir) -> FencedConnection {
        let path = folder.path().join("qiang.db");
        file::open_writer(&path, DataFileKind::Engine, Timestamp::from_millis(0)).unwrap()
    }

    const WRITE: &str = "INSERT OR REPLACE INTO probe (id, at) VALUES (0, 7)";

    fn written(conn: &Connection) -> bool {
        let probe = "SELECT at = 7 FROM probe";
        conn.query_row(probe, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_commit_that_did_not_compare_the_generation_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let conn = open(&folder);
        assert!(conn.execute(WRITE, []).is_err());
        let tx = begin_unfenced(&conn).unwrap();
        tx.execute(WRITE, []).unwrap();
        assert!(tx.commit().is_err());
        // A comparison counts for its own transaction alone.
        let tx = conn.begin().unwrap();
        tx.execute(WRITE, []).unwrap();
        tx.rollback().unwrap();
        assert!(conn.execute(WRITE, []).is_err());
        drop(conn.begin().unwrap());
        assert!(conn.execute(WRITE, []).is_err());
        assert!(!written(&conn));
        let tx = conn.begin().unwrap();
        tx.execute(WRITE, []).unwrap();
        tx.commit().unwrap();
        assert!(written(&conn));
        assert!(conn.execute(WRITE, []).is_err());
    }

    #[test]
    fn a_later_start_fences_the_earlier_one_for_good() {
        let folder = tempfile::TempDir::new().unwrap();
        let earlier = open(&folder);
        assert!(!earlier.is_superseded());
        let later = open(&folder);
        assert!(matches!(
            earlier.begin(),
            Err(DataFileError::Superseded { .. })
        ));
        let again = Connection::open(folder.path().join("qiang.db")).unwrap();
        let again = earlier.reopened(again).map(drop);
        assert!(
            matches!(again, Err(DataFileError::Superseded { .. })),
            "{again:?}"
        );
        later
            .begin()
            .unwrap()
            .execute("UPDATE file_kind SET generation = generation - 1", [])
            .unwrap();
        assert!(earlier.is_superseded());
        assert!(!later.is_superseded());
    }

    #[test]
    fn a_start_that_is_refused_fences_no_process() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let serving = open(&folder);
        let tx = serving.begin().unwrap();
        tx.execute(
            "INSERT OR REPLACE INTO probe (id, at) VALUES (0, 60000)",
            [],
        )
        .unwrap();
        tx.commit().unwrap();
        let behind = std::time::Duration::from_secs(1);
        let refused = file::open_engine(&path, Timestamp::from_millis(0), behind).map(drop);
        assert!(
            matches!(refused, Err(DataFileError::ClockBehind { .. })),
            "{refused:?}"
        );
        let refused =
            file::open_writer(&path, DataFileKind::Ledger, Timestamp::from_millis(0)).map(drop);
        assert!(
            matches!(refused, Err(DataFileError::OtherKind { .. })),
            "{refused:?}"
        );
        assert!(serving.begin().is_ok());
    }
}
