//! Moves old entries of a log into archives.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    ports::{ArchiveLog, Clock},
    time::Month,
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for completed months.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 86_400_000;

/// Archives the months of a log.
pub struct LogArchiver {
    log: Arc<dyn ArchiveLog>,
    clock: Arc<dyn Clock>,
    after_ms: i64,
}

impl LogArchiver {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates an archiver for months of this log that ended at least `after_days` days ago.
    #[must_use]
    pub fn new(log: Arc<dyn ArchiveLog>, clock: Arc<dyn Clock>, after_days: u32) -> Self {
        Self {
            log,
            clock,
            after_ms: i64::from(after_days) * DAY_MS,
        }
    }
}

impl Reconciler for LogArchiver {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let before = Month::containing(self.clock.now().plus_millis(-self.after_ms));
        match self.log.archive_next(before).await {
            Ok(Some(archive)) => {
                let (month, file) = (archive.stretch.month, archive.file);
                let (entries, bytes) = (archive.stretch.entries(), archive.bytes);
                tracing::info!(%month, file, entries, bytes, "archived a month of the log");
                Ok(NextRun::Again)
            }
            Ok(None) => Ok(NextRun::Wait),
            Err(error) => Err(ReconcileError(format!(
                "old entries of the log are not archived: {error}"
            ))),
        }
    }
}
