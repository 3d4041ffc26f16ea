//! Servers that are set back in time, lose all data, run full, or lose their scripts.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use qiang_testkit::servers::{postgres, redis::Server};

use crate::{
    faults::Scene,
    installation::{Installation, blocking, redis::info_number, wait_until},
    plan::{Fault, PARTITIONS, Target},
};

/// Folder of Redis 7's append-only file.
const APPEND_ONLY: &str = "appendonlydir";
const REWRITE_MAX: Duration = Duration::from_secs(20);
/// Memory limit as a percentage of the memory in use.
const FULL_PERCENT: u64 = 90;

/// Starts the primary again on an older version of its append-only file. No replica is promoted in the meantime.
pub(super) async fn older(site: &Installation, partition: usize, hold: Duration) -> Result<()> {
    let nothing = |_: &Server| Ok(());
    older_but(site, partition, hold, nothing).await.map(|_| ())
}

/// The same; `before` acts on the server right before it dies. Returns the index of the server.
pub(super) async fn older_but(
    site: &Installation,
    partition: usize,
    hold: Duration,
    before: impl Fn(&Server) -> Result<()>,
) -> Result<usize> {
    let primary = site.redis.wait_for_primary(partition).await?;
    let server = &site.redis.servers()[primary];
    wait_until("the end of a rewrite", REWRITE_MAX, || {
        let ask = |field| info_number(server, "persistence", field).unwrap_or(1);
        ask("aof_rewrite_in_progress") == 0 && ask("aof_rewrite_scheduled") == 0
    })
    .await?;
    let data = server.resources().folder().join(APPEND_ONLY);
    let copy = tempfile::tempdir()?;
    copy_files(&data, copy.path())?;
    tokio::time::sleep(hold).await;
    let replicas = blocking(|| site.redis.replicas(primary))?;
    let replicas = replicas.iter().map(|index| &site.redis.servers()[*index]);
    let judges: Vec<_> = site.redis.sentinels().iter().chain(replicas).collect();
    for judge in &judges {
        blocking(|| judge.pause())?;
    }
    let restarted = before(server).and_then(|()| {
        blocking(|| server.kill())?;
        fs::remove_dir_all(&data)?;
        fs::create_dir(&data)?;
        copy_files(copy.path(), &data)?;
        blocking(|| server.start_again())
    });
    for judge in &judges {
        blocking(|| judge.resume())?;
    }
    restarted.map(|()| primary)
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Empties one primary, or all, as by `FLUSHALL`, a lost disk or a missing append-only file.
pub(super) async fn empty(scene: &Scene, target: Target, fault: &Fault) -> Result<()> {
    let redis = &scene.installation.redis;
    let partitions = match target {
        Target::Primary(partition) => partition..partition + 1,
        _ => 0..PARTITIONS,
    };
    let without_load = match fault.amount {
        0 => Some(scene.nodes.pause().await),
        _ => None,
    };
    for _ in 0..fault.amount.max(1) {
        let mut primaries = BTreeSet::new();
        for partition in partitions.clone() {
            primaries.insert(redis.wait_for_primary(partition).await?);
        }
        for primary in primaries {
            redis.servers()[primary].call(&["FLUSHALL"])?;
        }
        tokio::time::sleep(fault.hold).await;
    }
    drop(without_load);
    Ok(())
}

/// Restores the ledger from an older dump. During this, nothing is created that only the ledger has.
pub(super) async fn restore(scene: &Scene, hold: Duration) -> Result<()> {
    let _nothing_created = scene.campaigns.creation.write().await;
    let site = &scene.installation;
    let server = site
        .ledger
        .postgres()
        .context("the ledger is not on PostgreSQL")?;
    let now = &site.ledger.database;
    let restored = format!("{now}_restored");
    let folder = tempfile::tempdir()?;
    let dump = folder.path().join("dump");
    blocking(|| postgres::dump(&server.url_of(now), &dump))?;
    tokio::time::sleep(hold).await;
    blocking(|| {
        server.sql(&format!("CREATE DATABASE {restored}"));
        postgres::restore(&server.url_of(&restored), &dump);
        server.sql(&format!("DROP DATABASE {now} WITH (FORCE)"));
        server.sql(&format!("ALTER DATABASE {restored} RENAME TO {now}"));
    })
}

/// Gives a server less memory than it uses, then removes the limit.
pub(super) async fn fill_memory(
    site: &Installation,
    partition: usize,
    hold: Duration,
) -> Result<()> {
    let primary = site.redis.wait_for_primary(partition).await?;
    let server = &site.redis.servers()[primary];
    let used = info_number(server, "memory", "used_memory")?;
    let limit = (used * FULL_PERCENT / 100).to_string();
    server.call(&["CONFIG", "SET", "maxmemory", &limit])?;
    tokio::time::sleep(hold).await;
    let lifted = server.call(&["CONFIG", "SET", "maxmemory", "0"]);
    lifted.context("remove maxmemory").map(|_| ())
}

/// Makes every server drop its scripts.
pub(super) fn flush_scripts(site: &Installation) -> Result<()> {
    for server in site.redis.servers() {
        server.call(&["SCRIPT", "FLUSH"])?;
    }
    Ok(())
}
