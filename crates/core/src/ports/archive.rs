//! Trait of logs that move old entries into archive files.

use std::fmt;

use async_trait::async_trait;

use super::LedgerError;
use crate::{event::Seq, time::Month};

/// The entries of a month, as a range of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStretch {
    /// The month.
    pub month: Month,
    /// Its first entry that is in no earlier archive.
    pub first: Seq,
    /// Its last entry.
    pub last: Seq,
}

impl LogStretch {
    /// Number of its entries.
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

/// A file with a range of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogArchive {
    /// Range of the archived entries.
    pub stretch: LogStretch,
    /// Its path.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 digest of all its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A log that can move old entries into archives, one file per month. No decision needs archived entries.
#[async_trait]
pub trait ArchiveLog: Send + Sync {
    /// The months before `before` that can be archived next, in order: they are over, and all their entries are
    /// settled.
    ///
    /// # Errors
    /// When the log cannot be read.
    async fn archivable(&self, before: Month) -> Result<Vec<LogStretch>, LedgerError>;

    /// Archives the first of these months: its file is complete and durable before an entry leaves the log. First
    /// completes an unfinished earlier call. Returns `None` if there is no month to archive.
    ///
    /// # Errors
    /// If the archive cannot be written, or if an archive file has changed since it was written. Log and archives
    /// together stay complete.
    async fn archive_next(&self, before: Month) -> Result<Option<LogArchive>, LedgerError>;
}
