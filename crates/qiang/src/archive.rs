//! The months of an embedded engine's log, archived by hand.

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
    close::Close,
    config::{Config, EngineKind},
};

/// How long the engine may take to settle what is in its log.
const SETTLED_MAX: Duration = Duration::from_secs(300);
const DAY_MS: i64 = 86_400_000;

/// What archiving by hand came to.
#[derive(Debug, Default)]
pub struct ArchiveReport {
    /// Archives that were made.
    pub archived: Vec<LogArchive>,
    /// Months that may be archived and are not.
    pub left: Vec<LogStretch>,
}

/// Archives the months of the configured file that are over and before `before`, or with `dry` says which these are.
/// Nobody may serve the file.
///
/// # Errors
/// When the file cannot be opened, no folder is configured, or an archive cannot be made.
pub async fn archive(
    config: &Config,
    before: Option<Month>,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    if config.engine.kind == EngineKind::Redis {
        return Err(on_redis().into());
    }
    let embedded = backend::open_existing(config, Arc::new(SystemClock)).await?;
    let before = before.unwrap_or_else(|| Month::of(SystemClock.now()));
    let report = archive_before(config, &embedded, before, dry).await;
    let closed = Close::close(&embedded).await;
    let report = report?;
    closed.map(|()| report)
}

/// Archives the months that have been over for as long as is configured.
pub(crate) async fn archive_due(
    config: &Config,
    embedded: &Embedded,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    let after_ms = i64::from(config.engine.archive_after_days) * DAY_MS;
    let before = Month::of(SystemClock.now().plus_millis(-after_ms));
    archive_before(config, embedded, before, dry).await
}

/// There is no such thing there.
pub(crate) fn on_redis() -> UsageError {
    UsageError::new(
        "archives are of the embedded engine's log; logs on Redis are trimmed by `redis.retain_ms`",
    )
}

async fn archive_before(
    config: &Config,
    embedded: &Embedded,
    before: Month,
    dry: bool,
) -> anyhow::Result<ArchiveReport> {
    // It settles by itself.
    for partition in EventLog::partitions(embedded) {
        let (head, _) = embedded.positions();
        let settled = embedded.await_settled(partition, head, SETTLED_MAX);
        ensure!(settled.await?, "the file is not settled in time");
    }
    let mut report = ArchiveReport::default();
    if dry {
        let log = embedded.archives_in(config.engine.archive_dir.clone());
        report.left = log.archivable(before).await?;
        return Ok(report);
    }
    let log = backend::archives(config, embedded).ok_or_else(|| {
        UsageError::new("say which folder archives go to: --to, or `engine.archive_dir`")
    })?;
    while let Some(archive) = log.archive_next(before).await? {
        report.archived.push(archive);
    }
    Ok(report)
}
