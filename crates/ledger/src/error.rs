//! Errors of the ledger's database.

use qiang_core::{ports::LedgerError, rows::Contradiction};
use sqlx::mysql::MySqlDatabaseError;

/// Error that opens the ledger's database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names neither PostgreSQL nor MySQL nor MariaDB.
    #[error("a ledger's URL begins with postgres://, postgresql://, mysql:// or mariadb://")]
    Scheme,
    /// The URL does not parse.
    #[error("the ledger's URL cannot be read")]
    Url(#[source] sqlx::Error),
    /// The server did not answer, or refused.
    #[error("the ledger's database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// A pooler in front of PostgreSQL assigns each transaction to another session.
    #[error(
        "the ledger's URL leads to a pooler that changes sessions between transactions: set PgBouncer's pool_mode to \
         session for this database, or connect to PostgreSQL itself"
    )]
    Pooler,
    /// The schema is older than this program needs.
    #[error(
        "the ledger's schema is version {found}, and this program needs version {known}: run `qiang migrate`"
    )]
    TooOld {
        /// Schema version of the database; 0 if it has none.
        found: u32,
        /// The version that this program understands.
        known: u32,
    },
    /// Tables lack unique keys by which retries are found.
    #[error(
        "the ledger's tables lack the unique keys {missing}: create them again, or restore the tables from a backup"
    )]
    Keys {
        /// Tables and the columns of the keys: `deposits (id), orders (campaign,number)`.
        missing: String,
    },
    /// The database cannot store text of every script.
    #[error(
        "the ledger's database has the encoding {found}, which lacks characters: create one with ENCODING 'UTF8'"
    )]
    Encoding {
        /// PostgreSQL's name of the encoding.
        found: String,
    },
    /// The schema was made by a newer Qiang.
    #[error(
        "the ledger's schema is version {found}, and this program understands up to {known}: use a newer qiang"
    )]
    TooNew {
        /// The database's schema version.
        found: u32,
        /// The version that this program understands.
        known: u32,
    },
    /// Another process is migrating and has not finished in time.
    #[error("another process has been migrating the ledger for more than {seconds} s")]
    Busy {
        /// Wait in seconds.
        seconds: u64,
    },
}

impl OpenError {
    /// Whether the database is down or busy, so that a retry with the same settings may succeed.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            // The server has answered: it starts or stops (57P, 08S01), or has no connection to spare (53, 08004;
            // 1203 and 1226 for one user).
            Self::Unavailable(sqlx::Error::Database(error)) => {
                let code = error.code().unwrap_or_default();
                let outages = ["57P", "08S01", "53", "08004"];
                let is_full = error
                    .try_downcast_ref::<MySqlDatabaseError>()
                    .is_some_and(|error| matches!(error.number(), 1203 | 1226));
                is_full || outages.iter().any(|of| code.starts_with(of))
            }
            Self::Unavailable(_) | Self::Busy { .. } => true,
            Self::Scheme
            | Self::Url(_)
            | Self::Pooler
            | Self::Keys { .. }
            | Self::Encoding { .. }
            | Self::TooOld { .. }
            | Self::TooNew { .. } => false,
        }
    }

    /// Classifies an error: duplicate or missing prepared statements mean that a pooler changes sessions.
    pub(crate) fn from_error(error: sqlx::Error) -> Self {
        match is_code(&error, &["42P05", "26000"]) {
            true => Self::Pooler,
            false => Self::Unavailable(error),
        }
    }
}

/// Whether the database returned one of these error codes.
pub(crate) fn is_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| codes.contains(&&*code))
}

/// Error of a piece of work on the tables.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    /// The database or the connection failed before the commit.
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
    /// The commit, or the connection that carries its answer, failed.
    #[error("the commit failed")]
    Commit(#[source] sqlx::Error),
    /// The work exceeded its time limit.
    #[error("the database took longer than {seconds} s")]
    TimedOut {
        /// Time limit in seconds.
        seconds: u64,
        /// Whether the commit was in flight.
        committing: bool,
    },
    /// Another transaction entered the same row concurrently. A retry finds that row.
    #[error("another transaction inserted the same row")]
    Raced,
    /// A rule of the ledger refused, or its rows contradict each other.
    #[error(transparent)]
    Refused(#[from] LedgerError),
}

impl WorkError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Refused(LedgerError::damaged(reason))
    }
}

impl From<Contradiction> for WorkError {
    fn from(contradiction: Contradiction) -> Self {
        Self::Refused(contradiction.into())
    }
}

/// Turns a duplicate key into [`WorkError::Raced`], because the next attempt finds the row.
pub(crate) fn raced<T>(entered: sqlx::Result<T>) -> Result<T, WorkError> {
    entered.map_err(|error| match &error {
        sqlx::Error::Database(inner) if inner.is_unique_violation() => WorkError::Raced,
        _ => WorkError::Sqlx(error),
    })
}

/// Returns an error if a statement found fewer or more rows than it was given.
pub(crate) fn check_all(what: &str, found: u64, given: usize) -> sqlx::Result<()> {
    match found == given as u64 {
        true => Ok(()),
        false => Err(contradiction(format!("found {found} of {given} {what}"))),
    }
}

/// Error for rows that contradict each other or that no program can have written.
pub(crate) fn contradiction(what: String) -> sqlx::Error {
    sqlx::Error::InvalidArgument(what)
}
