//! PostgreSQL.
//!
//! Rows are sent as one array per column, which `unnest` turns into a table. Each statement is prepared once and takes
//! any number of rows up to the bound.

mod schema;

use std::borrow::Cow;

use qiang_core::rows::Value;
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, PgConnection, Postgres, Result, Row as _,
    error::{DatabaseError, ErrorKind},
    postgres::{PgConnectOptions, PgDatabaseError, PgRow, PgSeverity},
};

use crate::{
    dialect::{Dialect, ErrorClass, Query, Statement},
    error::is_code,
};

/// Maximum rows per statement; more rows take several statements.
const ROWS_MAX: usize = 16_384;
/// Maximum attempts of statements before the connection has its own statement timeout. The default of the database or
/// of the role may be milliseconds, which a busy server exceeds.
const ATTEMPTS_MAX: u32 = 10;
/// Maximum prepared statements per connection; there are fewer.
const STATEMENTS_MAX: usize = 64;

impl Dialect for Postgres {
    const BEGIN: &'static str = "BEGIN";

    fn at(url: &str) -> Result<PgConnectOptions> {
        let options: PgConnectOptions = url.parse()?;
        Ok(options
            .application_name("qiang")
            // No column is a float, and PgBouncer refuses connections that set it.
            .extra_float_digits(None)
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging())
    }

    async fn shares_sessions(at: &PgConnectOptions) -> Result<bool> {
        for _ in 1..ATTEMPTS_MAX {
            match compare_sessions(at).await {
                Err(error) if is_cancelled(&error) => {}
                done => return done,
            }
        }
        compare_sessions(at).await
    }

    async fn set_up(conn: &mut PgConnection) -> Result<()> {
        run_settings(conn, include_str!("sql/session.sql")).await
    }

    fn class(error: &dyn DatabaseError) -> ErrorClass {
        let severity = error
            .try_downcast_ref::<PgDatabaseError>()
            .map(PgDatabaseError::severity);
        match error.code().as_ref().map(Cow::as_ref) {
            // A serialisation failure, a deadlock.
            Some("40001" | "40P01") => ErrorClass::Retry,
            Some("22003") => ErrorClass::Overflow,
            // A read-only database or session, and a server in recovery.
            Some("25006") => ErrorClass::ReadOnly,
            // A shutdown or an ended session, a failed connection, and prepared statements that the session lost or
            // that no longer fit their tables.
            Some("26000" | "42P05" | "0A000") => ErrorClass::Session,
            Some(code) if code.starts_with("57P") || code.starts_with("08") => ErrorClass::Session,
            _ if matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic)) => {
                ErrorClass::Session
            }
            // A column that this program does not know and that has no default: the table was changed.
            Some("23502") => ErrorClass::Other,
            // A value that its column cannot hold; a rule of the table.
            Some(code) if code.starts_with("22") || code.starts_with("23") => {
                ErrorClass::Contradiction
            }
            _ if error.kind() != ErrorKind::Other => ErrorClass::Contradiction,
            _ => ErrorClass::Other,
        }
    }

    async fn durability_warnings(conn: &mut PgConnection) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
            let value = sqlx::query_scalar::<_, String>("SELECT current_setting($1)").bind(setting);
            if value.fetch_one(&mut *conn).await? == "off" {
                warnings.push(format!("{setting} is off"));
            }
        }
        Ok(warnings)
    }

    async fn run(conn: &mut PgConnection, text: &'static str) -> Result<()> {
        conn.execute(sqlx::raw_sql(text)).await?;
        Ok(())
    }

    fn query(statement: &'static Statement, values: &[Value<'_>]) -> Query<Self> {
        let query = sqlx::query(statement.postgres);
        values.iter().fold(query, |query, value| match value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
        })
    }

    /// Takes the rows as one array per column.
    fn query_of<const N: usize>(
        statement: &'static Statement,
        values: &[Value<'_>],
        rows: &[[Value<'_>; N]],
    ) -> Query<Self> {
        let query = Self::query(statement, values);
        (0..N).fold(query, |query, column| {
            let column = || rows.iter().map(|row| row[column]);
            match column().next() {
                Some(Value::Int(_)) => query.bind(Vec::from_iter(column().map(Value::int))),
                Some(Value::Text(_)) => query.bind(Vec::from_iter(column().map(Value::text))),
                Some(Value::Bytes(_)) | None => {
                    query.bind(Vec::from_iter(column().map(Value::bytes)))
                }
            }
        })
    }

    fn rows_at_once(rows: usize) -> usize {
        rows.min(ROWS_MAX)
    }

    async fn touch(conn: &mut PgConnection, query: Query<Self>) -> Result<u64> {
        Ok(query.execute(conn).await?.rows_affected())
    }

    async fn fetch(conn: &mut PgConnection, query: Query<Self>) -> Result<Vec<PgRow>> {
        query.fetch_all(conn).await
    }

    async fn insert(conn: &mut PgConnection, query: Query<Self>) -> Result<i64> {
        query.fetch_one(conn).await?.try_get(0)
    }

    async fn next_direct(conn: &mut PgConnection) -> Result<i64> {
        sqlx::query_scalar("UPDATE direct_postings SET seq = seq + 1 RETURNING seq")
            .fetch_one(conn)
            .await
    }

    fn assigned(touched: u64, _given: u64) -> u64 {
        touched
    }

    fn int(row: &PgRow, column: usize) -> Result<Option<i64>> {
        row.try_get(column)
    }

    fn text(row: &PgRow, column: usize) -> Result<Option<String>> {
        row.try_get(column)
    }

    fn bytes(row: &PgRow, column: usize) -> Result<Option<Vec<u8>>> {
        row.try_get(column)
    }
}

/// Whether a statement timeout cancelled a statement.
fn is_cancelled(error: &sqlx::Error) -> bool {
    is_code(error, &["57014"])
}

/// Runs the settings of a connection, again if the timeout that they replace cancels them.
async fn run_settings(conn: &mut PgConnection, sql: &'static str) -> Result<()> {
    for _ in 1..ATTEMPTS_MAX {
        match Postgres::run(conn, sql).await {
            Err(error) if is_cancelled(&error) => {}
            done => return done,
        }
    }
    Postgres::run(conn, sql).await
}

/// Whether sessions belong to a pooler: both connections have one, or it changes between transactions. While one
/// connection has an open transaction, a pooler with several sessions must give the other one another session.
async fn compare_sessions(at: &PgConnectOptions) -> Result<bool> {
    let mut first = PgConnection::connect_with(at).await?;
    let mut second = PgConnection::connect_with(at).await?;
    let alone = session(&mut first).await?;
    if let Err(error) = Postgres::run(&mut second, Postgres::BEGIN).await {
        // PgBouncer in the mode `statement` refuses transactions.
        return if is_code(&error, &["08P01"]) {
            Ok(true)
        } else {
            Err(error)
        };
    }
    let in_transaction = session(&mut second).await?;
    let mut shared = alone == in_transaction;
    if !shared {
        shared = session(&mut first).await? != alone;
    }
    Postgres::run(&mut second, "COMMIT").await?;
    shared = shared || session(&mut second).await? != in_transaction;
    // A pooler assigns the session that was freed last.
    shared = shared || session(&mut first).await? != alone;
    for conn in [first, second] {
        drop(conn.close().await);
    }
    Ok(shared)
}

/// Returns the session number of a connection, without preparing a statement.
async fn session(conn: &mut PgConnection) -> Result<i32> {
    let asked = sqlx::raw_sql("SELECT pg_backend_pid()");
    conn.fetch_one(asked).await?.try_get(0)
}
