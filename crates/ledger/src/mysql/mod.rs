//! MySQL and MariaDB.
//!
//! Rows are parameters of statements for several rows, which are prepared for a few sizes (`rows.rs`). The statements
//! use only the common features of both servers: no `RETURNING`, no table value constructors.

mod rows;
mod schema;

use qiang_core::rows::Value;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Executor as _, MySql, MySqlConnection, Result, Row as _,
    error::{DatabaseError, ErrorKind},
    mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlRow},
};

use self::rows::{SIZES, text};
use crate::{
    dialect::{Dialect, ErrorClass, Query, Statement},
    error::contradiction,
};

/// Prepared statements per connection. A statement with several rows counts once per size.
const STATEMENTS_MAX: usize = 160;

impl Dialect for MySql {
    const BEGIN: &'static str = "START TRANSACTION";

    fn at(url: &str) -> Result<MySqlConnectOptions> {
        let options: MySqlConnectOptions = url.parse()?;
        Ok(options
            .charset("utf8mb4")
            .collation("utf8mb4_bin")
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging())
    }

    /// No known proxy shows it.
    async fn shares_sessions(_at: &MySqlConnectOptions) -> Result<bool> {
        Ok(false)
    }

    async fn set_up(conn: &mut MySqlConnection) -> Result<()> {
        Self::run(conn, include_str!("sql/session.sql")).await
    }

    fn class(error: &dyn DatabaseError) -> ErrorClass {
        let number = error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number);
        match number {
            // A deadlock; a row that changed since it was read.
            Some(1213 | 1020) => ErrorClass::Retry,
            // Out of range, as a column's value and as an expression's.
            Some(1264 | 1690) => ErrorClass::Overflow,
            // `read_only` of the server and of its storage engine, and a read-only session.
            Some(1290 | 1836 | 1792) => ErrorClass::ReadOnly,
            // A shutdown, a killed or idle session, a node outside its cluster's majority, and a prepared statement
            // that a proxy lost.
            Some(1053 | 1927 | 3168 | 3169 | 4031 | 1047 | 1243) => ErrorClass::Session,
            // A column that this program does not know and that has no default: the table was changed.
            Some(1364) => ErrorClass::Other,
            // A value that its column cannot hold: too long, of another type, or not of its character set.
            Some(1265 | 1366 | 1406) => ErrorClass::Contradiction,
            _ if error.kind() != ErrorKind::Other => ErrorClass::Contradiction,
            _ => ErrorClass::Other,
        }
    }

    async fn durability_warnings(conn: &mut MySqlConnection) -> Result<Vec<String>> {
        let settings = sqlx::query_as::<_, (i64, i64, i64)>(include_str!("sql/durability.sql"));
        let (at_commit, binlog, sync_binlog) = settings.fetch_one(conn).await?;
        let mut warnings = Vec::new();
        if at_commit != 1 {
            warnings.push(format!("innodb_flush_log_at_trx_commit is {at_commit}"));
        }
        if binlog != 0 && sync_binlog != 1 {
            warnings.push(format!("sync_binlog is {sync_binlog}"));
        }
        Ok(warnings)
    }

    async fn run(conn: &mut MySqlConnection, text: &'static str) -> Result<()> {
        conn.execute(sqlx::raw_sql(text)).await?;
        Ok(())
    }

    fn query(statement: &'static Statement, values: &[Value<'_>]) -> Query<Self> {
        bind(sqlx::query(statement.mysql), values)
    }

    fn query_of<const N: usize>(
        statement: &'static Statement,
        values: &[Value<'_>],
        rows: &[[Value<'_>; N]],
    ) -> Query<Self> {
        let query = sqlx::query(AssertSqlSafe(text(statement.mysql, rows.len())));
        rows.iter()
            .fold(bind(query, values), |query, row| bind(query, row))
    }

    fn rows_at_once(rows: usize) -> usize {
        SIZES
            .into_iter()
            .find(|size| *size <= rows)
            .unwrap_or_default()
    }

    async fn touch(conn: &mut MySqlConnection, query: Query<Self>) -> Result<u64> {
        Ok(query.execute(conn).await?.rows_affected())
    }

    async fn fetch(conn: &mut MySqlConnection, query: Query<Self>) -> Result<Vec<MySqlRow>> {
        query.fetch_all(conn).await
    }

    async fn insert(conn: &mut MySqlConnection, query: Query<Self>) -> Result<i64> {
        let done = query.execute(conn).await?;
        i64::try_from(done.last_insert_id())
            .map_err(|_| contradiction("a row got a number above 63 bits".to_owned()))
    }

    async fn next_direct(conn: &mut MySqlConnection) -> Result<i64> {
        sqlx::query("UPDATE direct_postings SET seq = seq + 1")
            .execute(&mut *conn)
            .await?;
        sqlx::query_scalar("SELECT seq FROM direct_postings")
            .fetch_one(conn)
            .await
    }

    /// An assigned row counts 2, any other 1.
    fn assigned(touched: u64, given: u64) -> u64 {
        touched.saturating_sub(given)
    }

    fn int(row: &MySqlRow, column: usize) -> Result<Option<i64>> {
        row.try_get(column)
    }

    fn text(row: &MySqlRow, column: usize) -> Result<Option<String>> {
        row.try_get(column)
    }

    fn bytes(row: &MySqlRow, column: usize) -> Result<Option<Vec<u8>>> {
        row.try_get(column)
    }
}

fn bind(query: Query<MySql>, values: &[Value<'_>]) -> Query<MySql> {
    values.iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
    })
}
