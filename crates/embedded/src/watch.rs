//! Watch: checks that the files that a writer writes are still those at its path.
//!
//! A removed, moved or replaced file accepts every commit and keeps none. So the writer checks after each commit,
//! before it answers. The paths must lead to its open files, and the data file must have the [mark](crate::open_mark)
//! of this start. The mark is also checked before each commit: a process that opened the file with another write-ahead
//! log, as through a hard link, is not seen by the [fence](crate::fence).

use std::{
    cell::Cell,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use qiang_core::time::Timestamp;
use rusqlite::Transaction;

use crate::{
    data_file::{self, FileId, beside, open_private},
    error::DataFileError,
    fence::FencedConnection,
    file,
    open_mark::{self, OVERWRITTEN},
};

/// Mark that the data file has.
#[derive(Debug, PartialEq, Eq)]
enum FileMark {
    /// This start's, or none yet.
    Own,
    /// That of a later start.
    Later(String),
    /// None, or one of another file.
    Foreign,
}

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
    pub(crate) fn from_path(path: &Path, conn: &FencedConnection) -> Result<Self, DataFileError> {
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

    /// Refuses if a file was moved or overwritten since it was opened, or if a later process serves it. No transaction
    /// may be open.
    pub(crate) fn check(&self, conn: &FencedConnection) -> Result<(), DataFileError> {
        self.check_files(conn)?;
        match conn.is_superseded() {
            true => Err(conn.supersede()),
            false => Ok(()),
        }
    }

    fn check_files(&self, conn: &FencedConnection) -> Result<(), DataFileError> {
        let (path, id) = &self.data;
        if !leads_to(path, *id) {
            let path = path.display().to_string();
            return Err(DataFileError::Moved { path });
        }
        let is_saved = self.is_saved.get();
        if !is_saved {
            self.check_mark(conn)?;
        }
        for (path, id) in &self.beside {
            if is_saved || !leads_to(path, *id) {
                let path = path.display().to_string();
                return Err(DataFileError::LogMoved { path });
            }
        }
        Ok(())
    }

    /// Refuses if the data file has another mark than that of this start.
    fn check_mark(&self, conn: &FencedConnection) -> Result<(), DataFileError> {
        let (error, has_own_log) = match self.file_mark(conn)? {
            FileMark::Own => return Ok(()),
            FileMark::Later(mark) => (conn.supersede(), self.has_log_of(&mark)),
            // The later process has closed the file since.
            FileMark::Foreign if conn.is_superseded() => (conn.supersede(), true),
            FileMark::Foreign => {
                let path = self.data.0.display().to_string();
                (DataFileError::Overwritten { path }, false)
            }
        };
        // The log beside this path does not belong to the file, so the next start must refuse the file too.
        if !has_own_log && let Err(error) = open_private(&beside(&self.data.0, OVERWRITTEN)) {
            tracing::warn!(%error, "cannot record that the data file was overwritten");
        }
        Err(error)
    }

    /// Whether a mark is of a start with the write-ahead log of this one.
    fn has_log_of(&self, mark: &str) -> bool {
        let [(_, wal), _] = &self.beside;
        open_mark::has_files(mark, self.data.1, *wal)
    }

    /// The mark in the data file.
    fn file_mark(&self, conn: &FencedConnection) -> Result<FileMark, DataFileError> {
        let Some((mark, file)) = &self.mark else {
            return Ok(FileMark::Own);
        };
        let at = self.mark_at.get();
        if let Some(at) = at
            && data_file::read_at(file, at, mark.len())? == *mark
        {
            return Ok(FileMark::Own);
        }
        let (start, bytes) = open_mark::page_in_file(conn, file)?;
        let found = bytes.windows(mark.len()).position(|it| it == mark);
        if let Some(found) = found {
            self.mark_at.set(Some(start + found as u64));
            return Ok(FileMark::Own);
        }
        Ok(match open_mark::find(&bytes, self.data.1) {
            // Until a checkpoint writes the own mark, the file has the earlier one.
            Some(other) if at.is_some() || conn.earlier_mark() != Some(&other) => {
                FileMark::Later(other)
            }
            None if at.is_some() => FileMark::Foreign,
            _ => FileMark::Own,
        })
    }

    /// After a refusal: if only the write-ahead log is gone, saves its content from the connection to the data file and
    /// closes the file. The next start then has all commits.
    pub(crate) fn save(&self, conn: &FencedConnection, refused: &DataFileError) {
        if matches!(refused, DataFileError::LogMoved { .. }) && !self.is_saved.replace(true) {
            file::checkpoint_at_close(conn, |tx| self.commit_last(conn, tx));
        }
    }

    /// Commits a change of the row for probes. The commit proves that the file can be written.
    pub(crate) fn commit_probe(
        &self,
        conn: &FencedConnection,
        now: Timestamp,
    ) -> Result<(), DataFileError> {
        let tx = conn.begin()?;
        file::probe(&tx, now)?;
        self.commit(conn, tx)
    }

    /// Saves the content of the write-ahead log to the data file, unless the file is no longer this writer's. Then
    /// nothing is written, and the log stays as it is.
    pub(crate) fn close(&self, conn: &FencedConnection) {
        match self.check(conn) {
            Ok(()) => file::checkpoint_at_close(conn, |tx| self.commit_last(conn, tx)),
            Err(error) => {
                let reason = error.chain();
                tracing::error!(reason, "closed without a change of the data file");
            }
        }
    }

    /// Commits the removal of the mark. Its checkpoint may be part of the commit, so the mark is not checked again.
    fn commit_last(
        &self,
        conn: &FencedConnection,
        tx: Transaction<'_>,
    ) -> Result<(), DataFileError> {
        self.check_mark(conn)?;
        Ok(tx.commit()?)
    }

    /// Commits, unless a later process opened the file with another write-ahead log. Refuses afterwards if a file was
    /// moved or overwritten: then the commit may be lost with its file.
    pub(crate) fn commit(
        &self,
        conn: &FencedConnection,
        tx: Transaction<'_>,
    ) -> Result<(), DataFileError> {
        if !self.is_saved.get() {
            self.check_mark(conn)?;
        }
        tx.commit()?;
        self.check_files(conn)
    }
}

/// False if the check fails, because then it is unknown whether a commit is kept.
fn leads_to(path: &Path, id: FileId) -> bool {
    FileId::at(path).is_ok_and(|found| found == id)
}
