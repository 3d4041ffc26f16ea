//! The ledger on PostgreSQL and on MySQL/MariaDB.
//!
//! Both databases execute the same plans of [`qiang_core::settlement`] (`settle.rs`); the other modules implement the
//! rest of the [`Ledger`] port. A dialect runs one statement (`dialect.rs`, `postgres/`, `mysql/`); the statements are
//! in `.sql` files. Work on a connection runs in tasks that are never cancelled (`pool.rs`).
//!
//! `docs/reference/data-model.md` describes the tables, and how they differ from those of the embedded file.

mod accounts;
mod actions;
mod audiences;
mod bindings;
mod campaigns;
mod deliveries;
mod dialect;
mod discards;
mod error;
mod histories;
mod keys;
mod listing;
mod made_changes;
mod metadata;
mod mysql;
mod order_restoration;
mod payouts;
mod pool;
mod positions;
mod postgres;
mod quarantine;
mod reconcile;
mod recounts;
mod repairs;
mod restatements;
mod schema;
mod settle;
mod settled_positions;
mod sql_ledger;
mod table_keys;
mod waiting_rooms;
mod webhooks;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    database::DatabaseKind,
    ports::{Clock, Ledger},
};
use sqlx::{Connection, MySql, Postgres, pool::PoolOptions};

use self::{
    dialect::Dialect,
    pool::{BoundedPool, OutdatedSession},
    sql_ledger::SqlLedger,
    table_keys::KeyCheck,
};
pub use self::{
    error::OpenError,
    schema::{MigrationResult, SCHEMA_VERSION},
};

/// Connections that a process keeps to the ledger's database, unless told otherwise.
pub const CONNECTIONS_MAX: u32 = 8;
/// How long work waits for a free connection, and for a new one to be made, unless told otherwise.
pub const ACQUIRE_MAX: Duration = Duration::from_secs(5);

/// How long a piece of work may take on its connection, unless told otherwise: a transaction of settlement is a matter
/// of milliseconds. The entering of a campaign, with all its shares, may take 15 times as long.
pub const WORK_MAX: Duration = Duration::from_secs(60);

/// How long a connection may idle in the pool. Below what `session.sql` tells the servers to close.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The pause between two attempts to reach a database that starts.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How to use the ledger's database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerOptions {
    /// Connections that are open at the same time; at least 1. Work beyond them waits.
    pub connections_max: u32,
    /// How long work waits for a free connection before it is refused.
    pub acquire_max: Duration,
    /// How long a piece of work may take before its connection is given up.
    pub work_max: Duration,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            acquire_max: ACQUIRE_MAX,
            work_max: WORK_MAX,
        }
    }
}

/// Opens the ledger at a URL: `postgres://`, `postgresql://`, `mysql://` or `mariadb://`.
///
/// # Errors
/// When the URL is bad, the database does not answer, or its schema is older or newer than this program understands.
pub async fn open(
    url: &str,
    clock: Arc<dyn Clock>,
    options: LedgerOptions,
) -> Result<Arc<dyn Ledger>, OpenError> {
    Ok(
        match DatabaseKind::from_url(url).ok_or(OpenError::Scheme)? {
            DatabaseKind::Postgres => {
                let pool = bounded_pool::<Postgres>(url, options).await?;
                Arc::new(SqlLedger::new(pool, clock))
            }
            DatabaseKind::MySql => {
                let pool = bounded_pool::<MySql>(url, options).await?;
                Arc::new(SqlLedger::new(pool, clock))
            }
        },
    )
}

/// A pool on a database whose schema is understood.
async fn bounded_pool<D: Dialect>(
    url: &str,
    options: LedgerOptions,
) -> Result<BoundedPool<D>, OpenError> {
    let at = D::at(url).map_err(OpenError::Url)?;
    let outdated = OutdatedSession::default();
    let sessions = outdated.clone();
    let pool = PoolOptions::<D>::new()
        .max_connections(options.connections_max.max(1))
        .acquire_timeout(options.acquire_max)
        .idle_timeout(IDLE_MAX)
        .after_connect(|conn, _| {
            Box::pin(async move {
                D::set_up(conn).await?;
                tracing::debug!("opened a session of the database");
                Ok(())
            })
        })
        .before_acquire(move |_, session| {
            let is_usable = sessions.allows(session.age);
            Box::pin(async move { Ok(is_usable) })
        });
    // Before anything is set in a session: a pooler may give the session to another client next.
    let until = Instant::now() + options.acquire_max;
    while let Err(error) = check_sessions::<D>(&at).await {
        if !error.is_outage() || Instant::now() >= until {
            return Err(error);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    let pool = pool.connect_with(at).await.map_err(OpenError::from_error)?;
    let mut conn = pool.acquire().await.map_err(OpenError::from_error)?;
    schema::check::<D>(&mut conn).await?;
    table_keys::check::<D>(&mut conn).await?;
    let warnings = D::durability_warnings(&mut conn).await;
    for doubt in warnings.map_err(OpenError::from_error)? {
        tracing::warn!(
            doubt,
            "the ledger's database may lose what it has confirmed"
        );
    }
    drop(conn);
    Ok(BoundedPool {
        pool,
        work_max: options.work_max,
        outdated,
        keys: KeyCheck::default(),
    })
}

/// Refuses a URL at which a connection has no session of its own.
async fn check_sessions<D: Dialect>(
    at: &<D::Connection as Connection>::Options,
) -> Result<(), OpenError> {
    let shared = tokio::time::timeout(ACQUIRE_MAX, D::shares_sessions(at)).await;
    match shared.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::Pooler),
        Err(error) => Err(OpenError::from_error(error)),
    }
}

/// Migrates the database at a URL to the schema of this program. Waits for other processes that migrate.
///
/// # Errors
/// When the URL is bad, the database does not answer, or its schema is newer than this program understands.
pub async fn migrate(url: &str) -> Result<MigrationResult, OpenError> {
    match DatabaseKind::from_url(url).ok_or(OpenError::Scheme)? {
        DatabaseKind::Postgres => {
            on_connection::<Postgres, _>(url, schema::migrate::<Postgres>).await
        }
        DatabaseKind::MySql => on_connection::<MySql, _>(url, schema::migrate::<MySql>).await,
    }
}

/// The version of the schema of the database at a URL; 0 for one without.
///
/// # Errors
/// When the URL is bad, or the database does not answer.
pub async fn schema_version(url: &str) -> Result<u32, OpenError> {
    match DatabaseKind::from_url(url).ok_or(OpenError::Scheme)? {
        DatabaseKind::Postgres => {
            on_connection::<Postgres, _>(url, schema::version::<Postgres>).await
        }
        DatabaseKind::MySql => on_connection::<MySql, _>(url, schema::version::<MySql>).await,
    }
}

/// Does some work on a connection of its own.
async fn on_connection<D: Dialect, T>(
    url: &str,
    work: impl AsyncFnOnce(&mut D::Connection) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let at = D::at(url).map_err(OpenError::Url)?;
    let connected = tokio::time::timeout(ACQUIRE_MAX, D::Connection::connect_with(&at)).await;
    let connected = connected.unwrap_or(Err(sqlx::Error::PoolTimedOut));
    let mut conn = connected.map_err(OpenError::from_error)?;
    check_sessions::<D>(&at).await?;
    D::set_up_migration(&mut conn)
        .await
        .map_err(OpenError::from_error)?;
    let result = work(&mut conn).await;
    // It has done its work; how it goes is of no account.
    drop(conn.close().await);
    result
}
