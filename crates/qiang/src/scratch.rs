//! A database for one demonstration or benchmark. It is created for the run and dropped at its end.

use std::time::Instant;

use anyhow::Context as _;
use qiang_core::database::DatabaseKind;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, MySqlConnection, PgConnection,
    mysql::MySqlConnectOptions, postgres::PgConnectOptions,
};

use qiang_api::UsageError;

/// A database of this run.
pub struct Scratch {
    kind: DatabaseKind,
    server: String,
    name: String,
    url: String,
}

impl Scratch {
    /// Creates a database with the tables of a ledger. Its name may contain only letters, digits and `_`.
    ///
    /// # Errors
    /// If `server` is not the URL of a database server, or the server refuses.
    pub async fn make(server: &str, name: &str) -> anyhow::Result<Self> {
        let (kind, url) = url_of(server, name)?;
        let (server, name) = (server.to_owned(), name.to_owned());
        let scratch = Self {
            kind,
            server,
            name,
            url,
        };
        let made = scratch
            .execute(&format!("CREATE DATABASE {}", scratch.name))
            .await;
        made.context("create a database for this run")?;
        if let Err(error) = qiang_ledger::migrate(&scratch.url).await {
            scratch.drop_database().await?;
            return Err(error.into());
        }
        Ok(scratch)
    }

    /// The URL of the database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kind of server that a URL names.
    #[must_use]
    pub fn kind_of(server: &str) -> &'static str {
        match DatabaseKind::from_url(server) {
            Some(DatabaseKind::Postgres) => "PostgreSQL",
            Some(DatabaseKind::MySql) => "MySQL/MariaDB",
            None => "unknown",
        }
    }

    /// Inserts rows one at a time over one connection, each in its own transaction. Returns rows per second.
    ///
    /// # Errors
    /// If the database refuses.
    pub async fn single_rows(&self, rows: u32) -> anyhow::Result<f64> {
        const TABLE: &str = "CREATE TABLE single (number BIGINT PRIMARY KEY, buyer VARCHAR(128) NOT NULL UNIQUE, \
                             amount BIGINT NOT NULL)";
        let started;
        match self.kind {
            DatabaseKind::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                started = Instant::now();
                for n in 0..rows {
                    sqlx::query("INSERT INTO single VALUES ($1, $2, 100)")
                        .bind(i64::from(n))
                        .bind(format!("user-{n}"))
                        .execute(&mut connection)
                        .await?;
                }
            }
            DatabaseKind::MySql => {
                let mut connection = MySqlConnection::connect(&mysql(&self.url)).await?;
                sqlx::raw_sql(TABLE).execute(&mut connection).await?;
                started = Instant::now();
                for n in 0..rows {
                    sqlx::query("INSERT INTO single VALUES (?, ?, 100)")
                        .bind(i64::from(n))
                        .bind(format!("user-{n}"))
                        .execute(&mut connection)
                        .await?;
                }
            }
        }
        Ok(f64::from(rows) / started.elapsed().as_secs_f64())
    }

    /// Drops the database.
    ///
    /// # Errors
    /// If the server does not drop it.
    pub async fn drop_database(self) -> anyhow::Result<()> {
        let force = match self.kind {
            DatabaseKind::Postgres => " WITH (FORCE)",
            DatabaseKind::MySql => "",
        };
        let dropped = self
            .execute(&format!("DROP DATABASE {}{force}", self.name))
            .await;
        dropped.context("drop the database of this run")
    }

    async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match self.kind {
            DatabaseKind::Postgres => {
                let options: PgConnectOptions = self.server.parse()?;
                let mut connection: PgConnection =
                    options.disable_statement_logging().connect().await?;
                sql.execute(&mut connection).await?;
                connection.close().await?;
            }
            DatabaseKind::MySql => {
                let options: MySqlConnectOptions = mysql(&self.server).parse()?;
                let mut connection: MySqlConnection =
                    options.disable_statement_logging().connect().await?;
                sql.execute(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }
}

/// The URL with the only scheme that the driver supports.
fn mysql(url: &str) -> String {
    url.replacen("mariadb://", "mysql://", 1)
}

/// The kind of database in the URL, and the URL with another database name.
fn url_of(server: &str, name: &str) -> anyhow::Result<(DatabaseKind, String)> {
    let unusable = || {
        let line = "--ledger is a postgres://, mysql:// or mariadb:// URL of a server that may create databases";
        UsageError::new(line)
    };
    let kind = DatabaseKind::from_url(server).ok_or_else(unusable)?;
    let (scheme, rest) = server.split_once("://").ok_or_else(unusable)?;
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, format!("?{query}")),
        None => (rest, String::new()),
    };
    let authority = before.split('/').next().unwrap_or(before);
    Ok((kind, format!("{scheme}://{authority}/{name}{query}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        let check = |url: &str, expected: &str| {
            assert_eq!(url_of(url, "own").unwrap().1, expected);
        };
        check("postgres://u:p@h:1/db", "postgres://u:p@h:1/own");
        check("mysql://h", "mysql://h/own");
        check(
            "postgres://h/db?sslmode=disable",
            "postgres://h/own?sslmode=disable",
        );
        assert!(url_of("redis://h", "own").is_err());
        assert!(url_of("nothing", "own").is_err());
    }
}
