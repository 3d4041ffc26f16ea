//! Migration of a Cluster's slot to another primary under load.

use std::time::Duration;

use anyhow::{Context as _, Result};
use qiang_testkit::servers::redis::{Reply, Server, View};

use crate::installation::{Installation, blocking, redis::slot_of};

/// Keys moved per command.
const KEYS_AT_ONCE: &str = "20";
/// Time limit of one command inside the servers.
const MIGRATE_MS: &str = "800";
/// Maximum commands, including retries for busy or new keys.
const ROUNDS_MAX: usize = 2_000;

/// Moves the slot of a partition to the next primary, a few keys at a time. It stays there.
pub(super) async fn migrate(site: &Installation, partition: usize, hold: Duration) -> Result<()> {
    let servers = site.redis.servers();
    let slot = slot_of(partition);
    let from = site.redis.wait_for_primary(partition).await?;
    let to = next_primary(servers, from).context("there is no other primary")?;
    let id = |index: usize| {
        let me = View::of_itself(&servers[index]).map(|me| me.id);
        me.with_context(|| format!("node {index} does not answer"))
    };
    let (from_id, to_id) = (id(from)?, id(to)?);
    let number = slot.to_string();
    let set = |node: &Server, words: &[&str]| -> Result<()> {
        let command = [&["CLUSTER", "SETSLOT", &number][..], words].concat();
        node.call(&command)
            .map(|_| ())
            .with_context(|| command.join(" "))
    };
    let (from, to) = (&servers[from], &servers[to]);
    set(to, &["IMPORTING", &from_id])?;
    set(from, &["MIGRATING", &to_id])?;
    // Half of the keys are on the other node for a while.
    let moved = move_keys(from, to, &number, hold / 2).await;
    if moved.is_err() {
        for node in [from, to] {
            set(node, &["STABLE"])?;
        }
        return moved;
    }
    for node in [to, from] {
        set(node, &["NODE", &to_id])?;
    }
    // Other nodes learn of it anyway; replicas refuse the command.
    for node in servers {
        let _ = set(node, &["NODE", &to_id]);
    }
    Ok(())
}

fn next_primary(servers: &[Server], from: usize) -> Option<usize> {
    let others = (1..servers.len()).map(|step| (from + step) % servers.len());
    let mut others = others;
    others.find(|index| {
        blocking(|| View::of_itself(&servers[*index]))
            .ok()
            .flatten()
            .is_some_and(|me| me.primary)
    })
}

async fn move_keys(from: &Server, to: &Server, slot: &str, pause: Duration) -> Result<()> {
    let port = to.addr().port().to_string();
    for round in 0..ROUNDS_MAX {
        let keys = from.call(&["CLUSTER", "GETKEYSINSLOT", slot, KEYS_AT_ONCE])?;
        let keys: Vec<&str> = keys.array().iter().filter_map(Reply::text).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let target = ["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_MS, "KEYS"];
        let migrated = from.call(&[&target[..], &keys].concat());
        if let Err(error) = migrated
            && round + 1 == ROUNDS_MAX
        {
            return Err(error).context("MIGRATE");
        }
        if round == 0 {
            tokio::time::sleep(pause).await;
        }
    }
    anyhow::bail!("slot {slot} still has keys")
}
