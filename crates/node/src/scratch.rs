//! A database that is made for one demonstration or benchmark, and dropped at its end.

use std::time::Instant;

use anyhow::Context as _;
use qiang_core::database::DatabaseKind;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, MySqlConnection, PgConnection};

use qiang_api::UsageError;

/// A database that was made for this run.
pub struct Scratch {
    server: String,
    name: String,
    url: String,
}

impl Scratch {
    /// Makes a database with the tables of a ledger. Its name has letters, digits and `_` only.
    ///
    /// # Errors
    /// When `server` is not the URL of a database server, or it refuses.
    pub async fn make(server: &str, name: &str) -> anyhow::Result<Self> {
        let scratch = Self {
            server: server.to_owned(),
            name: name.to_owned(),
            url: url_of(server, name)?,
        };
        let made = scratch.execute(&format!("CREATE DATABASE {name}")).await;
        made.context("make a database for this run")?;
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

    /// What kind of server a URL is about.
    #[must_use]
    pub fn kind_of(server: &str) -> &'static str {
        if is_postgres(server) {
            "PostgreSQL"
        } else {
            "MySQL/MariaDB"
        }
    }

    /// Inserts rows one by one over one connection, each in a transaction of its own. Returns rows per second.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn single_rows(&self, rows: u32) -> anyhow::Result<f64> {
        const TABLE: &str = "CREATE TABLE single (number BIGINT PRIMARY KEY, buyer VARCHAR(128) NOT NULL UNIQUE, \
                             amount BIGINT NOT NULL)";
        let started;
        if is_postgres(&self.server) {
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
        } else {
            let url = self.url.replacen("mariadb://", "mysql://", 1);
            let mut connection = MySqlConnection::connect(&url).await?;
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
        Ok(f64::from(rows) / started.elapsed().as_secs_f64())
    }

    /// Drops the database.
    ///
    /// # Errors
    /// When the server does not.
    pub async fn drop_database(self) -> anyhow::Result<()> {
        let force = if is_postgres(&self.server) {
            " WITH (FORCE)"
        } else {
            ""
        };
        let dropped = self
            .execute(&format!("DROP DATABASE {}{force}", self.name))
            .await;
        dropped.context("drop the database of this run")
    }

    async fn execute(&self, sql: &str) -> anyhow::Result<()> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        if is_postgres(&self.server) {
            let options: sqlx::postgres::PgConnectOptions = self.server.parse()?;
            let mut connection: PgConnection =
                options.disable_statement_logging().connect().await?;
            sql.execute(&mut connection).await?;
            connection.close().await?;
        } else {
            let url = self.server.replacen("mariadb://", "mysql://", 1);
            let options: sqlx::mysql::MySqlConnectOptions = url.parse()?;
            let mut connection: MySqlConnection =
                options.disable_statement_logging().connect().await?;
            sql.execute(&mut connection).await?;
            connection.close().await?;
        }
        Ok(())
    }
}

fn is_postgres(url: &str) -> bool {
    DatabaseKind::of(url) == Some(DatabaseKind::Postgres)
}

/// The URL with another database.
fn url_of(server: &str, name: &str) -> anyhow::Result<String> {
    let unusable = || {
        let line = "--ledger is a postgres://, mysql:// or mariadb:// URL of a server where a database may be made";
        UsageError::new(line)
    };
    DatabaseKind::of(server).ok_or_else(unusable)?;
    let (scheme, rest) = server.split_once("://").ok_or_else(unusable)?;
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, format!("?{query}")),
        None => (rest, String::new()),
    };
    let authority = before.split('/').next().unwrap_or(before);
    Ok(format!("{scheme}://{authority}/{name}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        let check = |url: &str, expected: &str| {
            assert_eq!(url_of(url, "own").unwrap(), expected);
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
