//! Archiving: moves old log entries to archive files, one per month, while the engine serves.
//!
//! The ledger's tables hold everything up to the settled position. Only two readers need earlier entries: the audit,
//! and campaigns with quarantined entries.
//!
//! An archive is written, compared with the log, and synced under its name. Only then does the table `archives` record
//! it. Entries are deleted after that, and only if the file still has the recorded digest. Each step can be repeated,
//! and the next call continues after a crash.

mod file;
pub(crate) mod read;
mod rows;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use async_trait::async_trait;
use qiang_core::{
    event::Seq,
    ports::{ArchiveLog, LedgerError, LogArchive, LogStretch},
    time::Month,
};

use self::{file::ArchiveCancellation, rows::ArchiveRow};
use crate::{
    Embedded,
    error::DataFileError,
    job::JobContext,
    ledger_file::{SqliteLedgerHost as _, job},
    reader::query,
};

/// Pause after a removal that delayed claims, in multiples of the removal's duration: removals then take at most 1% of
/// the writer's time.
const CLAIMS_PER_REMOVAL: u32 = 99;

/// Log of an embedded engine, archived in one folder.
#[derive(Clone)]
pub struct LogArchives {
    embedded: Embedded,
    folder: Arc<Path>,
}

impl Embedded {
    /// Returns the engine's log, to archive in this folder. The folder must exist.
    #[must_use]
    pub fn archives_in(&self, folder: PathBuf) -> LogArchives {
        LogArchives {
            embedded: self.clone(),
            folder: folder.into(),
        }
    }
}

#[async_trait]
impl ArchiveLog for LogArchives {
    async fn archivable(&self, before: Month) -> Result<Vec<LogStretch>, LedgerError> {
        self.next(before, usize::MAX).await
    }

    async fn archive_next(&self, before: Month) -> Result<Option<LogArchive>, LedgerError> {
        self.finish().await?;
        let Some(stretch) = self.next(before, 1).await?.pop() else {
            return Ok(None);
        };
        let folder = Arc::clone(&self.folder);
        let ledger = self.embedded.path().to_owned();
        let work = move |wanted: &ArchiveCancellation| write(&ledger, &folder, stretch, wanted);
        let archive = self.off_thread(work).await?;
        let row = archive.clone();
        let record =
            move |context: &mut JobContext<'_, '_>| rows::insert(context.conn, context.now, &row);
        job(&self.embedded, 0, record).await?;
        self.finish().await?;
        Ok(Some(archive))
    }
}

impl LogArchives {
    async fn next(&self, before: Month, max: usize) -> Result<Vec<LogStretch>, LedgerError> {
        let clock = Arc::clone(&self.embedded.clock);
        let next = move |conn: &_| rows::next(conn, before, || clock.now(), max);
        query(self.embedded.readers(), next).await
    }

    /// Runs work on a thread that may block. Dropping the returned future cancels the work.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ArchiveCancellation) -> Result<T, DataFileError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        struct ArchiveWaiters(ArchiveCancellation);
        impl Drop for ArchiveWaiters {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let waits = ArchiveWaiters(ArchiveCancellation::new());
        let wanted = waits.0.clone();
        query(self.embedded.readers(), move |_| work(&wanted)).await
    }

    /// Deletes all entries that are archived and still in the log.
    async fn finish(&self) -> Result<(), LedgerError> {
        let readers = self.embedded.readers();
        while let Some(archive) = query(readers, rows::unfinished).await? {
            let LogStretch { first, last, .. } = archive.stretch;
            let (ledger, folder) = (self.embedded.path().to_owned(), Arc::clone(&self.folder));
            self.off_thread(move |wanted| check(&ledger, &folder, &archive, wanted))
                .await?;
            self.remove(first - 1, last).await?;
        }
        Ok(())
    }

    /// Deletes the entries of an archive, a bounded number per transaction.
    async fn remove(&self, mut after: Seq, last: Seq) -> Result<(), LedgerError> {
        let decided = || self.embedded.shared.gate_answers.read().decided;
        while after < last {
            let (began, before) = (Instant::now(), decided());
            let from = after;
            let remove =
                move |context: &mut JobContext<'_, '_>| rows::remove(context.conn, from, last);
            after = job(&self.embedded, 0, remove).await?;
            if decided() != before {
                tokio::time::sleep(began.elapsed() * CLAIMS_PER_REMOVAL).await;
            }
        }
        Ok(())
    }
}

/// Writes an archive, or reuses the file that an earlier attempt left.
fn write(
    ledger: &Path,
    folder: &Path,
    stretch: LogStretch,
    wanted: &ArchiveCancellation,
) -> Result<LogArchive, DataFileError> {
    if !folder.is_dir() {
        let what = format!("there is no folder {}", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what).into());
    }
    let stem = ledger.file_stem().unwrap_or_default().to_string_lossy();
    let path = std::path::absolute(folder.join(format!("{stem}-{}.db", stretch.month)))?;
    let name = path.to_str().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the folder's name is not valid UTF-8",
        )
    })?;
    let stretch = if path.symlink_metadata().is_ok() {
        let found = file::examine(ledger, &path, wanted).ok();
        let is_ours = |found: &LogStretch| {
            (found.month, found.first) == (stretch.month, stretch.first)
                && (found.first..=stretch.last).contains(&found.last)
        };
        let other = || DataFileError::Exists {
            path: name.to_owned(),
        };
        let found = found.filter(is_ours).ok_or_else(other)?;
        file::sync(&path)?;
        found
    } else {
        file::write(ledger, &path, stretch, wanted)?;
        file::examine(ledger, &path, wanted)?
    };
    let (sha256, bytes) = file::digest(&path, wanted)?;
    Ok(LogArchive {
        stretch,
        file: name.to_owned(),
        bytes,
        sha256,
    })
}

/// Checks that the archive file exists and has the recorded digest.
fn check(
    ledger: &Path,
    folder: &Path,
    archive: &ArchiveRow,
    wanted: &ArchiveCancellation,
) -> Result<(), DataFileError> {
    let mut places = archive.places(ledger, Some(folder)).into_iter();
    let is_it = |path: PathBuf| {
        let digest = file::digest(&path, wanted);
        digest.is_ok_and(|(sha256, _)| sha256 == archive.sha256)
    };
    match places.any(is_it) {
        true => Ok(()),
        false => Err(DataFileError::damaged(format!(
            "the archive {} is not there as it was written: its entries stay in the file",
            archive.file
        ))),
    }
}
