//! Audit: proves every invariant again from the rows of a ledger file alone.
//!
//! An embedded engine's file has the log, and its tables are compared with it. A ledger alone has no log. There the
//! tables are compared with each other, and checks that need a log are reported as not applicable. A ledger in
//! PostgreSQL or MySQL/MariaDB is first copied, row by row, into such a file.
//!
//! Architecture invariant: the audit shares no logic with the engine. Its proofs are written in SQL, one file per
//! check. Only the splits are recomputed with `qiang_core::split`, because that is the promise of commit and reveal.
//! The file is only read, in one transaction.

mod archives;
mod copy;
mod engine;
mod open;
mod place;
mod remedies;
mod report;
mod splits;
#[cfg(test)]
mod work;

use std::path::Path;

use anyhow::{Context as _, ensure};
use rusqlite::Connection;

use self::open::LedgerConnection;
pub use self::{
    open::LedgerFileKind,
    place::{EnginePlace, ServerKind},
    remedies::remedy,
    report::{AuditFindings, CheckResult, QuarantineTotals},
};

const PRELUDE: &str = include_str!("prelude.sql");
const LEDGER_PRELUDE: &str = include_str!("ledger.sql");

/// Data that a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Tables of a ledger.
    Ledger,
    /// Tables and a log.
    Log,
    /// Log with archives.
    Archives,
    /// Tables of a ledger without a log.
    LedgerOnly,
    /// Tables of a ledger in a database.
    Database,
    /// Engine that is compared with the ledger.
    Engine,
    /// Tables of a file.
    File,
}

/// Reason why checks of the log are not applicable to a file.
const NO_LOG: &str = "this file holds no log";
/// Reason why checks of the log are not applicable to a database.
const NO_LOG_THERE: &str = "the log is in the engine";
/// Reason why checks of the log are not applicable without all archives.
const NOT_WHOLE: &str = "archives of the log are missing: see archives_whole";

macro_rules! sql_checks {
    ($($needs:ident $name:literal),+ $(,)?) => {
        [$((Needs::$needs, $name, include_str!(concat!("checks/", $name, ".sql")))),+]
    };
}

/// Checks in SQL. Each file has two statements with an empty line between them. The first counts the examined rows, and
/// the second returns the offending rows as text.
const SQL_CHECKS: [(Needs, &str, &str); 68] = sql_checks![
    // the log alone
    Archives "archives_follow",
    Archives "archives_agree",
    Log "log_dense",
    Log "log_entries",
    Log "settled_position",
    Ledger "campaign_rules",
    Log "campaign_life",
    Log "grants_numbered",
    Log "no_oversell",
    Log "user_limit",
    Log "key_grants_once",
    Log "grants_while_open",
    Log "units_conserved",
    Log "money_conserved",
    Log "order_prices",
    Log "order_steps",
    Ledger "terms_sound",
    Ledger "updates_sound",
    // the ledger's tables, which follow from the log
    Log "campaign_counts",
    Ledger "shares_complete",
    Log "share_amounts",
    Log "lazy_bounds",
    Log "shares_follow_log",
    Log "orders_follow_log",
    Log "order_states",
    Log "paid_once",
    Log "payments_follow_log",
    Log "returns_follow_log",
    Ledger "order_returns",
    Log "terms_follow_log",
    Log "updates_follow_log",
    // the money
    Log "grant_postings",
    Log "payment_postings",
    Log "refund_once",
    Log "postings_follow_log",
    Ledger "direct_postings",
    Ledger "deposits",
    Ledger "payouts",
    Ledger "refunds_due",
    Ledger "packets_funded",
    Ledger "posting_accounts",
    Ledger "balances",
    Ledger "zero_sum",
    Ledger "overdrawn",
    Log "escrow",
    Ledger "idempotency_keys",
    File "lists_whole",
    Ledger "nothing_aside",
    // a ledger alone: its tables compared with each other
    LedgerOnly "positions_known",
    LedgerOnly "parts_whole",
    LedgerOnly "counts_add_up",
    LedgerOnly "numbers_dense",
    LedgerOnly "withheld_add_up",
    LedgerOnly "limits_kept",
    LedgerOnly "orders_sound",
    LedgerOnly "orders_paid",
    LedgerOnly "grants_posted",
    LedgerOnly "payments_posted",
    LedgerOnly "refunds_posted",
    LedgerOnly "escrow_left",
    // rows that the keys of its tables exclude
    LedgerOnly "keys_unique",
    Database "direct_counted",
    // the ledger compared with the engine
    Engine "engine_positions",
    Engine "engine_counts",
    Engine "engine_stock",
    Engine "engine_terms",
    Engine "engine_withheld",
    Engine "engine_users",
];

/// Page cache for the ledger.
const CACHE_KIB: i64 = 65_536;
/// Page cache for the temporary tables. The rest goes to a temporary file.
const TEMP_CACHE_KIB: i64 = 262_144;
/// Maximum attempts, because a server may begin to write to an immutable file.
const ATTEMPTS_MAX: usize = 3;

/// Audits the ledger in the file at `path`.
///
/// # Errors
/// If the file is not a ledger, cannot be opened or cannot be read.
pub fn audit(path: &Path) -> anyhow::Result<AuditFindings> {
    audit_with(path, None)
}

/// Audits like [`audit`], with the archives of the file's log in this folder. Without a folder they are searched beside
/// the file, and in the folder to which they were written.
///
/// # Errors
/// As [`audit`].
pub fn audit_with(path: &Path, archives: Option<&Path>) -> anyhow::Result<AuditFindings> {
    for _ in 0..ATTEMPTS_MAX {
        let ledger = open::open(path)?;
        begin(&ledger.conn)?;
        let report = examine(&ledger, None, archives)?;
        if ledger.held_still() {
            return Ok(report);
        }
    }
    Err(open::restless(path))
}

/// Audits a file that an engine in this process has open. Only SQLite reads the file, because closing another
/// descriptor of it would end the engine's locks.
///
/// # Errors
/// As [`audit`].
pub fn audit_served(path: &Path) -> anyhow::Result<AuditFindings> {
    audit_served_with(path, None)
}

/// Audits like [`audit_served`], with the archives of the file's log in this folder.
///
/// # Errors
/// As [`audit`].
pub fn audit_served_with(path: &Path, archives: Option<&Path>) -> anyhow::Result<AuditFindings> {
    let ledger = open::open_served(path)?;
    begin(&ledger.conn)?;
    examine(&ledger, None, archives)
}

/// Audits the ledger in the database at a URL: `postgres://`, `postgresql://`, `mysql://` or `mariadb://`.
///
/// # Errors
/// If the database has no known ledger, cannot be read, or the disk has no room for the copy. The error does not
/// contain the password.
pub async fn audit_ledger(url: &str) -> anyhow::Result<AuditFindings> {
    let (ledger, _) = copy::copy(url, None).await?;
    examine_copy(ledger, None).await
}

/// Place of a ledger that is compared with an engine.
#[derive(Debug, Clone, Copy)]
pub enum LedgerPlace<'a> {
    /// A ledger alone in a file.
    File(&'a Path),
    /// A ledger alone in a file that this process has open.
    Served(&'a Path),
    /// A ledger in a database, by its URL.
    Database(&'a str),
}

/// Audits a ledger alone, and compares it with the engine on Redis that it follows from.
///
/// # Errors
/// As [`audit`] and [`audit_ledger`]. Also if Redis cannot be read, or settlement prevents a comparison.
pub async fn audit_beside(
    ledger: LedgerPlace<'_>,
    place: &EnginePlace,
) -> anyhow::Result<AuditFindings> {
    let mut reader = engine::EngineReader::connect(place).await?;
    let is_served = matches!(ledger, LedgerPlace::Served(_));
    match ledger {
        LedgerPlace::Database(url) => {
            let (ledger, state) = copy::copy(url, Some(&mut reader)).await?;
            examine_copy(ledger, state).await
        }
        LedgerPlace::File(path) | LedgerPlace::Served(path) => {
            let ledger = match is_served {
                true => open::open_served(path)?,
                false => open::open(path)?,
            };
            begin(&ledger.conn)?;
            ensure!(
                ledger.kind == LedgerFileKind::Ledger,
                "{} is an engine's own file: it has its log in it, and cannot be compared with another engine",
                ledger.conn.path().unwrap_or_default()
            );
            let state = loop {
                let known = open::known(&ledger.conn)?;
                match reader.beside(known).await? {
                    Some(state) => break state,
                    None => ledger.conn.execute_batch("ROLLBACK; BEGIN")?,
                }
            };
            let path = path.to_owned();
            let examined = tokio::task::spawn_blocking(move || {
                let report = examine(&ledger, Some(&state), None)?;
                match ledger.held_still() {
                    true => Ok(report),
                    false => Err(open::restless(&path)),
                }
            });
            examined.await.context("the checks were interrupted")?
        }
    }
}

async fn examine_copy(
    ledger: LedgerConnection,
    state: Option<engine::EngineState>,
) -> anyhow::Result<AuditFindings> {
    let examined = tokio::task::spawn_blocking(move || {
        begin(&ledger.conn)?;
        examine(&ledger, state.as_ref(), None)
    });
    examined.await.context("the checks were interrupted")?
}

/// Begins a read transaction with a stable view of the file.
fn begin(conn: &Connection) -> anyhow::Result<()> {
    conn.execute_batch(&format!(
        "PRAGMA main.cache_size = -{CACHE_KIB}; PRAGMA temp.cache_size = -{TEMP_CACHE_KIB}"
    ))?;
    conn.execute_batch("BEGIN").context("cannot begin to read")
}

fn examine(
    ledger: &LedgerConnection,
    engine: Option<&engine::EngineState>,
    archives: Option<&Path>,
) -> anyhow::Result<AuditFindings> {
    let conn = &ledger.conn;
    let archives = match ledger.kind {
        LedgerFileKind::Engine => archives::unite(conn, archives)?,
        LedgerFileKind::Ledger => None,
    };
    let no_log = match (ledger.kind, &ledger.place) {
        (LedgerFileKind::Engine, _) => archives
            .as_ref()
            .filter(|check| check.is_broken())
            .map(|_| NOT_WHOLE),
        (LedgerFileKind::Ledger, None) => Some(NO_LOG),
        (LedgerFileKind::Ledger, Some(_)) => Some(NO_LOG_THERE),
    };
    let has_archives = archives.is_some();
    let mut checks = Vec::with_capacity(SQL_CHECKS.len() + splits::CHECKS + 1);
    checks.extend(archives);
    let prepared = conn
        .execute_batch(PRELUDE)
        .and_then(|()| match ledger.kind {
            LedgerFileKind::Engine => Ok(()),
            LedgerFileKind::Ledger => conn.execute_batch(LEDGER_PRELUDE),
        })
        .and_then(|()| engine.map_or(Ok(()), |engine| engine.insert_into(conn)));
    match prepared {
        Ok(()) => {
            for (needs, name, sql) in SQL_CHECKS {
                match (needs, no_log) {
                    (Needs::LedgerOnly, _) if ledger.kind == LedgerFileKind::Engine => {}
                    (Needs::Database, _) if ledger.place.is_none() => {}
                    (Needs::File, _) if ledger.place.is_some() => {}
                    (Needs::Engine, _) if engine.is_none() => {}
                    (Needs::Archives, _) if !has_archives => {}
                    (Needs::Log | Needs::Archives, Some(no_log)) => {
                        checks.push(CheckResult::not_applicable(name, no_log))
                    }
                    _ => checks.push(run(conn, name, sql)?),
                }
            }
            let splits = splits::checks(conn, no_log.is_none());
            checks.extend(splits.context("cannot read the splits")?);
        }
        // The rows cannot be combined, for example because sums overflow 64 bits.
        Err(error) if is_of_rows(&error) => {
            let mut check = CheckResult::new("readable", 0);
            check.offend(format!("the rows cannot be read: {error}"));
            checks.push(check);
        }
        Err(error) => return Err(error).context("cannot read the ledger"),
    }
    let set_aside = count_quarantined(conn)?;
    conn.execute_batch("ROLLBACK")?;
    Ok(AuditFindings {
        ok: !checks.iter().any(CheckResult::is_broken),
        kind: ledger.kind,
        database: ledger.place.clone(),
        in_flight: engine.map(engine::EngineState::in_flight),
        set_aside,
        checks,
    })
}

/// Numbers of quarantined entries, if there are any.
fn count_quarantined(conn: &Connection) -> anyhow::Result<Option<QuarantineTotals>> {
    let sql =
        "SELECT count(*) - count(waits_for), count(waits_for) FROM set_aside WHERE discard < 2";
    let counted: (i64, i64) = conn
        .query_row(sql, [], |row| row.try_into())
        .context("cannot count quarantined entries")?;
    let (refused, waiting) = (counted.0.unsigned_abs(), counted.1.unsigned_abs());
    Ok((refused + waiting > 0).then_some(QuarantineTotals { refused, waiting }))
}

fn run(conn: &Connection, name: &'static str, sql: &str) -> anyhow::Result<CheckResult> {
    let (count, offending) = sql
        .split_once("\n\n")
        .context("a check has two statements")?;
    let examined: i64 = conn.query_row(count, [], |row| row.get(0))?;
    let mut check = CheckResult::new(name, examined.unsigned_abs());
    let mut offending = conn
        .prepare(offending)
        .with_context(|| format!("check {name}"))?;
    let mut rows = offending.query([])?;
    loop {
        match rows.next() {
            Ok(Some(row)) => check.offend(row.get(0)?),
            Ok(None) => break,
            Err(error) if is_of_rows(&error) => {
                check.offend(format!("cannot be computed: {error}"));
                break;
            }
            Err(error) => return Err(error).with_context(|| format!("check {name}")),
        }
    }
    Ok(check)
}

/// Whether the rows cause the error, and not the machine that reads them. Examples are sums that overflow 64 bits,
/// values of a wrong type, and damaged files.
fn is_of_rows(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, PermissionDenied,
        ReadOnly, SystemIoFailure,
    };
    !matches!(
        error.sqlite_error_code(),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | OutOfMemory
                | PermissionDenied
                | ReadOnly
                | SystemIoFailure
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An audit may run in a task that moves between threads.
    #[test]
    fn an_audit_can_be_spawned() {
        fn check<T: Send>(_: T) {}
        check(audit_ledger("postgres://127.0.0.1/books"));
    }
}
