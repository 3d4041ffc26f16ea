//! Archives of an engine's log. Entries that have left the file are read from their archives, so the checks see one
//! log.
//!
//! A view `events` in the temporary schema hides the table of the file. It has the archived entries, followed by those
//! of the file.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rusqlite::{Connection, params, types::Value};
use sha2::{Digest as _, Sha256};

use super::{open, report::CheckResult};

/// Bytes per read for the digest.
const READ_BYTES: usize = 1 << 20;

const ARCHIVED: &str = "\
CREATE TEMP TABLE archived (
    seq INTEGER PRIMARY KEY, at, campaign, kind, number, user, quantity, amount, note
);
CREATE TEMP VIEW events AS
SELECT seq, at, campaign, kind, number, user, quantity, amount, note FROM temp.archived
UNION ALL
SELECT seq, at, campaign, kind, number, user, quantity, amount, note FROM main.events
WHERE seq > (SELECT max(last) FROM main.archives);";

/// Archive, as recorded in the ledger's file.
struct RecordedArchive {
    first: i64,
    last: i64,
    month: String,
    file: String,
    folder: String,
    sha256: String,
}

/// Joins the log with its archives. They are in this folder, or without one beside the file or where they were written.
/// Returns the check of the archives, or `None` if there are none. If a row offends, the log is incomplete.
pub(super) fn unite(
    conn: &Connection,
    folder: Option<&Path>,
) -> anyhow::Result<Option<CheckResult>> {
    let all = recorded(conn).context("cannot read the table of archives")?;
    if all.is_empty() {
        return Ok(None);
    }
    let ledger = PathBuf::from(conn.path().unwrap_or_default());
    let mut check = CheckResult::new("archives_whole", all.len() as u64);
    conn.execute_batch(ARCHIVED)?;
    for archive in all {
        let RecordedArchive { first, last, .. } = archive;
        let mut offend = |what: &str| {
            let file = &archive.file;
            check.offend(format!(
                "{file} {what}: entries {first} to {last} are not proved"
            ));
        };
        let path = match archive.find(&ledger, folder) {
            Ok(path) => path,
            Err(what) => {
                offend(what);
                continue;
            }
        };
        match read(conn, &archive, &path) {
            Ok(true) => {}
            Ok(false) => offend("does not have what it was written for"),
            Err(error) if super::is_of_rows(&error) => offend("cannot be read"),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
    }
    Ok(Some(check))
}

impl RecordedArchive {
    /// Path of the unchanged file, or the reason why there is none.
    fn find(&self, ledger: &Path, folder: Option<&Path>) -> Result<PathBuf, &'static str> {
        let mut what = "is not there";
        let folders = match folder {
            Some(folder) => [Some(folder), None],
            None => [ledger.parent(), Some(Path::new(&self.folder))],
        };
        for folder in folders.into_iter().flatten() {
            let path = folder.join(&self.file);
            match digest(&path) {
                Ok(digest) if digest == self.sha256 => return Ok(path),
                Ok(_) => what = "is not the file that was written",
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => what = "cannot be read",
            }
        }
        Err(what)
    }
}

fn recorded(conn: &Connection) -> rusqlite::Result<Vec<RecordedArchive>> {
    let sql = "SELECT first, last, month, file, folder, sha256 FROM archives ORDER BY first";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        Ok(RecordedArchive {
            first: row.get(0)?,
            last: row.get(1)?,
            month: row.get(2)?,
            file: row.get(3)?,
            folder: row.get(4)?,
            sha256: row.get(5)?,
        })
    })?;
    rows.collect()
}

/// Copies the entries of an archive into the temporary table, with the campaign numbers of the ledger's file. Returns
/// false if it is not the recorded archive.
fn read(conn: &Connection, archive: &RecordedArchive, path: &Path) -> rusqlite::Result<bool> {
    let from = open::at_rest(path)?;
    let said = from.query_row("SELECT month, first, last FROM archive", [], |row| {
        <(String, i64, i64)>::try_from(row)
    })?;
    if said != (archive.month.clone(), archive.first, archive.last) {
        return Ok(false);
    }
    let mut campaign = conn.prepare("SELECT ref FROM campaigns WHERE id = ?1")?;
    let mut insert = conn.prepare(
        "INSERT OR IGNORE INTO temp.archived VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let mut entries = from.prepare(
        "SELECT e.seq, e.at, e.campaign, e.kind, e.number, e.user, e.quantity, e.amount, e.note, c.id \
         FROM events e LEFT JOIN campaigns c ON c.ref = e.campaign ORDER BY e.seq",
    )?;
    let (mut rows, mut next) = (entries.query([])?, archive.first);
    // Usually many adjacent entries belong to one campaign.
    let mut known: (Value, i64) = (Value::Null, 0);
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(0)? != next {
            return Ok(false);
        }
        next += 1;
        let id: Value = row.get(9)?;
        if known.0 != id || id == Value::Null {
            let mut found = campaign.query([&id])?;
            // A campaign that the ledger lacks gets a number that no campaign can have.
            let number = match found.next()? {
                Some(found) => found.get(0)?,
                None => -row.get::<_, i64>(2)?.abs() - 1,
            };
            known = (id, number);
        }
        let value = |column: usize| row.get::<_, Value>(column);
        insert.execute(params![
            value(0)?,
            value(1)?,
            known.1,
            value(3)?,
            value(4)?,
            value(5)?,
            value(6)?,
            value(7)?,
            value(8)?
        ])?;
    }
    Ok(next == archive.last + 1)
}

/// SHA-256 digest of a file, in hexadecimal digits.
fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}
