//! PostgreSQL.
//!
//! Rows travel as one array a column, which `unnest` makes a table of: each statement is prepared once and takes any
//! number of rows up to the bound.

mod accounts;
mod campaigns;
mod quarantine;
mod schema;
mod settling;

use std::borrow::Cow;

use sqlx::{
    ConnectOptions as _, Executor as _, PgConnection, Postgres, Result,
    error::{DatabaseError, ErrorKind},
    postgres::PgConnectOptions,
};

use crate::dialect::{Class, Dialect};

/// Rows that one statement takes; more are written by several.
const ROWS_MAX: usize = 16_384;
/// Statements that a connection keeps prepared; there are fewer.
const STATEMENTS_MAX: usize = 64;

impl Dialect for Postgres {
    fn at(url: &str) -> Result<PgConnectOptions> {
        let options: PgConnectOptions = url.parse()?;
        Ok(options
            .application_name("qiang")
            .statement_cache_capacity(STATEMENTS_MAX)
            .disable_statement_logging())
    }

    async fn set_up(conn: &mut PgConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql(include_str!("sql/session.sql")))
            .await?;
        Ok(())
    }

    async fn begin(conn: &mut PgConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("BEGIN")).await?;
        Ok(())
    }

    async fn commit(conn: &mut PgConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("COMMIT")).await?;
        Ok(())
    }

    async fn rollback(conn: &mut PgConnection) -> Result<()> {
        conn.execute(sqlx::raw_sql("ROLLBACK")).await?;
        Ok(())
    }

    fn class(error: &dyn DatabaseError) -> Class {
        match error.code().as_ref().map(Cow::as_ref) {
            // A serialisation failure, a deadlock.
            Some("40001" | "40P01") => Class::Retry,
            Some("22003") => Class::Overflow,
            // A value that its column cannot hold; a rule of the table.
            Some(code) if code.starts_with("22") || code.starts_with("23") => Class::Contradiction,
            _ if error.kind() != ErrorKind::Other => Class::Contradiction,
            _ => Class::Other,
        }
    }

    async fn doubts(conn: &mut PgConnection) -> Result<Vec<String>> {
        let mut doubts = Vec::new();
        for setting in ["fsync", "full_page_writes", "synchronous_commit"] {
            let value = sqlx::query_scalar::<_, String>("SELECT current_setting($1)").bind(setting);
            if value.fetch_one(&mut *conn).await? == "off" {
                doubts.push(format!("{setting} is off"));
            }
        }
        Ok(doubts)
    }
}
