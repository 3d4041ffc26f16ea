//! Opening the file: its settings, its schema.

use std::{path::Path, time::Duration};

use qiang_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags, Transaction};

use crate::{
    data_file, downtimes,
    error::DataFileError,
    fence::{FencedConnection, begin_unfenced},
    open_mark,
};

/// Migrations in order, append-only: the schema of version 1.0, and one for each later version. The file's
/// `user_version` counts those it has.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_init.sql")];
/// The version of the newest schema of files.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// The `application_id` of data files, "QIAN" in ASCII.
const APPLICATION_ID: i32 = 0x5149_414e;

/// Pages in the write-ahead log after which SQLite checkpoints them into the file: 64 MiB at 4 KiB a page. Fewer would
/// interrupt peak load more often; more would make the first start after a crash slower.
const CHECKPOINT_PAGES: u32 = 16_384;
/// Page cache, in KiB. The system caches the file too, and a larger one costs more than it saves: after a slice of
/// settlement that split pages of an index, SQLite walks through all of it.
const CACHE_KIB: u32 = 16_384;
/// A start is logged whose clock is this far ahead of the newest entry: an hour. The alarm `QiangStartGap` has the same
/// limit.
const AHEAD_MS_LOGGED: i64 = 3_600_000;
const STATEMENTS_MAX: usize = 64;
/// How long a reader waits for a lock; the single writer never has to.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(5);

/// Purpose of a file. It is recorded when the file is made, and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFileKind {
    /// Engine, log and ledger in one.
    Engine,
    /// A ledger alone, which follows logs from elsewhere.
    Ledger,
}

impl DataFileKind {
    const ALL: [Self; 2] = [Self::Engine, Self::Ledger];

    fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Ledger => "ledger",
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::Engine => "an embedded engine with its log",
            Self::Ledger => "a ledger alone",
        }
    }
}

/// Opens the file for writing, and creates or migrates it as needed. All its contents are on disk afterwards: data
/// recovered from a dead process's write-ahead log may not be synced, so a commit follows it.
pub(crate) fn open_writer(
    path: &Path,
    kind: DataFileKind,
    now: Timestamp,
) -> Result<FencedConnection, DataFileError> {
    open_unless_behind(path, kind, (now, Duration::MAX))
}

/// Opens an engine's file for writing, if the clock is at most `behind_max` earlier than the newest entry of its log.
pub(crate) fn open_engine(
    path: &Path,
    now: Timestamp,
    behind_max: Duration,
) -> Result<FencedConnection, DataFileError> {
    open_unless_behind(path, DataFileKind::Engine, (now, behind_max))
}

fn open_unless_behind(
    path: &Path,
    kind: DataFileKind,
    (now, behind_max): (Timestamp, Duration),
) -> Result<FencedConnection, DataFileError> {
    open_mark::check_complete(path)?;
    data_file::create_private(path)?;
    let in_file = open_mark::generation_in_file(path)?;
    let conn = Connection::open(path)?;
    open_mark::keep_wal(&conn, true)?;
    conn.busy_timeout(BUSY_MAX)?;
    check_ours(&conn, path)?;
    let conn = prepare(conn, path, kind)?;
    let conn = FencedConnection::raise(conn, path, in_file, |tx| match kind {
        DataFileKind::Engine => {
            check_clock(tx, path, (now, behind_max))?;
            downtimes::end(tx, now)
        }
        DataFileKind::Ledger => probe(tx, now),
    })?;
    let tx = conn.begin()?;
    open_mark::set(&tx, path)?;
    tx.commit()?;
    open_mark::checkpoint(&conn);
    Ok(conn)
}

/// Refuses a clock that is much earlier than the file: sales would close again, and holds would keep units for longer.
/// A clock far ahead looks like a long downtime, and is logged.
fn check_clock(
    conn: &Connection,
    path: &Path,
    (now, behind_max): (Timestamp, Duration),
) -> Result<(), DataFileError> {
    let Some(up) = downtimes::up(conn)? else {
        return Ok(());
    };
    let ahead_ms = now.millis_since(up);
    if i128::from(ahead_ms) < -i128::try_from(behind_max.as_millis()).unwrap_or(i128::MAX) {
        return Err(DataFileError::ClockBehind {
            path: path.display().to_string(),
            behind_s: -(ahead_ms / 1_000),
        });
    }
    if ahead_ms > AHEAD_MS_LOGGED {
        let minutes = ahead_ms / 60_000;
        tracing::warn!(
            minutes,
            "the service was down for long, or its clock is ahead of the newest entry of the log"
        );
    }
    Ok(())
}

/// Says which file a service works on. A missing volume, or a wrong name, is a new file too.
pub(crate) fn say_opened(path: &Path, is_new: bool) {
    let path = path.display();
    match is_new {
        true => tracing::warn!(%path, "created a new data file without any campaign"),
        false => tracing::info!(%path, "opened the data file"),
    }
}

/// Opens the file for writing again, in the generation of the failed connection. The file must be there: an empty one
/// in its place would have forgotten every grant.
pub(crate) fn reopen_writer(
    path: &Path,
    kind: DataFileKind,
    failed: &FencedConnection,
) -> Result<FencedConnection, DataFileError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = prepare(Connection::open_with_flags(path, flags)?, path, kind)?;
    let conn = failed.reopened(conn)?;
    // On a full disk the write-ahead log may take the space. If the checkpoint fails, the next probe reports the cause.
    drop(checkpoint(&conn));
    Ok(conn)
}

/// Moves everything from the write-ahead log into the file and empties the log. False where a reader kept some of it.
fn checkpoint(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0).map(|is_busy| is_busy == 0)
    })
}

/// Checkpoints before the last commit's connection is closed, so that a copy of the file alone is complete.
pub(crate) fn checkpoint_at_close(
    conn: &FencedConnection,
    commit: impl FnOnce(Transaction<'_>) -> Result<(), DataFileError>,
) {
    match close(conn, commit) {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            "another process reads the file: keep its write-ahead log (-wal) beside it until the next start"
        ),
        Err(error) => {
            let reason = error.chain();
            tracing::warn!(
                reason,
                "cannot checkpoint: keep the write-ahead log (-wal) beside the file"
            )
        }
    }
}

fn close(
    conn: &FencedConnection,
    commit: impl FnOnce(Transaction<'_>) -> Result<(), DataFileError>,
) -> Result<bool, DataFileError> {
    let tx = conn.begin()?;
    open_mark::clear(&tx)?;
    commit(tx)?;
    open_mark::keep_wal(conn, false)?;
    Ok(checkpoint(conn)?)
}

/// Changes the row for probes.
pub(crate) fn probe(conn: &Connection, now: Timestamp) -> Result<(), DataFileError> {
    conn.prepare_cached("INSERT OR REPLACE INTO probe (id, at) VALUES (0, ?1)")?
        .execute([now.as_millis()])?;
    Ok(())
}

fn prepare(conn: Connection, path: &Path, kind: DataFileKind) -> Result<Connection, DataFileError> {
    open_mark::keep_wal(&conn, true)?;
    conn.busy_timeout(BUSY_MAX)?;
    let mode: String =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        let path = path.display().to_string();
        return Err(DataFileError::NoWriteAheadLog { path });
    }
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", "OFF")?; // written by one code path, proved by the audit
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "cache_size", -i64::from(CACHE_KIB))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    migrate(&conn, kind)?;
    // Savepoints keep their undo data in memory: in a file it takes a quarter of the writer's time when many campaigns
    // are created. A migration runs before this, because it may sort or change a whole table.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    let found: String = conn.query_row("SELECT kind FROM file_kind", [], |row| row.get(0))?;
    let found = DataFileKind::ALL
        .into_iter()
        .find(|kind| kind.name() == found);
    match found {
        Some(found) if found == kind => Ok(conn),
        Some(found) => Err(DataFileError::OtherKind {
            path: path.display().to_string(),
            found: found.described(),
            wanted: kind.described(),
        }),
        None => Err(DataFileError::damaged(
            "the file does not say what it is for",
        )),
    }
}

/// Purpose of an existing file; `None` if the file does not record it.
pub(crate) fn kind_of(path: &Path) -> Result<Option<DataFileKind>, DataFileError> {
    open_mark::check_complete(path)?;
    let conn = open_reader(path)?;
    check_ours(&conn, path)?;
    kind_in(&conn)
}

/// Refuses a file that another program made, before anything is written to it.
fn check_ours(conn: &Connection, path: &Path) -> Result<(), DataFileError> {
    let foreign = || DataFileError::Foreign {
        path: path.display().to_string(),
    };
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let id = number("application_id").map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => foreign(),
        _ => error.into(),
    })?;
    let has_version = number("user_version")? > 0;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let all: u32 = conn.query_row(tables, [], |row| row.get(0))?;
    match id {
        APPLICATION_ID => Ok(()),
        // A new file, or one whose first start died before the schema was written.
        0 if !has_version && all == 0 => Ok(()),
        _ => Err(foreign()),
    }
}

/// Purpose of an open file; `None` if the file does not record it.
pub(crate) fn kind_in(conn: &Connection) -> Result<Option<DataFileKind>, DataFileError> {
    let version: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        return Ok(None);
    }
    let found: String = conn.query_row("SELECT kind FROM file_kind", [], |row| row.get(0))?;
    Ok(DataFileKind::ALL
        .into_iter()
        .find(|kind| kind.name() == found))
}

/// Opens the file for reading, beside a writer or alone.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, DataFileError> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.busy_timeout(BUSY_MAX)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(conn)
}

/// Brings the file to the newest schema, all at once: a file that is there has a kind.
pub(crate) fn migrate(conn: &Connection, kind: DataFileKind) -> Result<(), DataFileError> {
    let known = SCHEMA_VERSION;
    let found: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(DataFileError::TooNew { found, known });
    }
    if found == known {
        return Ok(());
    }
    let tx = begin_unfenced(conn)?;
    for migration in &MIGRATIONS[found as usize..] {
        tx.execute_batch(migration)?;
    }
    if found == 0 {
        tx.execute("INSERT INTO file_kind (kind) VALUES (?1)", [kind.name()])?;
    }
    tx.pragma_update(None, "user_version", known)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_write_ahead_log_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        // It locks by files beside the file, and has no shared memory for the log's index.
        let conn = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), "unix-dotfile");
        let refused = prepare(conn.unwrap(), &path, DataFileKind::Engine).map(drop);
        assert!(
            matches!(refused, Err(DataFileError::NoWriteAheadLog { .. })),
            "{refused:?}"
        );
    }

    /// A `CHECK` or an index with a list of more than two words would have SQLite build a temporary table a row.
    #[test]
    fn no_row_of_a_busy_table_needs_a_temporary_table() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = Timestamp::from_millis(0);
        let conn = open_writer(&path, DataFileKind::Engine, now).unwrap();
        for table in [
            "campaigns",
            "details",
            "shares",
            "orders",
            "payments",
            "accounts",
            "postings",
            "idempotency_keys",
            "events",
            "parts",
        ] {
            let columns = "SELECT group_concat('NULL') FROM pragma_table_info(?1)";
            let nulls: String = conn.query_row(columns, [table], |row| row.get(0)).unwrap();
            let explain = format!("EXPLAIN INSERT INTO {table} VALUES ({nulls})");
            let mut steps = conn.prepare(&explain).unwrap();
            let steps = steps.query_map([], |row| row.get::<_, String>("opcode"));
            let steps: Vec<_> = steps.unwrap().map(Result::unwrap).collect();
            assert!(
                steps.iter().any(|step| step.contains("Insert")),
                "{steps:?}"
            );
            assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{table}");
        }
        let sound: String = conn
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
    }
}
