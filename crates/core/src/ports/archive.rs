//! What a log offers whose old entries may go into files of their own.

use std::fmt;

use async_trait::async_trait;

use super::LedgerError;
use crate::{event::Seq, time::Month};

/// The entries of a month, as a stretch of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStretch {
    /// The month.
    pub month: Month,
    /// Its first entry that is in no archive before.
    pub first: Seq,
    /// Its last entry.
    pub last: Seq,
}

impl LogStretch {
    /// How many entries it has.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        (self.last + 1).saturating_sub(self.first)
    }
}

impl fmt::Display for LogStretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { month, first, last } = self;
        write!(f, "{month}: entries {first} to {last}")
    }
}

/// A file with a stretch of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogArchive {
    /// What it has.
    pub stretch: LogStretch,
    /// Its path.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 digest of all its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A log whose old entries may go into archives, a file a month. Nothing of what is decided needs them.
#[async_trait]
pub trait ArchiveLog: Send + Sync {
    /// The months before `before` that may be archived next, in their order: they are over and settled.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn archivable(&self, before: Month) -> Result<Vec<LogStretch>, LedgerError>;

    /// Archives the first of them: its file is complete and durable before an entry leaves the log. Ends first what an
    /// earlier call has left. None where nothing is left to archive.
    ///
    /// # Errors
    /// When the archive cannot be written, or one that entries are to leave for is not what was written. The log is as
    /// complete as it was, with its archives.
    async fn archive_next(&self, before: Month) -> Result<Option<LogArchive>, LedgerError>;
}
