//! Archive file of one month: written next to a ledger that may be in use, and compared with its log.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use qiang_core::{event::Seq, ports::LogStretch};
use rusqlite::{Connection, OpenFlags, params};
use sha2::{Digest as _, Sha256};

use super::rows;
use crate::{
    copies::{UNFINISHED, is_free, sync_folder},
    data_file::{beside, open_private},
    error::DataFileError,
    file::BUSY_MAX,
    open_mark::uri,
};

const TABLES: &str = include_str!("tables.sql");
/// Entries copied or compared in one read transaction. A long read transaction keeps the write-ahead log long.
const CHUNK: u64 = 65_536;
/// Bytes read at a time for the digest.
const READ_BYTES: usize = 1 << 20;

/// Cancellation flag of an archive step: true while a caller waits for the result. A thread cannot be aborted; without
/// the flag, a process that ends would wait for a whole month.
#[derive(Clone)]
pub(super) struct ArchiveCancellation(Arc<AtomicBool>);

impl ArchiveCancellation {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Cancels the step: the caller has stopped waiting.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), DataFileError> {
        match self.0.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "its caller has stopped waiting",
            )
            .into()),
        }
    }
}

/// Writes a stretch of a ledger's log to a new file at `to`. When this returns, the file is on the disk.
///
/// # Errors
///
/// The path exists, entries are missing from the log, the step was cancelled, or the file system failed.
pub(super) fn write(
    ledger: &Path,
    to: &Path,
    stretch: LogStretch,
    wanted: &ArchiveCancellation,
) -> Result<(), DataFileError> {
    is_free(to)?;
    let unfinished = beside(to, UNFINISHED);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => drop(open_private(&unfinished)?), // // SQLite fills an existing empty file
    }
    fill(ledger, &unfinished, stretch, wanted)?;
    sync(&unfinished)?;
    fs::rename(&unfinished, to)?;
    sync_folder(to)
}

/// Syncs a file and its name to the disk.
pub(super) fn sync(path: &Path) -> Result<(), DataFileError> {
    File::open(path)?.sync_all()?;
    sync_folder(path)
}

fn fill(
    ledger: &Path,
    to: &Path,
    stretch: LogStretch,
    wanted: &ArchiveCancellation,
) -> Result<(), DataFileError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(to, flags)?;
    // No journal and no syncs: an unfinished file is deleted.
    conn.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    attach(&conn, ledger)?;
    conn.execute_batch(TABLES)?;
    for (after, upto) in chunks(stretch) {
        wanted.check()?;
        let tx = conn.unchecked_transaction()?;
        tx.prepare_cached(
            "INSERT OR IGNORE INTO main.campaigns SELECT ref, id FROM ledger.campaigns \
             WHERE ref IN (SELECT campaign FROM ledger.events WHERE seq > ?1 AND seq <= ?2)",
        )?
        .execute(params![after as i64, upto as i64])?;
        let copied = tx
            .prepare_cached(
                "INSERT INTO main.events SELECT seq, at, campaign, kind, number, user, quantity, amount, note \
                 FROM ledger.events WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
            )?
            .execute(params![after as i64, upto as i64])?;
        if copied as u64 != upto - after {
            let reason = format!("entries are missing from the log between {after} and {upto}");
            return Err(DataFileError::damaged(reason));
        }
        tx.commit()?;
    }
    let LogStretch { month, first, last } = stretch;
    let row = params![month.to_string(), first as i64, last as i64];
    conn.execute(
        "INSERT INTO archive (month, first, last) VALUES (?1, ?2, ?3)",
        row,
    )?;
    conn.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Compares an archive, campaigns included, with the ledger's log. Returns its stretch, or an error if they differ.
pub(super) fn examine(
    ledger: &Path,
    path: &Path,
    wanted: &ArchiveCancellation,
) -> Result<LogStretch, DataFileError> {
    let conn = open(path)?;
    let stretch = described(&conn)?;
    attach(&conn, ledger)?;
    let differs = || DataFileError::damaged(format!("{} is not what the log has", path.display()));
    let others: bool = conn.query_row(
        "SELECT EXISTS (SELECT 1 FROM main.campaigns c LEFT JOIN ledger.campaigns l ON l.ref = c.ref AND l.id = c.id \
         WHERE l.ref IS NULL) OR EXISTS (SELECT 1 FROM main.events e WHERE e.seq NOT BETWEEN ?1 AND ?2)",
        params![stretch.first as i64, stretch.last as i64],
        |row| row.get(0),
    )?;
    if others {
        return Err(differs());
    }
    for (after, upto) in chunks(stretch) {
        wanted.check()?;
        let same: i64 = conn
            .prepare_cached(
                "SELECT count(*) FROM main.events a JOIN ledger.events e ON e.seq = a.seq \
                 JOIN main.campaigns c ON c.ref = a.campaign \
                 WHERE a.seq > ?1 AND a.seq <= ?2 AND a.at = e.at AND a.campaign = e.campaign AND a.kind = e.kind \
                 AND a.number IS e.number AND a.user IS e.user AND a.quantity IS e.quantity \
                 AND a.amount IS e.amount AND a.note IS e.note",
            )?
            .query_row(params![after as i64, upto as i64], |row| row.get(0))?;
        if same as u64 != upto - after {
            return Err(differs());
        }
    }
    Ok(stretch)
}

/// Opens an archive read-only. It no longer changes.
pub(super) fn open(path: &Path) -> Result<Connection, DataFileError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = uri(path, "mode=ro&immutable=1")?;
    Ok(Connection::open_with_flags(uri, flags)?)
}

/// The stretch that an archive states in its own table.
pub(super) fn described(archive: &Connection) -> Result<LogStretch, DataFileError> {
    let columns = archive.query_row("SELECT month, first, last FROM archive", [], |row| {
        <(String, i64, i64)>::try_from(row)
    });
    let (month, first, last) = columns?;
    Ok(LogStretch {
        month: rows::month(&month)?,
        first: first as Seq,
        last: last as Seq,
    })
}

/// Returns the SHA-256 digest of a file, in hexadecimal, and its size in bytes.
pub(super) fn digest(
    path: &Path,
    wanted: &ArchiveCancellation,
) -> Result<(String, u64), DataFileError> {
    let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        wanted.check()?;
        match file.read(&mut buffer)? {
            0 => return Ok((hex::encode(hash.finalize()), bytes)),
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

fn attach(conn: &Connection, ledger: &Path) -> Result<(), DataFileError> {
    conn.busy_timeout(BUSY_MAX)?;
    conn.execute("ATTACH ?1 AS ledger", [uri(ledger, "mode=ro")?])?;
    Ok(())
}

/// Splits a stretch into chunks: (position before the first entry, position of the last entry).
fn chunks(stretch: LogStretch) -> impl Iterator<Item = (Seq, Seq)> {
    let LogStretch { first, last, .. } = stretch;
    let step = usize::try_from(CHUNK).unwrap_or(usize::MAX);
    let begins = (first.saturating_sub(1)..last).step_by(step);
    begins.map(move |after| (after, last.min(after + CHUNK)))
}

#[cfg(test)]
mod tests {
    use qiang_core::time::{Month, Timestamp};

    use super::*;
    use crate::file::{DataFileKind, open_writer};

    #[test]
    fn what_nobody_waits_for_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let [ledger, to] = ["qiang.db", "archive.db"].map(|name| folder.path().join(name));
        let now = Timestamp::default();
        let conn = open_writer(&ledger, DataFileKind::Engine, now).unwrap();
        let conn = conn.unfenced();
        let entry = "INSERT INTO events (seq, at, campaign, kind) VALUES (1, 0, 1, 0)";
        conn.execute(entry, []).unwrap();
        let stretch = LogStretch {
            month: Month::containing(now),
            first: 1,
            last: 1,
        };
        let wanted = ArchiveCancellation::new();
        wanted.end();
        assert!(write(&ledger, &to, stretch, &wanted).is_err());
        assert!(!to.exists());
        write(&ledger, &to, stretch, &ArchiveCancellation::new()).unwrap();
        assert_eq!(described(&open(&to).unwrap()).unwrap(), stretch);
    }
}
