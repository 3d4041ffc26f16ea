//! A primary that loses entries and has no room. The repair must work at `maxmemory`, and wait for a disk.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use qiang_testkit::servers::redis::{Reply, Server};

use super::storage::older_but;
use crate::{
    installation::{Installation, redis::info_number, wait_until},
    plan::Fault,
};

/// Memory limit as a percentage of the memory in use. It is low enough even with older data and lost partitions.
const FULL_PERCENT: u64 = 30;
/// Maximum time of a repair without free memory.
const REPAIR_MAX: Duration = Duration::from_secs(60);
/// Snapshot file of a server. A directory with that name blocks it.
const SNAPSHOT: &str = "dump.rdb";
/// Maximum time until a server notices that snapshots fail, or that they work again.
const SNAPSHOT_MAX: Duration = Duration::from_secs(20);

/// Starts the primary again on older data. Without free memory, the partition must still be repaired. Without disk
/// space no write is possible, not even a repair, so the repair follows the fault.
pub(super) async fn older_and_full(
    site: &Installation,
    partition: usize,
    fault: &Fault,
) -> Result<()> {
    match fault.amount {
        0 => without_memory(site, partition, fault.hold).await,
        _ => without_disk(site, partition, fault.hold).await,
    }
}

async fn without_memory(site: &Installation, partition: usize, hold: Duration) -> Result<()> {
    let limit = |server: &Server| {
        let used = info_number(server, "memory", "used_memory")?;
        let limit = (used * FULL_PERCENT / 100).to_string();
        server.call(&["CONFIG", "SET", "maxmemory", &limit])?;
        server.call(&["CONFIG", "REWRITE"])?;
        Ok(())
    };
    let state = site.redis.key(partition, "partition");
    let before = site.redis.wait_for_primary(partition).await?;
    let before = open_term(&site.redis.servers()[before], &state)?;
    let primary = older_but(site, partition, hold, limit).await?;
    let server = &site.redis.servers()[primary];
    let repaired = wait_until("a repair at maxmemory", REPAIR_MAX, || {
        let open = open_term(server, &state).ok().flatten();
        open.is_some() && open != before
    })
    .await;
    server.call(&["CONFIG", "SET", "maxmemory", "0"])?;
    server.call(&["CONFIG", "REWRITE"])?;
    repaired
}

async fn without_disk(site: &Installation, partition: usize, hold: Duration) -> Result<()> {
    let primary = older_but(site, partition, hold, |_| Ok(())).await?;
    let server = &site.redis.servers()[primary];
    let snapshot = server.resources().folder().join(SNAPSHOT);
    let status = |wanted: &str| {
        let found = server.info("persistence", "rdb_last_bgsave_status");
        found.is_some_and(|found| found.trim() == wanted)
    };
    let save = || {
        // The command is refused while another snapshot runs, which serves the same purpose.
        drop(server.call(&["BGSAVE"]));
    };
    // The file exists only if this server has saved before.
    drop(fs::remove_file(&snapshot));
    fs::create_dir(&snapshot).context("block the snapshot")?;
    server.call(&["CONFIG", "SET", "save", "3600 1"])?;
    let refused = wait_until("a snapshot that fails", SNAPSHOT_MAX, || {
        save();
        status("err")
    })
    .await;
    tokio::time::sleep(hold).await;
    fs::remove_dir_all(&snapshot).context("remove the directory that blocks the snapshot")?;
    let lifted = wait_until("a snapshot that succeeds", SNAPSHOT_MAX, || {
        save();
        status("ok")
    })
    .await;
    server.call(&["CONFIG", "SET", "save", ""])?;
    refused.and(lifted)
}

/// Identifies the term in which a partition grants; `None` while it does not grant.
fn open_term(server: &Server, state: &str) -> Result<Option<String>> {
    let fields = server.call(&["HMGET", state, "open", "halted"])?;
    match fields.array().iter().map(Reply::text).collect::<Vec<_>>()[..] {
        [open, None] => Ok(open.map(str::to_owned)),
        [_, Some(_)] => Ok(None),
        _ => bail!("{state} answers {fields:?}"),
    }
}
