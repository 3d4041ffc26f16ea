//! MySQL and MariaDB.
//!
//! Rows travel as parameters of statements for several rows, which are prepared for a few sizes (`rows.rs`). Only
//! what both servers understand is used: no `RETURNING`, no table value constructors.

mod accounts;
mod campaigns;
mod quarantine;
mod rows;
mod schema;
mod settling;

use sqlx::{
    ConnectOptions as _, Executor as _, MySql, MySqlConnection, Result,
    error::{DatabaseError, ErrorKind},
    mysql::{MySqlConnectOptions, MySqlDatabaseError},
};

use crate::dialect::{Class, Dialect};

/// Statements that a connection keeps prepared: those with several rows count once for each size.
const STATEMENTS_MAX: usize = 160;

impl Dialect for MySql {
    fn at(url: &str) -> Result<MySqlConnectOptions> {
        let options: MySqlConnectOptions = url.parse()?;
        Ok(options
            .charset("utf8mb4")
            .collation("utf8mb4_bin")
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging())
    }

    async fn set_up(conn: &mut MySqlConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql(include_str!("sql/session.sql")))
            .await?;
        Ok(())
    }

    async fn begin(conn: &mut MySqlConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("START TRANSACTION")).await?;
        Ok(())
    }

    async fn commit(conn: &mut MySqlConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("COMMIT")).await?;
        Ok(())
    }

    async fn rollback(conn: &mut MySqlConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("ROLLBACK")).await?;
        Ok(())
    }

    fn class(error: &dyn DatabaseError) -> Class {
        let number = error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number);
        match number {
            // A deadlock; a row that changed since it was read.
            Some(1213 | 1020) => Class::Retry,
            // Out of range, as a column's value and as an expression's.
            Some(1264 | 1690) => Class::Overflow,
            // A value that its column cannot hold: too long, of another type, or not of its character set.
            Some(1265 | 1366 | 1406) => Class::Contradiction,
            _ if error.kind() != ErrorKind::Other => Class::Contradiction,
            _ => Class::Other,
        }
    }

    async fn doubts(conn: &mut MySqlConnection) -> Result<Vec<String>> {
        let settings = sqlx::query_as::<_, (i64, i64, i64)>(include_str!("sql/durability.sql"));
        let (at_commit, binlog, sync_binlog) = settings.fetch_one(conn).await?;
        let mut doubts = Vec::new();
        if at_commit != 1 {
            doubts.push(format!("innodb_flush_log_at_trx_commit is {at_commit}"));
        }
        if binlog != 0 && sync_binlog != 1 {
            doubts.push(format!("sync_binlog is {sync_binlog}"));
        }
        Ok(doubts)
    }
}
