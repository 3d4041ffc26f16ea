//! A primary that loses entries and has no room: the repair has to work at `maxmemory`, and to wait for a disk.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use qiang_testkit::servers::redis::{Reply, Server};

use super::storage::older_but;
use crate::{
    installation::{Installation, redis::info_number, wait_until},
    plan::Fault,
};

/// Memory ends at this part of what is used: also older data, and that of other partitions gone, is more.
const FULL_PERCENT: u64 = 30;
/// How long a repair may take while there is no memory.
const REPAIR_MAX: Duration = Duration::from_secs(60);
/// Where a server writes its snapshot. A directory of that name is in its way.
const SNAPSHOT: &str = "dump.rdb";
/// How long a server may take to find that it cannot write a snapshot, or can again.
const SNAPSHOT_MAX: Duration = Duration::from_secs(20);

/// Starts the primary again on older data. Without memory, the partition has to be repaired all the same. Without
/// disk nothing can be written, not even a repair: that comes after the fault.
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
        // Refused while another one is under way, which tells as much.
        drop(server.call(&["BGSAVE"]));
    };
    // There is none unless this server has saved before.
    drop(fs::remove_file(&snapshot));
    fs::create_dir(&snapshot).context("block the snapshot")?;
    server.call(&["CONFIG", "SET", "save", "3600 1"])?;
    let refused = wait_until("a snapshot that fails", SNAPSHOT_MAX, || {
        save();
        status("err")
    })
    .await;
    tokio::time::sleep(hold).await;
    fs::remove_dir_all(&snapshot).context("clear the snapshot's place")?;
    let lifted = wait_until("a snapshot that succeeds", SNAPSHOT_MAX, || {
        save();
        status("ok")
    })
    .await;
    server.call(&["CONFIG", "SET", "save", ""])?;
    refused.and(lifted)
}

/// What names the term in which a partition grants; none while it does not.
fn open_term(server: &Server, state: &str) -> Result<Option<String>> {
    let fields = server.call(&["HMGET", state, "open", "halted"])?;
    match fields.array().iter().map(Reply::text).collect::<Vec<_>>()[..] {
        [open, None] => Ok(open.map(str::to_owned)),
        [_, Some(_)] => Ok(None),
        _ => bail!("{state} answers {fields:?}"),
    }
}
