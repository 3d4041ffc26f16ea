//! The audit: proves every invariant again from the rows of a ledger file alone.
//!
//! Architecture invariant: the audit shares no logic with the engine. What it proves is written in
//! SQL, one file a check; only the splits are recomputed with `qiang_core::split`, because that is
//! the promise of commit and reveal. The file is only read, in one transaction.

mod open;
mod report;
mod splits;

use std::path::Path;

use anyhow::Context as _;
use rusqlite::Connection;

use self::open::Ledger;
pub(crate) use self::report::{Check, Report};

const PRELUDE: &str = include_str!("prelude.sql");

macro_rules! sql_checks {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("checks/", $name, ".sql")))),+]
    };
}

/// The checks in SQL. Each file has two statements with an empty line between them: how much was
/// examined, and what offends, one line of text a row.
const SQL_CHECKS: [(&str, &str); 36] = sql_checks![
    // the log by itself
    "log_dense",
    "log_entries",
    "settled_position",
    "campaign_rules",
    "campaign_life",
    "grants_numbered",
    "no_oversell",
    "user_limit",
    "key_grants_once",
    "grants_while_open",
    "units_conserved",
    "money_conserved",
    "order_prices",
    "order_steps",
    // the ledger's tables, which follow from it
    "campaign_counts",
    "shares_complete",
    "share_amounts",
    "lazy_bounds",
    "shares_follow_log",
    "orders_follow_log",
    "order_states",
    "paid_once",
    "payments_follow_log",
    // the money
    "grant_postings",
    "payment_postings",
    "refund_once",
    "postings_follow_log",
    "direct_postings",
    "deposits",
    "packets_funded",
    "posting_accounts",
    "balances",
    "zero_sum",
    "overdrawn",
    "escrow",
    "idempotency_keys",
];

/// Page cache for the ledger.
const CACHE_KIB: i64 = 65_536;
/// Page cache for the temporary tables; what does not fit goes to a temporary file.
const TEMP_CACHE_KIB: i64 = 262_144;
/// How often the audit starts again because a server began to write to a file that was at rest.
const ATTEMPTS_MAX: usize = 3;

/// Audits the ledger in the file at `path`.
///
/// # Errors
/// When the file is not a ledger that can be opened, and when reading it fails.
pub(crate) fn audit(path: &Path) -> anyhow::Result<Report> {
    for _ in 0..ATTEMPTS_MAX {
        let ledger = open::open(path)?;
        let report = examine(&ledger)?;
        if ledger.held_still() {
            return Ok(report);
        }
    }
    Err(open::CannotOpen::Restless {
        path: path.to_owned(),
    }
    .into())
}

fn examine(ledger: &Ledger) -> anyhow::Result<Report> {
    let conn = &ledger.conn;
    conn.execute_batch(&format!(
        "PRAGMA main.cache_size = -{CACHE_KIB}; PRAGMA temp.cache_size = -{TEMP_CACHE_KIB}"
    ))?;
    conn.execute_batch("BEGIN")
        .context("cannot begin to read")?;
    let mut checks = Vec::with_capacity(SQL_CHECKS.len() + splits::CHECKS);
    match conn.execute_batch(PRELUDE) {
        Ok(()) => {
            for (name, sql) in SQL_CHECKS {
                checks.push(run(conn, name, sql)?);
            }
            checks.extend(splits::checks(conn).context("cannot read the splits")?);
        }
        // Rows that cannot even be brought together, such as sums that leave 64 bits.
        Err(error) if is_of_rows(&error) => {
            let mut check = Check::new("readable", 0);
            check.offend(format!("the rows cannot be read: {error}"));
            checks.push(check);
        }
        Err(error) => return Err(error).context("cannot read the ledger"),
    }
    conn.execute_batch("ROLLBACK")?;
    Ok(Report::new(checks))
}

fn run(conn: &Connection, name: &'static str, sql: &str) -> anyhow::Result<Check> {
    let (count, offending) = sql
        .split_once("\n\n")
        .context("a check has two statements")?;
    let examined: i64 = conn.query_row(count, [], |row| row.get(0))?;
    let mut check = Check::new(name, examined.unsigned_abs());
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

/// Whether the rows are at fault (sums that leave 64 bits, a value that is not of its column's
/// type, a damaged file), and not the machine that reads them.
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
