//! Errors of the data file.

use qiang_core::{ports::LedgerError, rows::Contradiction};

/// Error that opens, reads or writes the data file.
#[derive(Debug, thiserror::Error)]
pub enum DataFileError {
    /// SQLite, or the disk below it, failed.
    #[error("SQLite failed")]
    Sqlite(#[from] rusqlite::Error),
    /// The file system failed.
    #[error("the file system failed")]
    Io(#[from] std::io::Error),
    /// Another writer has the file open, under this path or another one.
    #[error(
        "another process is serving {path}, or the same file under another path; two writers would hand out the same \
         units"
    )]
    InUse {
        /// Path of the file.
        path: String,
    },
    /// A newer Qiang made the file.
    #[error(
        "the file's schema is version {found}, and this program understands up to {known}: use a newer qiang"
    )]
    TooNew {
        /// Schema version of the file.
        found: u32,
        /// Newest version that this program understands.
        known: u32,
    },
    /// Another program made the file.
    #[error(
        "{path} is not a data file of Qiang and stays as it is: name another file with `engine.data` or --data"
    )]
    Foreign {
        /// Path of the file.
        path: String,
    },
    /// The file is of another kind than requested.
    #[error("{path} is {found}, not {wanted}: name another file")]
    OtherKind {
        /// Path of the file.
        path: String,
        /// Kind of the file.
        found: &'static str,
        /// Requested kind.
        wanted: &'static str,
    },
    /// SQLite cannot keep a write-ahead log for the file.
    #[error("SQLite can keep no write-ahead log for {path}: put the file on a local disk")]
    NoWriteAheadLog {
        /// Path of the file.
        path: String,
    },
    /// The write-ahead log is missing. The file was copied while open, or its process died.
    #[error(
        "{path} was not closed, and {path}-wal is not beside it: the last grants may be missing. Put both files \
         there, or a copy that `qiang backup` made; `qiang restore --as-it-is` accepts the file alone"
    )]
    Incomplete {
        /// Path of the file.
        path: String,
    },
    /// A process that started later writes to the file. Locks of files did not prevent it.
    #[error(
        "another process serves {path}, or the same file under another path, and started later: this process no longer \
         writes to it. Stop one of them; restart this one to serve the file"
    )]
    Superseded {
        /// Path of the file.
        path: String,
    },
    /// The path no longer leads to the data file that the writer opened.
    #[error(
        "{path} was removed, moved or replaced while this process served it: commits would be lost. Move the same file \
         back, or restart the service to serve the current file"
    )]
    Moved {
        /// Path of the file.
        path: String,
    },
    /// The path of the write-ahead log or index no longer leads to the file that the writer opened.
    #[error(
        "{path} was removed, moved or replaced while this process served its data file: commits would be lost. Restart \
         the service"
    )]
    LogMoved {
        /// Path of that file.
        path: String,
    },
    /// The data file has content that this writer did not write.
    #[error(
        "{path} was overwritten while a process served it, and {path}-wal does not belong to it: stop the process and \
         replace the file with `qiang restore --replace`"
    )]
    Overwritten {
        /// Path of the file.
        path: String,
    },
    /// The write-ahead log is of an earlier start than the data file, which was served under another path since.
    #[error(
        "{path}-wal is older than the data file {path}, which was served since under another path: the last grants \
         would be lost. If that process was stopped cleanly, move {path}-wal away and start again; otherwise serve the \
         file under that path"
    )]
    StaleLog {
        /// Path of the file.
        path: String,
    },
    /// The clock is earlier than the newest date in the file.
    #[error(
        "the clock is {behind_s} s earlier than the newest entry of {path}: set the clock right. If that entry is \
         wrong, raise `engine.clock_behind_ms_max` for one start"
    )]
    ClockBehind {
        /// Path of the file.
        path: String,
        /// Difference in seconds.
        behind_s: i64,
    },
    /// The file exists and is not overwritten.
    #[error("{path} is there already")]
    Exists {
        /// Path of the file.
        path: String,
    },
    /// The log is in an archive that is missing or changed.
    #[error("its log is archived in {file}: put that file beside the ledger's")]
    Archived {
        /// Name of the archive.
        file: String,
    },
    /// Rows contradict each other.
    #[error("the file is damaged: {reason}")]
    Damaged {
        /// Finding.
        reason: String,
    },
    /// A rule of the ledger refused the change; the file is in order.
    #[error(transparent)]
    Refused(LedgerError),
}

impl DataFileError {
    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged {
            reason: reason.into(),
        }
    }

    /// Whether the file could not be read or written. Rows that contradict each other are not such an error.
    pub(crate) fn is_io(&self) -> bool {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase,
            OutOfMemory, ReadOnly, SystemIoFailure,
        };
        let Self::Sqlite(error) = self else {
            return matches!(
                self,
                Self::Io(_)
                    | Self::Superseded { .. }
                    | Self::Moved { .. }
                    | Self::LogMoved { .. }
                    | Self::Overwritten { .. }
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

    /// Whether rows contradict each other or are missing: a retry does not help.
    fn is_contradiction(&self) -> bool {
        match self {
            Self::Sqlite(rusqlite::Error::QueryReturnedNoRows) => true,
            Self::Sqlite(error) => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
            }
            _ => false,
        }
    }

    /// The error and its sources on one line.
    pub(crate) fn chain(&self) -> String {
        qiang_core::error::chain(self)
    }
}

impl From<Contradiction> for DataFileError {
    fn from(Contradiction { reason }: Contradiction) -> Self {
        Self::Damaged { reason }
    }
}

impl From<DataFileError> for LedgerError {
    fn from(error: DataFileError) -> Self {
        match error {
            DataFileError::Refused(refusal) => refusal,
            DataFileError::Damaged { reason } => Self::Damaged { reason },
            error if error.is_contradiction() => Self::damaged(error.chain()),
            other => Self::unavailable(other.chain()),
        }
    }
}
