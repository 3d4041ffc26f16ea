//! `row_lock`: the row of the stock in a database, locked by its UPDATE.
//!
//! Source: the article on 云数据库Redis版缓存设计高并发的秒杀系统 calls this the usual way (利用数据库的行级锁) and argues against it.
//!
//! One transaction per claim: `UPDATE … SET stock = stock - 1 WHERE id = ? AND stock > 0`, then the INSERT of the
//! order, unique by campaign and user; on PostgreSQL, MySQL or MariaDB. All claims of a campaign wait for one row.
//! Round trips count statements, without the preparation of each connection's statements.

use std::str::FromStr as _;

use anyhow::{Context as _, bail, ensure};
use async_trait::async_trait;
use qiang_core::database::DatabaseKind;
use sqlx::{
    AssertSqlSafe, Connection as _, Error, MySqlConnection, PgConnection,
    mysql::MySqlConnectOptions, postgres::PgConnectOptions,
};

use super::{
    scheme::{About, Client, Drive, Exact, Outcome, Recount, Scheme},
    wire::require_loopback,
};
use qiang::UsageError;

pub(super) const ABOUT: About = About {
    name: "row_lock",
    source: "利用数据库的行级锁, as counter's article calls it",
    exact: Exact::SupplyAndUsers,
    on_redis: false,
    published: None,
};

#[derive(Clone)]
pub(super) enum Database {
    Postgres(PgConnectOptions),
    MySql(MySqlConnectOptions),
}

impl Database {
    /// Database of a URL. It must be on loopback unless `anywhere`.
    pub(super) fn new(url: &str, anywhere: bool) -> anyhow::Result<Self> {
        let wrong = |error: Error| UsageError::new(format!("--sql: {error}"));
        let (database, host, port, socket) = match DatabaseKind::from_url(url) {
            Some(DatabaseKind::Postgres) => {
                let options = PgConnectOptions::from_str(url).map_err(wrong)?;
                let (host, port) = (options.get_host().to_owned(), options.get_port());
                let socket = options.get_socket().is_some() || host.starts_with('/');
                (Self::Postgres(options), host, port, socket)
            }
            Some(DatabaseKind::MySql) => {
                let options = MySqlConnectOptions::from_str(url).map_err(wrong)?;
                let (host, port) = (options.get_host().to_owned(), options.get_port());
                let socket = options.get_socket().is_some();
                (Self::MySql(options), host, port, socket)
            }
            None => bail!(UsageError::new(
                "--sql: a URL must begin with postgres:// or mysql://"
            )),
        };
        if !anywhere && !socket {
            require_loopback("--sql", &host, port)?;
        }
        Ok(database)
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        Ok(match self {
            Self::Postgres(options) => Connection::Postgres(
                PgConnection::connect_with(options)
                    .await
                    .context("cannot connect to PostgreSQL")?,
            ),
            Self::MySql(options) => Connection::MySql(
                MySqlConnection::connect_with(options)
                    .await
                    .context("cannot connect to MySQL")?,
            ),
        })
    }
}

enum Connection {
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

impl Connection {
    async fn execute(&mut self, sql: &str) -> anyhow::Result<()> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        match self {
            Self::Postgres(connection) => sql.execute(connection).await.map(|_| ())?,
            Self::MySql(connection) => sql.execute(connection).await.map(|_| ())?,
        }
        Ok(())
    }

    async fn number(&mut self, sql: &str) -> anyhow::Result<i64> {
        let sql = AssertSqlSafe(sql);
        Ok(match self {
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await?,
            Self::MySql(connection) => sqlx::query_scalar(sql).fetch_one(connection).await?,
        })
    }

    async fn texts(&mut self, sql: &str) -> anyhow::Result<Vec<String>> {
        let sql = AssertSqlSafe(sql);
        Ok(match self {
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_all(connection).await?,
            Self::MySql(connection) => sqlx::query_scalar(sql).fetch_all(connection).await?,
        })
    }
}

pub(super) struct RowLock {
    database: Database,
    stock: String,
    orders: String,
}

impl RowLock {
    /// Scheme with tables of a unique `name`.
    pub(super) fn new(database: Database, name: &str) -> Self {
        Self {
            database,
            stock: format!("qiang_bench_{name}_stock"),
            orders: format!("qiang_bench_{name}_orders"),
        }
    }
}

#[async_trait]
impl Scheme for RowLock {
    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let (stock, orders) = (&self.stock, &self.orders);
        let mut connection = self.database.connect().await?;
        for statement in [
            format!("CREATE TABLE {stock} (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL)"),
            format!(
                "CREATE TABLE {orders} (campaign BIGINT, user_id VARCHAR(64), PRIMARY KEY (campaign, user_id))"
            ),
            format!("INSERT INTO {stock} VALUES (1, {supply})"),
        ] {
            connection.execute(&statement).await?;
        }
        Ok(())
    }

    async fn drive(&self, connections: usize) -> anyhow::Result<Drive> {
        let (stock, orders) = (&self.stock, &self.orders);
        let user = match self.database {
            Database::Postgres(_) => "$1",
            Database::MySql(_) => "?",
        };
        let mut clients = Vec::with_capacity(connections);
        for _ in 0..connections {
            clients.push(Box::new(RowClient {
                connection: self.database.connect().await?,
                update: format!("UPDATE {stock} SET stock = stock - 1 WHERE id = 1 AND stock > 0"),
                insert: format!("INSERT INTO {orders} (campaign, user_id) VALUES (1, {user})"),
                round_trips: 0,
            }) as Box<dyn Client>);
        }
        Ok(Drive::Clients(clients))
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let mut connection = self.database.connect().await?;
        let left = format!("SELECT stock FROM {} WHERE id = 1", self.stock);
        let holders = format!("SELECT user_id FROM {}", self.orders);
        Ok(Recount {
            left: connection.number(&left).await?,
            holders: connection.texts(&holders).await?,
            ..Recount::default()
        })
    }

    async fn clean(&self) -> anyhow::Result<()> {
        let mut connection = self.database.connect().await?;
        for table in [&self.stock, &self.orders] {
            connection
                .execute(&format!("DROP TABLE IF EXISTS {table}"))
                .await?;
        }
        Ok(())
    }
}

struct RowClient {
    connection: Connection,
    update: String,
    insert: String,
    round_trips: u64,
}

/// The transaction. It is a macro because the library's types for the dialects share no suitable trait.
macro_rules! transaction {
    ($connection:expr, $client:expr, $user:expr) => {{
        let update = sqlx::query(AssertSqlSafe($client.update.as_str()));
        let insert = sqlx::query(AssertSqlSafe($client.insert.as_str())).bind($user);
        $client.round_trips += 3;
        let mut transaction = $connection.begin().await?;
        let rows = update.execute(&mut *transaction).await?.rows_affected();
        ensure!(rows <= 1, "{rows} rows of stock");
        if rows == 0 {
            transaction.rollback().await?;
            return Ok(Outcome::SoldOut);
        }
        $client.round_trips += 1;
        match insert.execute(&mut *transaction).await {
            Ok(_) => {
                transaction.commit().await?;
                Ok(Outcome::Granted { unit: None })
            }
            Err(Error::Database(error)) if error.is_unique_violation() => {
                transaction.rollback().await?;
                Ok(Outcome::Already)
            }
            Err(error) => Err(error.into()),
        }
    }};
}

#[async_trait]
impl Client for RowClient {
    async fn claim(&mut self, user: &str) -> anyhow::Result<Outcome> {
        match &mut self.connection {
            Connection::Postgres(connection) => transaction!(connection, self, user),
            Connection::MySql(connection) => transaction!(connection, self, user),
        }
    }

    fn round_trips(&self) -> u64 {
        self.round_trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_either_database_on_this_machine() {
        let check = |url: &str, anywhere, fine| {
            assert_eq!(Database::new(url, anywhere).is_ok(), fine, "{url}");
        };
        check("postgres://u@127.0.0.1:5433/b", false, true);
        check("postgresql:///b?host=/run/postgresql", false, true);
        check("mysql://u@localhost/b", false, true);
        check("mariadb://u@127.0.0.1/b", false, true);
        check("postgres://u@192.0.2.1/b", false, false);
        check("mysql://u@192.0.2.1/b", false, false);
        check("mysql://u@192.0.2.1/b", true, true);
        check("sqlite://b", true, false);
    }
}
