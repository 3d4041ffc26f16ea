//! Whether the files that a writer writes are still those at its path.
//!
//! A removed, moved or replaced file takes every commit as before, and keeps none of them. So a writer looks after each
//! commit, before it answers: the paths must lead to the files that it has open, and the file itself must have the
//! [mark](crate::open_mark) of this start.

use std::{
    cell::Cell,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, Transaction};

use crate::{
    data_file::{self, FileId, beside, open_private},
    error::StoreError,
    file,
    open_mark::OVERWRITTEN,
};

/// The files of a writer as it opened them.
#[derive(Debug)]
pub(crate) struct Watch {
    data: (PathBuf, FileId),
    /// SQLite's files beside it.
    beside: [(PathBuf, FileId); 2],
    /// The mark of this start, and the file to read it from. None where the process keeps no descriptor.
    mark: Option<(Vec<u8>, Arc<File>)>,
    /// Where the mark is in the file; none before a checkpoint has moved it there.
    mark_at: Cell<Option<u64>>,
    /// The log was gone and its content is in the file, which is closed for this process.
    is_saved: Cell<bool>,
}

impl Watch {
    /// The files of a connection that has the data file open and marked.
    pub(crate) fn of(path: &Path, conn: &Connection) -> Result<Self, StoreError> {
        let of = |path: PathBuf| FileId::at(&path).map(|id| (path, id));
        let data = of(path.to_owned())?;
        let mark = conn.query_row("SELECT open_as FROM file_kind", [], |row| {
            row.get::<_, Option<String>>(0)
        })?;
        let file = data_file::descriptor(data.1);
        let watch = Self {
            mark: mark.map(String::into_bytes).zip(file),
            mark_at: Cell::new(None),
            is_saved: Cell::new(false),
            beside: [of(beside(path, "-wal"))?, of(beside(path, "-shm"))?],
            data,
        };
        watch.check(conn)?;
        Ok(watch)
    }

    /// Refuses if a file is not where it was opened, or was overwritten. No transaction may be open.
    pub(crate) fn check(&self, conn: &Connection) -> Result<(), StoreError> {
        let (path, id) = &self.data;
        let named = || path.display().to_string();
        if !leads_to(path, *id) {
            return Err(StoreError::Moved { path: named() });
        }
        let is_saved = self.is_saved.get();
        if !is_saved && !self.has_mark(conn)? {
            // The next start refuses the file too.
            if let Err(error) = open_private(&beside(path, OVERWRITTEN)) {
                tracing::warn!(%error, "cannot record that the data file was overwritten");
            }
            return Err(StoreError::Overwritten { path: named() });
        }
        for (path, id) in &self.beside {
            if is_saved || !leads_to(path, *id) {
                let path = path.display().to_string();
                return Err(StoreError::LogMoved { path });
            }
        }
        Ok(())
    }

    /// Whether the file has the mark, if it has had it before.
    fn has_mark(&self, conn: &Connection) -> Result<bool, StoreError> {
        let Some((mark, file)) = &self.mark else {
            return Ok(true);
        };
        let at = self.mark_at.get();
        if let Some(at) = at
            && data_file::read_at(file, at, mark.len())? == *mark
        {
            return Ok(true);
        }
        // It is on the only page of its table, which may have moved.
        let page: u32 = conn.query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'file_kind'",
            [],
            |row| row.get(0),
        )?;
        let size: u32 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let start = u64::from(page.saturating_sub(1)) * u64::from(size);
        let bytes = data_file::read_at(file, start, size as usize)?;
        let found = bytes.windows(mark.len()).position(|it| it == mark);
        if let Some(found) = found {
            self.mark_at.set(Some(start + found as u64));
        }
        Ok(found.is_some() || at.is_none())
    }

    /// After a refusal: if the log alone is gone, moves its content from the connection into the data file and closes
    /// that. The next start has everything then.
    pub(crate) fn save(&self, conn: &Connection, refused: &StoreError) {
        if matches!(refused, StoreError::LogMoved { .. }) && !self.is_saved.replace(true) {
            file::checkpoint_at_close(conn);
        }
    }

    /// Commits, and refuses as [`Self::check`] does. Then the commit may be lost with its file.
    pub(crate) fn commit(&self, conn: &Connection, tx: Transaction<'_>) -> Result<(), StoreError> {
        tx.commit()?;
        self.check(conn)
    }
}

/// False where it cannot be found out: then it is not known that a commit is kept.
fn leads_to(path: &Path, id: FileId) -> bool {
    FileId::at(path).is_ok_and(|found| found == id)
}
