//! Old entries of the log leave for archives, a file a month, while the engine serves.
//!
//! The ledger's tables have everything up to the settled position, so nobody needs the entries before it but the audit,
//! and campaigns of which the ledger refused something. An archive is written, held against the log, and on the disk
//! under its name before the table `archives` says that it is there; only then do entries leave, and only if the file
//! still has the digest that the table has. Each step may be repeated, and the next call goes on behind a crash.

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

use self::{file::Wanted, rows::Recorded};
use crate::{
    Embedded,
    error::StoreError,
    job::JobContext,
    ledger_host::{SqliteLedgerHost as _, job},
    reader::query,
};

/// Where claims came during a removal that took `t`, the next one waits for at least so many `t`: the writer has one
/// hundredth of its time for it.
const CLAIMS_PER_REMOVAL: u32 = 99;

/// An embedded engine whose log is archived in a folder.
#[derive(Clone)]
pub struct LogArchives {
    embedded: Embedded,
    folder: Arc<Path>,
}

impl Embedded {
    /// Its log, to be archived in this folder, which has to be there.
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
        let work = move |wanted: &Wanted| write(&ledger, &folder, stretch, wanted);
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

    /// Works on a thread where blocking is allowed, for as long as somebody waits for this.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Wanted) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        struct Waits(Wanted);
        impl Drop for Waits {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let waits = Waits(Wanted::new());
        let wanted = waits.0.clone();
        query(self.embedded.readers(), move |_| work(&wanted)).await
    }

    /// Has everything leave that is archived.
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

    /// Has entries of an archive leave, a bounded number at a time.
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

/// Writes an archive, or takes the one that an attempt before this one has left.
fn write(
    ledger: &Path,
    folder: &Path,
    stretch: LogStretch,
    wanted: &Wanted,
) -> Result<LogArchive, StoreError> {
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
        let other = || StoreError::Exists {
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

/// Refuses an archive that is not the one that was written.
fn check(
    ledger: &Path,
    folder: &Path,
    archive: &Recorded,
    wanted: &Wanted,
) -> Result<(), StoreError> {
    let mut places = archive.places(ledger, Some(folder)).into_iter();
    let is_it = |path: PathBuf| {
        let digest = file::digest(&path, wanted);
        digest.is_ok_and(|(sha256, _)| sha256 == archive.sha256)
    };
    match places.any(is_it) {
        true => Ok(()),
        false => Err(StoreError::damaged(format!(
            "the archive {} is not there as it was written: its entries stay in the file",
            archive.file
        ))),
    }
}
