//! Watch: checks that the files that a writer writes are still those at its path.
//!
//! A removed, moved or replaced file accepts every commit and keeps none. So the writer checks after each commit,
//! before it answers. The paths must lead to its open files, and the data file must have the [mark](crate::open_mark)
//! of this start.

use std::{
    cell::Cell,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{Connection, Transaction};

use crate::{
    data_file::{self, FileId, beside, open_private},
    error::DataFileError,
    file,
    open_mark::OVERWRITTEN,
};

/// Files of a writer as it opened them.
#[derive(Debug)]
pub(crate) struct FileWatch {
    data: (PathBuf, FileId),
    /// SQLite's files next to the data file.
    beside: [(PathBuf, FileId); 2],
    /// Mark of this start, and the file to read it from. `None` if the process keeps no descriptor.
    mark: Option<(Vec<u8>, Arc<File>)>,
    /// Offset of the mark in the file; `None` before the first checkpoint writes it there.
    mark_at: Cell<Option<u64>>,
    /// Whether the write-ahead log was gone and its content was saved to the file, which is then closed for this
    /// process.
    is_saved: Cell<bool>,
}

impl FileWatch {
    /// The files of a connection that has the data file open and marked.
    pub(crate) fn from_path(path: &Path, conn: &Connection) -> Result<Self, DataFileError> {
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

    /// Refuses if a file was moved or overwritten since it was opened. No transaction may be open.
    pub(crate) fn check(&self, conn: &Connection) -> Result<(), DataFileError> {
        let (path, id) = &self.data;
        let named = || path.display().to_string();
        if !leads_to(path, *id) {
            return Err(DataFileError::Moved { path: named() });
        }
        let is_saved = self.is_saved.get();
        if !is_saved && !self.has_mark(conn)? {
            // So that the next start refuses the file too.
            if let Err(error) = open_private(&beside(path, OVERWRITTEN)) {
                tracing::warn!(%error, "cannot record that the data file was overwritten");
            }
            return Err(DataFileError::Overwritten { path: named() });
        }
        for (path, id) in &self.beside {
            if is_saved || !leads_to(path, *id) {
                let path = path.display().to_string();
                return Err(DataFileError::LogMoved { path });
            }
        }
        Ok(())
    }

    /// Whether the file has the mark. True as long as no checkpoint has written it.
    fn has_mark(&self, conn: &Connection) -> Result<bool, DataFileError> {
        let Some((mark, file)) = &self.mark else {
            return Ok(true);
        };
        let at = self.mark_at.get();
        if let Some(at) = at
            && data_file::read_at(file, at, mark.len())? == *mark
        {
            return Ok(true);
        }
        // The mark is on the only page of its table, which may have moved.
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

    /// After a refusal: if only the write-ahead log is gone, saves its content from the connection to the data file and
    /// closes the file. The next start then has all commits.
    pub(crate) fn save(&self, conn: &Connection, refused: &DataFileError) {
        if matches!(refused, DataFileError::LogMoved { .. }) && !self.is_saved.replace(true) {
            file::checkpoint_at_close(conn);
        }
    }

    /// Commits, and then refuses as [`Self::check`] does. After a refusal, the commit may be lost with its file.
    pub(crate) fn commit(
        &self,
        conn: &Connection,
        tx: Transaction<'_>,
    ) -> Result<(), DataFileError> {
        tx.commit()?;
        self.check(conn)
    }
}

/// False if the check fails, because then it is unknown whether a commit is kept.
fn leads_to(path: &Path, id: FileId) -> bool {
    FileId::at(path).is_ok_and(|found| found == id)
}
