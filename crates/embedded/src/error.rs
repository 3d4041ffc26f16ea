//! What can go wrong with the file.

use qiang_core::{ports::LedgerError, rows::Contradiction};

/// The embedded file cannot be used, or not for this.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite or the disk below it.
    #[error("SQLite failed")]
    Sqlite(#[from] rusqlite::Error),
    /// The file system.
    #[error("the file system failed")]
    Io(#[from] std::io::Error),
    /// Another writer has the file open, under this path or another one.
    #[error(
        "another process is serving {path}, or the same file under another path; two writers would hand out the same \
         units"
    )]
    InUse {
        /// The file.
        path: String,
    },
    /// The file was made by a newer Qiang.
    #[error(
        "the file's schema is version {found}, and this program understands up to {known}: use a newer qiang"
    )]
    TooNew {
        /// The file's schema version.
        found: u32,
        /// The newest version that this program understands.
        known: u32,
    },
    /// Another program made the file.
    #[error(
        "{path} is not a data file of Qiang and stays as it is: name another file with `engine.data` or --data"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// The file is for something else.
    #[error("{path} is {found}, and was to be opened as {wanted}: name another file")]
    OtherKind {
        /// The file.
        path: String,
        /// What it is.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// SQLite keeps no write-ahead log for the file.
    #[error("SQLite can keep no write-ahead log for {path}: put the file on a local disk")]
    NoWriteAheadLog {
        /// The file.
        path: String,
    },
    /// It was open when it was copied, or when its process died, and its write-ahead log is gone.
    #[error(
        "{path} was not closed, and {path}-wal is not beside it: what was granted last may be missing. Put both files \
         there, or a copy that `qiang backup` made; `qiang restore --as-it-is` takes what the file alone has"
    )]
    Incomplete {
        /// The file.
        path: String,
    },
    /// The path no longer leads to the data file that the writer opened.
    #[error(
        "{path} was removed, moved or replaced while this process served it: commits would be lost. Move the same file \
         back, or restart the service to serve the file that is there"
    )]
    Moved {
        /// The file.
        path: String,
    },
    /// The same of a file that SQLite has beside it.
    #[error(
        "{path} was removed, moved or replaced while this process served its data file: commits would be lost. Restart \
         the service"
    )]
    LogMoved {
        /// The file.
        path: String,
    },
    /// The data file has other content, which this writer did not write.
    #[error(
        "{path} was overwritten while a process served it, and {path}-wal does not belong to it: stop the process and \
         replace the file with `qiang restore --replace`"
    )]
    Overwritten {
        /// The file.
        path: String,
    },
    /// The clock is behind what the file has been dated with.
    #[error(
        "the clock is {behind_s} s behind the newest entry of {path}: set the clock right. If the entry is what is \
         wrong, raise `engine.clock_behind_ms_max` for one start"
    )]
    ClockBehind {
        /// The file.
        path: String,
        /// By how many seconds.
        behind_s: i64,
    },
    /// Nothing is written over it.
    #[error("{path} is there already")]
    Exists {
        /// The file.
        path: String,
    },
    /// What is to be read is in an archive of the log that is not there, or is not as it was written.
    #[error("its log is archived in {file}: put that file beside the ledger's")]
    Archived {
        /// The archive.
        file: String,
    },
    /// The rows contradict each other.
    #[error("the file is damaged: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
    /// A rule of the ledger refused; nothing is wrong with the file.
    #[error(transparent)]
    Refused(LedgerError),
}

impl StoreError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged {
            reason: reason.into(),
        }
    }

    /// Whether the file could not be read or written, as opposed to rows that contradict each other.
    pub(crate) fn is_io(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase,
            OutOfMemory, ReadOnly, SystemIoFailure,
        };
        let Self::Sqlite(error) = self else {
            return matches!(
                self,
                Self::Io(_) | Self::Moved { .. } | Self::LogMoved { .. } | Self::Overwritten { .. }
            );
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                CannotOpen
                    | DatabaseBusy
                    | DatabaseCorrupt
                    | DatabaseLocked
                    | DiskFull
                    | NotADatabase
                    | OutOfMemory
                    | ReadOnly
                    | SystemIoFailure
            )
        )
    }

    /// Whether rows contradict each other or are missing: trying again does not help.
    fn is_contradiction(&self) -> bool {
        match self {
            Self::Sqlite(rusqlite::Error::QueryReturnedNoRows) => true,
            Self::Sqlite(error) => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
            }
            _ => false,
        }
    }

    /// The error and everything below it, on one line.
    pub(crate) fn chain(&self) -> String {
        qiang_core::error::chain(self)
    }
}

impl From<Contradiction> for StoreError {
    fn from(Contradiction { reason }: Contradiction) -> Self {
        Self::Damaged { reason }
    }
}

impl From<StoreError> for LedgerError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal,
            StoreError::Damaged { reason } => Self::Damaged { reason },
            error if error.is_contradiction() => Self::damaged(error.chain()),
            other => Self::unavailable(other.chain()),
        }
    }
}
