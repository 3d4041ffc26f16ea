//! State shared by all changes of the ledger's tables in one transaction.

use qiang_core::time::Timestamp;
use rusqlite::Connection;

use crate::error::DataFileError;

/// Context shared by all jobs of one transaction.
#[derive(Clone, Copy)]
pub(crate) struct TransactionContext<'c> {
    /// Connection with the open transaction.
    pub(crate) conn: &'c Connection,
    pub(crate) now: Timestamp,
    /// Whether the whole log is settled. If so, a job that enters and opens a campaign also settles the opening.
    pub(crate) settles_openings: bool,
}

impl<'c> TransactionContext<'c> {
    /// A context in which openings are settled later, by settlement.
    pub(crate) fn new(conn: &'c Connection, now: Timestamp) -> Self {
        Self {
            conn,
            now,
            settles_openings: false,
        }
    }
}

/// Isolates changes, so that a refused one is undone alone.
///
/// Savepoints would do. But after each savepoint, SQLite copies every page at its first change, and the small jobs of a
/// batch all change the last pages of the same tables. A refused job has almost never changed a row. So changes run
/// without savepoints. If a refused one has changed rows, the whole transaction is rolled back and run again with
/// savepoints.
#[derive(Debug, Default)]
pub(crate) struct ChangeIsolation {
    by_savepoints: bool,
    /// Whether changes of a refused job are still in the transaction.
    is_mixed: bool,
}

/// Start of a change.
pub(crate) struct ChangeMark {
    changes: u64,
}

impl ChangeIsolation {
    pub(crate) fn by_savepoints() -> Self {
        Self {
            by_savepoints: true,
            is_mixed: false,
        }
    }

    /// Whether the transaction must be rolled back and run again with savepoints.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    pub(crate) fn begin(&self, conn: &Connection) -> Result<ChangeMark, DataFileError> {
        if self.by_savepoints {
            conn.prepare_cached("SAVEPOINT apart")?.execute([])?;
        }
        let changes = conn.total_changes();
        Ok(ChangeMark { changes })
    }

    /// Ends the change that began last.
    pub(crate) fn end(
        &mut self,
        conn: &Connection,
        begun: ChangeMark,
        is_refused: bool,
    ) -> Result<(), DataFileError> {
        if !self.by_savepoints {
            self.is_mixed |= is_refused && conn.total_changes() > begun.changes;
            return Ok(());
        }
        if is_refused {
            conn.prepare_cached("ROLLBACK TO apart")?.execute([])?;
        }
        conn.prepare_cached("RELEASE apart")?.execute([])?;
        Ok(())
    }
}
