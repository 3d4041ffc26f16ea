//! The schema's version: how many of the migrations a database has.

use std::future::Future;

use sqlx::{Database, Result};

use crate::error::OpenError;

/// The schema's version that this program understands: the number of migrations, the same on both databases.
pub const SCHEMA_VERSION: u32 = 1;

/// A table and the columns of one of its unique keys, in their order, with commas between them.
pub(crate) type TableKey = (String, String);

/// Migrations of a database.
pub(crate) trait Schema: Database {
    /// In order; append only.
    const MIGRATIONS: [&'static str; SCHEMA_VERSION as usize];

    /// Tables and the columns of unique keys that this database alone has in this form.
    const UNIQUE_KEYS: &'static [(&'static str, &'static str)];

    /// Tables and the columns of all unique keys that hold.
    fn unique_keys(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<TableKey>>> + Send;

    /// The database's encoding, if it cannot store text of every script.
    fn narrow_encoding(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Prepares a connection for migrations, for any defaults of the server.
    fn set_up_migration(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Number of applied migrations; 0 if the database has none.
    fn version(conn: &mut Self::Connection) -> impl Future<Output = Result<i64>> + Send;

    /// Waits for other processes that migrate, and locks them out until the connection is closed. Returns whether it
    /// got the lock in time.
    fn lock(conn: &mut Self::Connection) -> impl Future<Output = Result<bool>> + Send;

    /// Makes the table of versions, if it is missing.
    fn prepare(conn: &mut Self::Connection) -> impl Future<Output = Result<()>> + Send;

    /// Runs a migration and records its version.
    fn apply(
        conn: &mut Self::Connection,
        version: i64,
        migration: &'static str,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Longest wait for another process's migration, in seconds.
pub(crate) const MIGRATION_WAIT_S: u64 = 60;

/// Result of a migration: the versions before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationResult {
    /// Version before; 0 for a database without a schema.
    pub from: u32,
    /// Version afterwards.
    pub to: u32,
}

/// The version of a database.
pub(crate) async fn version<D: Schema>(conn: &mut D::Connection) -> Result<u32, OpenError> {
    let version = D::version(conn).await.map_err(OpenError::from_error)?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Refuses a database that is older or newer than this program understands.
pub(crate) async fn check<D: Schema>(conn: &mut D::Connection) -> Result<(), OpenError> {
    check_encoding::<D>(conn).await?;
    let (found, known) = (version::<D>(conn).await?, SCHEMA_VERSION);
    match found.cmp(&known) {
        std::cmp::Ordering::Less => Err(OpenError::TooOld { found, known }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(OpenError::TooNew { found, known }),
    }
}

async fn check_encoding<D: Schema>(conn: &mut D::Connection) -> Result<(), OpenError> {
    match D::narrow_encoding(conn)
        .await
        .map_err(OpenError::from_error)?
    {
        None => Ok(()),
        Some(found) => Err(OpenError::Encoding { found }),
    }
}

/// Brings a database to the version that this program understands.
pub(crate) async fn migrate<D: Schema>(
    conn: &mut D::Connection,
) -> Result<MigrationResult, OpenError> {
    check_encoding::<D>(conn).await?;
    if !D::lock(conn).await.map_err(OpenError::from_error)? {
        return Err(OpenError::Busy {
            seconds: MIGRATION_WAIT_S,
        });
    }
    let (from, to) = (version::<D>(conn).await?, SCHEMA_VERSION);
    if from > to {
        return Err(OpenError::TooNew {
            found: from,
            known: to,
        });
    }
    D::prepare(conn).await.map_err(OpenError::from_error)?;
    for (version, migration) in (1..).zip(D::MIGRATIONS).skip(from as usize) {
        D::apply(conn, version, migration)
            .await
            .map_err(OpenError::from_error)?;
    }
    Ok(MigrationResult { from, to })
}
