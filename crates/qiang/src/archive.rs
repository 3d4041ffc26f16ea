//! Archives of an embedded engine's log, one per month, from the command line.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use qiang_api::UsageError;
use qiang_core::ports::{ArchiveLog as _, Clock, EventLog, SettlementStore as _};
pub use qiang_core::{
    ports::{LogArchive, LogStretch},
    time::Month,
};
use qiang_embedded::{Embedded, SystemClock};

use crate::{
    backend,
    close_component::CloseComponent,
    config::{EngineKind, NodeConfig},
};

/// Maximum time for the engine to settle its log.
const SETTLED_MAX: Duration = Duration::from_secs(300);
const DAY_MS: i64 = 86_400_000;

/// Result of archiving.
#[derive(Debug, Default)]
pub struct ArchiveReport {
    /// Archives that were made.
    pub archived: Vec<LogArchive>,
    /// Months that may be archived, and are not archived yet.
    pub left: Vec<LogStretch>,
}

/// Archives the months of the configured file that are over and before `before`. With `dry`, only lists them. No
/// process may serve the file.
///
/// # Errors
/// If the file cannot be opened, no folder is configured, or an archive cannot be made.
pub async fn archive(
    config: &NodeConfig,
    before: Option<Month>,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    if config.engine.kind == EngineKind::Redis {
        return Err(on_redis().into());
    }
    let embedded = backend::open_existing(config, Arc::new(SystemClock)).await?;
    let before = before.unwrap_or_else(|| Month::containing(SystemClock.now()));
    let report = archive_before(config, &embedded, before, dry).await;
    let closed = CloseComponent::close(&embedded).await;
    let report = report?;
    closed.map(|()| report)
}

/// Archives the months that ended at least `engine.archive_after_days` ago.
pub(crate) async fn archive_due(
    config: &NodeConfig,
    embedded: &Embedded,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    let after_ms = i64::from(config.engine.archive_after_days) * DAY_MS;
    let before = Month::containing(SystemClock.now().plus_millis(-after_ms));
    archive_before(config, embedded, before, dry).await
}

/// Error of an archive command for the engine on Redis.
pub(crate) fn on_redis() -> UsageError {
    UsageError::new(
        "only the embedded engine archives its log; `redis.retain_ms` trims logs on Redis",
    )
}

async fn archive_before(
    config: &NodeConfig,
    embedded: &Embedded,
    before: Month,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    // The embedded engine settles its own log.
    for partition in EventLog::partitions(embedded) {
        let (head, _) = embedded.positions();
        let settled = embedded.await_settled(partition, head, SETTLED_MAX);
        ensure!(
            settled.await?,
            "the file is not settled within {SETTLED_MAX:?}"
        );
    }
    let mut report = ArchiveReport::default();
    if dry {
        let log = embedded.archives_in(config.engine.archive_dir.clone());
        report.left = log.archivable(before).await?;
        return Ok(report);
    }
    let log = backend::archives(config, embedded).ok_or_else(|| {
        UsageError::new("name the folder for archives: --to, or `engine.archive_dir`")
    })?;
    while let Some(archive) = log.archive_next(before).await? {
        report.archived.push(archive);
    }
    Ok(report)
}
