//! Cost of red packets after their end, once their log is archived.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use anyhow::{bail, ensure};
use qiang_core::{
    book::{Command, Reply},
    event::PartitionId,
    ports::{ArchiveLog as _, Clock, Engine as _, SettlementStore as _},
    time::{Month, Timestamp},
};
use qiang_embedded::{Embedded, SystemClock, copies};
use serde::Serialize;

use super::SETTLE_MAX;

/// Maximum entries of one tick.
const EVENTS_MAX: usize = 10_000;
/// Longer than the windows of the red packets, and longer than a month.
const LATER_MS: i64 = 40 * 86_400_000;

#[derive(Debug, Serialize)]
pub(super) struct Archived {
    entries: u64,
    /// Time from the start of the first archive until all entries have left the log.
    seconds: f64,
    /// Size of the archives in bytes, per red packet.
    archive_bytes_per_packet: f64,
    /// Size of the file in bytes without free pages, per red packet: with the log, and without archived entries.
    file_bytes_per_packet: (f64, f64),
}

impl Archived {
    pub(super) fn print(&self) {
        let (before, after) = self.file_bytes_per_packet;
        println!(
            "after the end: {before:.0} bytes per packet in the file, {after:.0} with {:.0} in archives; \
             archived {} entries in {:.2} s",
            self.archive_bytes_per_packet, self.entries, self.seconds
        );
    }
}

/// Clock that is ahead of the system's.
struct Ahead(AtomicI64);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock
            .now()
            .plus_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Ends the windows of all red packets, and archives all months.
pub(super) async fn measure(folder: &Path, packets: u32) -> anyhow::Result<Archived> {
    let (file, clock) = (
        super::file(folder),
        Arc::new(Ahead(AtomicI64::new(LATER_MS))),
    );
    let (by, path) = (Arc::clone(&clock), file.clone());
    let open = tokio::task::spawn_blocking(move || Embedded::open(&path, by));
    let embedded = open.await??;
    let events_max = EVENTS_MAX;
    loop {
        match embedded.submit(Command::Tick { events_max }).await? {
            Reply::Ticked { more: true } => {}
            Reply::Ticked { more: false } => break,
            reply => bail!("unexpected reply to a tick: {reply:?}"),
        }
    }
    let (head, _) = embedded.positions();
    let settled = embedded.await_settled(PartitionId(0), head, SETTLE_MAX);
    ensure!(settled.await?, "settlement exceeded its time limit");
    let before = size(folder, "before.db").await?;
    clock.0.store(2 * LATER_MS, Ordering::Relaxed);
    let archives = folder.join("archives");
    std::fs::create_dir(&archives)?;
    let (log, month) = (
        embedded.archives_in(archives),
        Month::containing(clock.now()),
    );
    let (started, mut entries, mut bytes) = (Instant::now(), 0, 0);
    while let Some(archive) = log.archive_next(month).await? {
        entries += archive.stretch.entries();
        bytes += archive.bytes;
    }
    let seconds = started.elapsed().as_secs_f64();
    let after = size(folder, "after.db").await?;
    tokio::task::spawn_blocking(move || embedded.close()).await?;
    let per_packet = |bytes: u64| bytes as f64 / f64::from(packets);
    Ok(Archived {
        entries,
        seconds,
        archive_bytes_per_packet: per_packet(bytes),
        file_bytes_per_packet: (per_packet(before), per_packet(after)),
    })
}

/// Size of a backup, which has no free pages.
async fn size(folder: &Path, name: &str) -> anyhow::Result<u64> {
    let (file, copy) = (super::file(folder), folder.join(name));
    let copied = tokio::task::spawn_blocking(move || {
        let copied = copies::back_up(&file, &copy)?;
        std::fs::remove_file(&copy)?;
        anyhow::Ok(copied.bytes)
    });
    copied.await?
}
