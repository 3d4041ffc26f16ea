//! Mark of a file that is open for writing. A copy of such a file without its write-ahead log lacks the newest changes
//! and may even be empty. It must neither be served nor used as a backup.
//!
//! The mark is set before the first grant and checkpointed into the file. A clean close removes it, in the checkpoint
//! that leaves all changes in the file. In between, the log (`-wal`) is never empty: it keeps the last commit even
//! after a checkpoint. Only a writer that repairs itself empties the log, without replacing it.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::{
    data_file::{self, FileId, beside},
    error::DataFileError,
};

/// Header of a file that was in WAL mode: SQLite's magic, and at `WRITE_VERSION` the version of its journal.
const MAGIC: &[u8] = b"SQLite format 3\0";
const WRITE_VERSION: usize = 18;
const WAL: u8 = 2;
const HEADER_BYTES: usize = 20;
/// Hexadecimal digits of the random number at the end of a mark.
const RANDOM_DIGITS: usize = 16;

/// Suffix of an empty file next to a data file that was overwritten while it was served. SQLite would combine such a
/// data file with the log of the earlier one.
pub(crate) const OVERWRITTEN: &str = ".overwritten";

/// Refuses a file that was copied while open, or whose process died, if its write-ahead log is missing.
pub(crate) fn check_complete(path: &Path) -> Result<(), DataFileError> {
    if beside(path, OVERWRITTEN).exists() {
        return Err(DataFileError::Overwritten {
            path: path.display().to_string(),
        });
    }
    let wal = beside(path, "-wal");
    let wal_bytes = wal.metadata().ok().map(|wal| wal.len());
    if wal_bytes.is_some_and(|bytes| bytes > 0) || !is_in_wal_mode(path)? {
        return Ok(());
    }
    let conn = open_immutable(path)?;
    let mark: rusqlite::Result<Option<String>> =
        conn.query_row("SELECT open_as FROM file_kind", [], |row| row.get(0));
    // A file of another program is judged when it is opened.
    let Ok(Some(mark)) = mark else {
        return Ok(());
    };
    if wal_bytes.is_some() && is_of(&mark, path, &wal)? {
        return Ok(()); // a repair emptied the log in place
    }
    Err(DataFileError::Incomplete {
        path: path.display().to_string(),
    })
}

/// The generation that the data file itself has, without its write-ahead log. `None` if it has no log, or no generation
/// yet. No connection may be open: SQLite would lose its locks.
pub(crate) fn generation_in_file(path: &Path) -> Result<Option<i64>, DataFileError> {
    let wal_bytes = beside(path, "-wal").metadata().map_or(0, |wal| wal.len());
    if wal_bytes == 0 || !is_in_wal_mode(path)? {
        return Ok(None);
    }
    let conn = open_immutable(path)?;
    // The pages of a file whose process died in a checkpoint may not fit each other.
    let generation = conn.query_row("SELECT generation FROM file_kind", [], |row| row.get(0));
    Ok(generation.ok())
}

/// Marks the file as open. The transaction must be committed and [checkpointed](checkpoint).
pub(crate) fn set(tx: &Connection, path: &Path) -> Result<(), DataFileError> {
    let (data, wal) = (FileId::at(path)?, FileId::at(&beside(path, "-wal"))?);
    tx.execute(
        "UPDATE file_kind SET open_as = ?1 || lower(hex(randomblob(8)))",
        [format!("{data}:{wal}:")],
    )?;
    Ok(())
}

/// Moves the mark from the write-ahead log into the file.
pub(crate) fn checkpoint(conn: &Connection) {
    let moved = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = moved {
        // The next checkpoint writes it. No data is lost.
        tracing::warn!(%error, "a copy of the file without its write-ahead log (-wal) would not be noticed yet");
    }
}

/// Whether the last connection to close keeps the log. By default SQLite checkpoints and removes it, even if the mark
/// is still set. That would look like a loss.
pub(crate) fn keep_wal(conn: &Connection, keep: bool) -> rusqlite::Result<()> {
    let set = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    set.map(drop)
}

/// Removes the mark. After the next checkpoint, the file alone is complete.
pub(crate) fn clear(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("UPDATE file_kind SET open_as = NULL", [])
        .map(drop)
}

/// URI of a file for SQLite, with parameters.
pub(crate) fn uri(path: &Path, parameters: &str) -> io::Result<String> {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'_')
        .remove(b'.');
    let path = std::path::absolute(path)?;
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), &RESERVED);
    Ok(format!("file:{path}?{parameters}"))
}

/// Opens a file that does not change, without creating files next to it.
fn open_immutable(path: &Path) -> Result<Connection, DataFileError> {
    let uri = uri(path, "mode=ro&immutable=1")?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(uri, flags)?)
}

fn is_in_wal_mode(path: &Path) -> io::Result<bool> {
    let header = match header(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        header => header?,
    };
    Ok(header.starts_with(MAGIC) && header.get(WRITE_VERSION) == Some(&WAL))
}

fn header(path: &Path) -> io::Result<Vec<u8>> {
    if let Some(file) = data_file::descriptor(FileId::at(path)?) {
        return data_file::read_at(&file, 0, HEADER_BYTES);
    }
    let mut header = Vec::new();
    let file = File::open(path)?;
    file.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok(header)
}

/// Whether a mark was made in this file with this log, not in a copy or under another name.
fn is_of(mark: &str, path: &Path, wal: &Path) -> io::Result<bool> {
    Ok(has_files(mark, FileId::at(path)?, FileId::at(wal)?))
}

/// Whether a mark names this file and this log.
pub(crate) fn has_files(mark: &str, data: FileId, wal: FileId) -> bool {
    mark.starts_with(&format!("{data}:{wal}:"))
}

/// The page of the data file that has the mark, and its offset there. It is the only page of its table, and may move.
pub(crate) fn page_in_file(
    conn: &Connection,
    file: &File,
) -> Result<(u64, Vec<u8>), DataFileError> {
    let page: u32 = conn.query_row(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'file_kind'",
        [],
        |row| row.get(0),
    )?;
    let size: u32 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let start = u64::from(page.saturating_sub(1)) * u64::from(size);
    Ok((start, data_file::read_at(file, start, size as usize)?))
}

/// The mark that the data file itself has, without its write-ahead log. `None` if the process keeps no descriptor.
pub(crate) fn in_file(conn: &Connection, path: &Path) -> Result<Option<String>, DataFileError> {
    let id = FileId::at(path)?;
    let Some(file) = data_file::descriptor(id) else {
        return Ok(None);
    };
    let (_, bytes) = page_in_file(conn, &file)?;
    Ok(find(&bytes, id))
}

/// Finds a complete mark of a data file in a page. The rest of a mark that a shorter row has overwritten is none.
pub(crate) fn find(page: &[u8], data: FileId) -> Option<String> {
    let prefix = format!("{data}:").into_bytes();
    let starts = page.windows(prefix.len()).enumerate();
    starts
        .filter(|(_, bytes)| *bytes == prefix)
        .find_map(|(start, _)| complete(&page[start..], prefix.len()))
}

/// The mark at the start of these bytes, whose first `known` bytes name its file.
fn complete(bytes: &[u8], known: usize) -> Option<String> {
    let is_number = |byte: &u8| byte.is_ascii_digit();
    let mut end = known;
    for _ in 0..2 {
        let digits = bytes[end..]
            .iter()
            .take_while(|byte| is_number(byte))
            .count();
        end += digits;
        if digits == 0 || bytes.get(end) != Some(&b':') {
            return None;
        }
        end += 1;
    }
    let random = bytes.get(end..end + RANDOM_DIGITS)?;
    let is_whole = random.iter().all(u8::is_ascii_hexdigit);
    is_whole.then(|| String::from_utf8_lossy(&bytes[..end + RANDOM_DIGITS]).into_owned())
}
