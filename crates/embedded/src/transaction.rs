//! What changes of the ledger's tables in one transaction have in common.

use qiang_core::time::Timestamp;
use rusqlite::Connection;

use crate::error::StoreError;

/// What the jobs of a transaction begin from.
#[derive(Clone, Copy)]
pub(crate) struct Basis<'c> {
    /// The transaction.
    pub(crate) conn: &'c Connection,
    pub(crate) now: Timestamp,
    /// Whether everything in the log is settled, so that campaigns which jobs enter and open are settled with them.
    pub(crate) settles_openings: bool,
}

impl<'c> Basis<'c> {
    /// Where openings are settled in their turn.
    pub(crate) fn new(conn: &'c Connection, now: Timestamp) -> Self {
        Self {
            conn,
            now,
            settles_openings: false,
        }
    }
}

/// Keeps changes apart, so that one which is refused is undone alone.
///
/// A savepoint would do. But behind each SQLite copies every page that is changed for the first time, and the small
/// jobs of a batch all change the last pages of the same tables. What is refused has almost never changed anything by
/// then. So changes are made without savepoints, and where one that is refused has changed rows, the transaction has to
/// be undone as a whole and made again with them.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    by_savepoints: bool,
    /// What was refused is still in the transaction.
    is_mixed: bool,
}

/// Where a change began.
pub(crate) struct Begun {
    changes: u64,
}

impl Apart {
    pub(crate) fn by_savepoints() -> Self {
        Self {
            by_savepoints: true,
            is_mixed: false,
        }
    }

    /// Whether the transaction has to be undone and its changes made again, apart by savepoints.
    pub(crate) fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    pub(crate) fn begin(&self, conn: &Connection) -> Result<Begun, StoreError> {
        if self.by_savepoints {
            conn.prepare_cached("SAVEPOINT apart")?.execute([])?;
        }
        let changes = conn.total_changes();
        Ok(Begun { changes })
    }

    /// Ends the change that began last.
    pub(crate) fn end(
        &mut self,
        conn: &Connection,
        begun: Begun,
        is_refused: bool,
    ) -> Result<(), StoreError> {
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
