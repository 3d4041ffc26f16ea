//! What can go wrong with a database.

use qiang_core::{ports::LedgerError, rows::Contradiction};

/// The ledger's database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Neither PostgreSQL nor MySQL nor MariaDB.
    #[error("a ledger's URL begins with postgres://, postgresql://, mysql:// or mariadb://")]
    Scheme,
    /// The URL does not parse.
    #[error("the ledger's URL cannot be read")]
    Url(#[source] sqlx::Error),
    /// The server did not answer, or refused.
    #[error("the ledger's database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// A pooler in front of PostgreSQL hands each transaction to another session.
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
        /// The database's schema version; 0 if it has none.
        found: u32,
        /// The version that this program understands.
        known: u32,
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
    /// Somebody else migrates, and has not ended in time.
    #[error("somebody else is migrating the ledger, for longer than {seconds} s")]
    Busy {
        /// How long was waited.
        seconds: u64,
    },
}

impl OpenError {
    /// Whether the database is down or busy, so that another attempt may succeed with the same settings.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            // The server has answered: it starts or stops (57P, 08S01), or has no connection to spare (53, 08004).
            Self::Unavailable(sqlx::Error::Database(error)) => {
                let code = error.code().unwrap_or_default();
                let outages = ["57P", "08S01", "53", "08004"];
                outages.iter().any(|of| code.starts_with(of))
            }
            Self::Unavailable(_) | Self::Busy { .. } => true,
            Self::Scheme
            | Self::Url(_)
            | Self::Pooler
            | Self::TooOld { .. }
            | Self::TooNew { .. } => false,
        }
    }

    /// The same error, or the reason for it: where prepared statements are there twice or not at all, sessions change.
    pub(crate) fn of(error: sqlx::Error) -> Self {
        match is_code(&error, &["42P05", "26000"]) {
            true => Self::Pooler,
            false => Self::Unavailable(error),
        }
    }
}

/// Whether the database gave an error one of these codes.
pub(crate) fn is_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| codes.contains(&&*code))
}

/// Why a piece of work on the tables failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The database, or the way to it, before the commit.
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
    /// The commit, or the way to its answer.
    #[error("the commit failed")]
    Commit(#[source] sqlx::Error),
    /// The work took longer than it may.
    #[error("the database took longer than {seconds} s")]
    TimedOut {
        /// How long it may take.
        seconds: u64,
        /// Whether the commit was under way.
        committing: bool,
    },
    /// Somebody else entered the same row at the same moment: once again, and it will be found.
    #[error("somebody else entered the same row")]
    Raced,
    /// A rule of the ledger refused, or its rows contradict each other.
    #[error(transparent)]
    Refused(#[from] LedgerError),
}

impl StoreError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Refused(LedgerError::damaged(reason))
    }
}

impl From<Contradiction> for StoreError {
    fn from(contradiction: Contradiction) -> Self {
        Self::Refused(contradiction.into())
    }
}

/// Takes a key that is there already for a race, which the next attempt sees the end of.
pub(crate) fn raced<T>(entered: sqlx::Result<T>) -> Result<T, StoreError> {
    entered.map_err(|error| match &error {
        sqlx::Error::Database(inner) if inner.is_unique_violation() => StoreError::Raced,
        _ => StoreError::Sqlx(error),
    })
}

/// Refuses it when a statement found fewer or more rows than it was given.
pub(crate) fn check_all(what: &str, found: u64, given: usize) -> sqlx::Result<()> {
    match found == given as u64 {
        true => Ok(()),
        false => Err(contradiction(format!(
            "of {given} {what}, {found} were found"
        ))),
    }
}

/// Rows that contradict each other or what a program could have written.
pub(crate) fn contradiction(what: String) -> sqlx::Error {
    sqlx::Error::InvalidArgument(what)
}
