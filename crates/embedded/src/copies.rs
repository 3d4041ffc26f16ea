//! Copies of a file: backups of a file in use, and their restore.
//!
//! A copy is one complete file with the state of one moment. It includes the content of the write-ahead log.

mod numbers;

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use qiang_core::event::{PartitionId, Seq};
use rusqlite::Connection;

use crate::{
    data_file::{self, beside, open_private},
    error::DataFileError,
    file::{self, DataFileKind},
    log,
    open_mark::{self, OVERWRITTEN},
};

/// Suffix of a copy's name until the copy is complete.
pub(crate) const UNFINISHED: &str = ".unfinished";
/// Suffix of the name of a file that a restored one has replaced.
const REPLACED: &str = ".replaced";

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    /// Last entry of its log; `None` for a standalone ledger.
    pub head: Option<Seq>,
    /// Settled position of its ledger by partition.
    pub settled: Vec<(PartitionId, Seq)>,
    /// Size in bytes.
    pub bytes: u64,
    /// Sales of a restored file whose next order number was never used before.
    pub skipped: u64,
}

/// Options of a restore.
#[derive(Debug, Clone, Copy, Default)]
pub struct Restore {
    /// Whether an existing file is replaced. It is then kept under a name that ends in `.replaced`.
    pub replace: bool,
    /// Whether to accept a file whose write-ahead log is missing.
    pub as_it_is: bool,
}

/// Copies the file as it is at one moment, also while it is in use.
///
/// # Errors
/// The file cannot be read, is not Qiang's or is incomplete; or the copy's path exists or cannot be written.
pub fn back_up(from: &Path, to: &Path) -> Result<CopyReport, DataFileError> {
    is_free(to)?;
    let from = &data_file::real_path(from)?;
    open_mark::check_complete(from)?;
    let unfinished = beside(to, UNFINISHED);
    let copied = copy(from, &unfinished)?;
    fs::rename(&unfinished, to)?;
    sync_folder(to)?;
    Ok(copied)
}

/// Puts a copy of `from` at the path `to`, which no process may have open. Users may know of orders that the copy
/// lacks, so its sales do not give these numbers again.
///
/// # Errors
/// As [`back_up`]; or a process serves `to`, or `to` exists and must not be replaced.
pub fn restore(from: &Path, to: &Path, how: Restore) -> Result<CopyReport, DataFileError> {
    let (from, to) = (&data_file::real_path(from)?, &data_file::real_path(to)?);
    let _lock = data_file::lock_replaced(to)?;
    let (wal, replaced) = (beside(to, "-wal"), beside(to, REPLACED));
    if how.replace {
        is_free(&replaced)?;
        is_free(&beside(&replaced, "-wal"))?;
    } else {
        is_free(to)?;
        is_free(&wal)?; // // SQLite would apply it to the restored file
    }
    if !how.as_it_is {
        open_mark::check_complete(from)?;
    }
    let unfinished = beside(to, UNFINISHED);
    let copied = copy(from, &unfinished)?;
    let skipped = numbers::skip(&unfinished, to, copied.head)?;
    let bytes = unfinished.metadata()?.len();
    // Moves the log first: after an interruption, the missing log is noticed. At every moment the name has a file.
    if wal.exists() {
        fs::rename(&wal, beside(&replaced, "-wal"))?;
    }
    if to.exists() {
        fs::hard_link(to, &replaced)?;
    }
    sync_folder(to)?;
    fs::rename(&unfinished, to)?;
    for suffix in ["-shm", OVERWRITTEN] {
        match fs::remove_file(beside(to, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    sync_folder(to)?;
    Ok(CopyReport {
        skipped,
        bytes,
        ..copied
    })
}

/// Makes a complete copy, which is on the disk when this returns.
fn copy(from: &Path, to: &Path) -> Result<CopyReport, DataFileError> {
    let conn = file::open_reader(from)?;
    let not_ours = |_| DataFileError::damaged("it is no file of Qiang's");
    let version: u32 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(not_ours)?;
    if version > file::SCHEMA_VERSION {
        let known = file::SCHEMA_VERSION;
        return Err(DataFileError::TooNew {
            found: version,
            known,
        });
    }
    let kind = file::kind_in(&conn)?
        .ok_or_else(|| DataFileError::damaged("the file does not say what it is for"))?;
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => drop(open_private(to)?), // // SQLite fills an existing empty file
    }
    let name = to.to_str().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "its name is not valid UTF-8")
    })?;
    conn.execute("VACUUM INTO ?1", [name])?;
    drop(conn);
    let copied = examine(to, kind)?;
    File::open(to)?.sync_all()?;
    Ok(copied)
}

/// Closes a copy that was made of an open file, and looks whether it is sound.
fn examine(path: &Path, kind: DataFileKind) -> Result<CopyReport, DataFileError> {
    let conn = Connection::open(path)?;
    open_mark::clear(&conn)?;
    let sound: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        return Err(DataFileError::damaged(sound));
    }
    let settled = conn
        .prepare("SELECT partition, seq FROM settled ORDER BY partition")?
        .query_map([], |row| {
            Ok((PartitionId(row.get(0)?), row.get::<_, i64>(1)? as Seq))
        })?
        .collect::<Result<_, _>>()?;
    let head = log::head(&conn)?;
    Ok(CopyReport {
        head: (kind == DataFileKind::Engine).then_some(head),
        settled,
        bytes: path.metadata()?.len(),
        skipped: 0,
    })
}

pub(crate) fn is_free(path: &Path) -> Result<(), DataFileError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(DataFileError::Exists {
            path: path.display().to_string(),
        }),
    }
}

/// Syncs the folder of a path: only then is a changed name on the disk.
pub(crate) fn sync_folder(path: &Path) -> Result<(), DataFileError> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    #[cfg(unix)]
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}
