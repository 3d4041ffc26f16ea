//! Processes that die, and processes that halt.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail};
use qiang_testkit::servers::ServerProcess;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    installation::{Installation, blocking},
    plan::{NODES, Target},
};

/// What makes a Sentinel as quick as the others again; it does not keep this over a restart.
const SENTINEL_PERIODS: [&str; 8] = [
    "SENTINEL",
    "DEBUG",
    "PUBLISH-PERIOD",
    "100",
    "INFO-PERIOD",
    "1000",
    "ASK-PERIOD",
    "100",
];

/// Ends it with SIGKILL, and starts it again.
pub(super) async fn kill(site: &Installation, target: Target, hold: Duration) -> Result<()> {
    if target == Target::Rabbit {
        let rabbit = site.rabbit.as_ref().context("RabbitMQ does not run")?;
        blocking(|| rabbit.kill())?;
        tokio::time::sleep(hold).await;
        return blocking(|| rabbit.start_again());
    }
    for process in processes(site, target).await? {
        blocking(|| process.kill())?;
        tokio::time::sleep(hold).await;
        blocking(|| process.start_again())?;
    }
    if let Target::Sentinel(index) = target {
        site.redis.sentinels()[index].call(&SENTINEL_PERIODS)?;
    }
    Ok(())
}

/// Halts it with SIGSTOP, with all that it has started, and lets it go on.
pub(super) async fn stop(site: &Installation, target: Target, hold: Duration) -> Result<()> {
    let processes = processes(site, target).await?;
    let families: Vec<Vec<Pid>> = processes.iter().map(|p| family(p.pid())).collect();
    let all = || families.iter().flatten();
    for pid in all() {
        // What has ended by itself meanwhile need not be halted.
        let _ = kill_process(*pid, Signal::STOP);
    }
    tokio::time::sleep(hold).await;
    for pid in all() {
        let _ = kill_process(*pid, Signal::CONT);
    }
    Ok(())
}

async fn processes(site: &Installation, target: Target) -> Result<Vec<&ServerProcess>> {
    let servers = site.redis.servers();
    let sentinels = site.redis.sentinels();
    Ok(match target {
        Target::Node(index) => vec![&site.programs[index].process],
        Target::Worker => vec![&site.programs[NODES].process],
        Target::Ledger => vec![&*site.postgres],
        Target::Rabbit => vec![&**site.rabbit.as_ref().context("RabbitMQ does not run")?],
        Target::Primary(partition) => {
            let primary = site.redis.wait_for_primary(partition).await?;
            vec![&*servers[primary]]
        }
        Target::Replica(partition) => {
            let replicas = replicas(site, partition).await?;
            let first = replicas.first().context("the primary has no replica")?;
            vec![&*servers[*first]]
        }
        Target::Replicas(partition) => {
            let replicas = replicas(site, partition).await?;
            replicas.iter().map(|index| &*servers[*index]).collect()
        }
        Target::Sentinel(index) => vec![&*sentinels[index]],
        Target::Sentinels => sentinels.iter().map(|sentinel| &**sentinel).collect(),
        Target::RedisLink(_) | Target::LedgerLink(_) | Target::Everything => {
            bail!("{} is no process", target.name())
        }
    })
}

pub(super) async fn replicas(site: &Installation, partition: usize) -> Result<Vec<usize>> {
    let primary = site.redis.wait_for_primary(partition).await?;
    blocking(|| site.redis.replicas(primary))
}

/// A process and all that it has started.
fn family(pid: u32) -> Vec<Pid> {
    let mut pids = vec![pid];
    let mut next = 0;
    while let Some(pid) = pids.get(next) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        pids.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        next += 1;
    }
    let raw = |pid: u32| Pid::from_raw(i32::try_from(pid).ok()?);
    pids.into_iter().filter_map(raw).collect()
}
