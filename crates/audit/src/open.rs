//! Opens a ledger file without changing it, whether a server runs on it, was killed on it, or closed it properly.
//!
//! | beside the file | meaning | access |
//! |---|---|---|
//! | a `-wal` with content | a server is running, or was killed | together with the `-wal`, read-only |
//! | no `-wal`, or an empty one | everything is in the file | as immutable: no lock, no new file |
//!
//! An ordinary read of a file in WAL mode creates a `-wal` and a `-shm`, which a read-only connection leaves. The
//! second row avoids that. A server that starts during an immutable read may change the file under the reader. The
//! audit detects this afterwards.

use std::{
    fs::{File, Metadata},
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{anyhow, bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::engine;

/// Schema version that the audit knows: `user_version` of the file.
const SCHEMA_VERSION: u32 = 1;
/// Maximum wait for a lock. A server has one only while it recovers.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// Kind of a ledger file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerFileKind {
    /// File of an embedded engine, with its log.
    Engine,
    /// Ledger alone; its logs are elsewhere.
    Ledger,
}

impl LedgerFileKind {
    /// Description of the kind.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Engine => {
                "the file of an embedded engine: a log, and the ledger that follows from it"
            }
            Self::Ledger => "the file of a ledger alone: what it follows from is elsewhere",
        }
    }
}

/// Ledger that is open for reading.
pub(super) struct LedgerConnection {
    pub(super) conn: Connection,
    pub(super) kind: LedgerFileKind,
    /// Database of which the file is a copy.
    pub(super) place: Option<String>,
    /// State of an immutable file before the audit.
    rest: Option<RestOfFile>,
}

/// Path and metadata of a file without a writer.
struct RestOfFile {
    path: PathBuf,
    metadata: Metadata,
}

impl LedgerConnection {
    /// Copy of a ledger in a database, as of one moment.
    pub(super) fn copied(conn: Connection, place: String) -> Self {
        Self {
            conn,
            kind: LedgerFileKind::Ledger,
            place: Some(place),
            rest: None,
        }
    }

    /// Whether the audit has read the file as of one moment.
    pub(super) fn held_still(&self) -> bool {
        self.rest.as_ref().is_none_or(RestOfFile::is_undisturbed)
    }
}

impl RestOfFile {
    fn is_undisturbed(&self) -> bool {
        let seen = |metadata: &Metadata| (metadata.len(), metadata.modified().ok());
        let now = self.path.metadata();
        now.is_ok_and(|now| seen(&now) == seen(&self.metadata)) && !has_wal(&self.path)
    }
}

/// Opens the file read-only, and checks that it is a ledger.
pub(super) fn open(path: &Path) -> anyhow::Result<LedgerConnection> {
    let path = &real(path);
    let is_at_rest = !has_wal(path);
    open_as(path, is_at_rest)
}

/// Opens a file that this process has open for writing. It is never immutable, and only SQLite may open it: closing
/// another descriptor of it would end the writer's locks.
pub(super) fn open_served(path: &Path) -> anyhow::Result<LedgerConnection> {
    open_as(&real(path), false)
}

/// Path without symlinks. The `-wal` is beside the file, and not beside a symlink to it.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn open_as(path: &Path, is_at_rest: bool) -> anyhow::Result<LedgerConnection> {
    let metadata = path.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let advice = "there is no such file; name the ledger file with --db";
            anyhow!("{}: {advice}", path.display())
        }
        _ => unreadable(path, error),
    })?;
    ensure!(metadata.is_file(), not_a_ledger(path));
    let rest = is_at_rest.then(|| RestOfFile {
        path: path.to_owned(),
        metadata,
    });
    let conn = connect(path, rest.is_some())?;
    check_schema(path, &conn)?;
    if rest.is_some() {
        check_complete(path, &conn)?;
    }
    let kind = kind(path, &conn)?;
    Ok(LedgerConnection {
        conn,
        kind,
        place: None,
        rest,
    })
}

fn connect(path: &Path, immutable: bool) -> anyhow::Result<Connection> {
    let absolute = std::path::absolute(path).map_err(|error| unreadable(path, error))?;
    open_read_only(&absolute, immutable).map_err(|error| unreadable(path, error))
}

/// Opens a file without a writer, and creates no file beside it.
pub(super) fn at_rest(path: &Path) -> rusqlite::Result<Connection> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    open_read_only(&absolute, true)
}

fn open_read_only(absolute: &Path, immutable: bool) -> rusqlite::Result<Connection> {
    let mode = if immutable { "&immutable=1" } else { "" };
    let uri = format!("file:{}?mode=ro{mode}", escaped(absolute));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(uri, flags)?;
    conn.busy_timeout(BUSY_MAX)?;
    Ok(conn)
}

fn check_schema(path: &Path, conn: &Connection) -> anyhow::Result<()> {
    let found = conn.pragma_query_value(None, "user_version", |row| row.get(0));
    let found: u32 = found.map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => anyhow!(not_a_ledger(path)),
        _ => unreadable(path, error),
    })?;
    let tables = "SELECT count(*) FROM sqlite_schema \
                  WHERE type = 'table' AND name IN ('campaigns', 'events', 'settled', 'postings')";
    let tables: u32 = conn
        .query_row(tables, [], |row| row.get(0))
        .map_err(|error| unreadable(path, error))?;
    match (found, tables) {
        (SCHEMA_VERSION, 4) => Ok(()),
        (0, _) | (SCHEMA_VERSION, _) => bail!(not_a_ledger(path)),
        _ => bail!(
            "{} has schema version {found}, and this program audits version {SCHEMA_VERSION}; use the program that \
             wrote it",
            path.display()
        ),
    }
}

/// Checks that an unclosed file has its `-wal`. The newest entries are there, so the file alone proves nothing.
fn check_complete(path: &Path, conn: &Connection) -> anyhow::Result<()> {
    let mark = conn.query_row("SELECT open_as FROM file_kind", [], |row| row.get(0));
    let mark: Option<String> = mark.map_err(|error| unreadable(path, error))?;
    let is_complete = match mark {
        None => true,
        // The engine empties the `-wal` in place while it repairs itself.
        Some(mark) => !is_in_wal_mode(path)? || (wal(path).exists() && is_of(&mark, path)?),
    };
    ensure!(
        is_complete,
        "{file} was not closed, and {file}-wal is not beside it: what was granted last may be missing; audit both \
         files together, or a copy that `qiang backup` made",
        file = path.display()
    );
    Ok(())
}

/// Whether the header marks the file as written through a `-wal`. SQLite's copies do not have this mark.
fn is_in_wal_mode(path: &Path) -> anyhow::Result<bool> {
    let mut header = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.map_err(|error| unreadable(path, error))?;
    Ok(header[18] == 2)
}

/// Whether the mark was made in this file with this `-wal`, and not in a copy or under another name. Marks of earlier
/// versions do not name the `-wal`.
fn is_of(mark: &str, path: &Path) -> anyhow::Result<bool> {
    let (data, wal) = (identity(path)?, identity(&wal(path))?);
    Ok(mark == data || mark.starts_with(&format!("{data}:{wal}:")))
}

#[cfg(unix)]
fn identity(path: &Path) -> anyhow::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = path.metadata().map_err(|error| unreadable(path, error))?;
    Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> anyhow::Result<String> {
    Ok("0:0".to_owned())
}

fn kind(path: &Path, conn: &Connection) -> anyhow::Result<LedgerFileKind> {
    let said = conn.query_row("SELECT kind FROM file_kind", [], |row| row.get(0));
    let said: String = said.map_err(|error| unreadable(path, error))?;
    match said.as_str() {
        "engine" => Ok(LedgerFileKind::Engine),
        "ledger" => Ok(LedgerFileKind::Ledger),
        _ => bail!(not_a_ledger(path)),
    }
}

/// Ledger data that is read before an engine is compared with it.
pub(super) fn known(conn: &Connection) -> rusqlite::Result<engine::LedgerFacts> {
    let mut settled = conn.prepare("SELECT partition, max(seq) FROM settled GROUP BY partition")?;
    let settled = settled.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let settled = settled.collect::<rusqlite::Result<_>>()?;
    let mut campaigns = conn.prepare("SELECT id FROM campaigns")?;
    let campaigns = campaigns.query_map([], |row| row.get(0))?;
    let campaigns = campaigns.collect::<rusqlite::Result<_>>()?;
    Ok(engine::LedgerFacts { settled, campaigns })
}

/// Error for a file that changed during each attempt.
pub(super) fn restless(path: &Path) -> anyhow::Error {
    let path = path.display();
    anyhow!("{path} changed while it was read, because a server opened it; run the audit again")
}

fn not_a_ledger(path: &Path) -> String {
    let advice = "name the ledger file with --db";
    format!("{} is not a ledger of Qiang; {advice}", path.display())
}

fn unreadable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let advice = "check the permissions, or copy it with its -wal elsewhere";
    let text = format!("{} cannot be read ({error}); {advice}", path.display());
    anyhow::Error::new(error).context(text)
}

/// Whether the file has a `-wal` with content.
fn has_wal(path: &Path) -> bool {
    wal(path).metadata().is_ok_and(|wal| wal.len() > 0)
}

fn wal(path: &Path) -> PathBuf {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    PathBuf::from(wal)
}

/// Path as part of a URI.
fn escaped(path: &Path) -> String {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');
    percent_encode(path.as_os_str().as_encoded_bytes(), &RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_any_characters_become_uris() {
        let check = |path: &str, uri: &str| assert_eq!(escaped(Path::new(path)), uri);
        check("/data/qiang.db", "/data/qiang.db");
        check("/a b/c?d#e%.db", "/a%20b/c%3Fd%23e%25.db");
        check("/抢.db", "/%E6%8A%A2.db");
    }
}
