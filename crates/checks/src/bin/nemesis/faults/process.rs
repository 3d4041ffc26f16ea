//! Processes that are killed or halted.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qiang_testkit::servers::ServerProcess;

use crate::{
    installation::{Installation, blocking, redis::RedisSite},
    plan::{NODES, Target},
};

/// Kills the target with SIGKILL and starts it again.
pub(crate) async fn kill(site: &Installation, target: Target, hold: Duration) -> Result<()> {
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
    if let (Target::Sentinel(index), RedisSite::Sentinel { set, .. }) = (target, &site.redis) {
        blocking(|| set.make_quick(index))?;
    }
    Ok(())
}

/// Halts the target and all its descendants with SIGSTOP, and continues them.
pub(crate) async fn stop(site: &Installation, target: Target, hold: Duration) -> Result<()> {
    let processes = processes(site, target).await?;
    for process in &processes {
        blocking(|| process.pause_all())?;
    }
    tokio::time::sleep(hold).await;
    for process in &processes {
        blocking(|| process.resume_all())?;
    }
    Ok(())
}

async fn processes(site: &Installation, target: Target) -> Result<Vec<&ServerProcess>> {
    let servers = site.redis.servers();
    let sentinels = site.redis.sentinels();
    Ok(match target {
        Target::Node(index) => vec![&site.programs[index].process],
        Target::Worker => vec![&site.programs[NODES].process],
        Target::Ledger => vec![site.ledger.process()],
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
            bail!("{} is not a process", target.name())
        }
    })
}

pub(super) async fn replicas(site: &Installation, partition: usize) -> Result<Vec<usize>> {
    let primary = site.redis.wait_for_primary(partition).await?;
    blocking(|| site.redis.replicas(primary))
}
