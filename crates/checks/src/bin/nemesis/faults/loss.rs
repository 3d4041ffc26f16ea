//! Failovers that lose grants.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::{
    campaigns::Form,
    client::Request,
    faults::Scene,
    history::{Level, Wish},
    installation::{
        Installation, blocking,
        redis::{RedisSite, wait_for_failover},
    },
    plan::{Fault, NODES},
};

/// Concurrent claims of a burst.
const AT_A_TIME: usize = 32;
/// Time limit of a burst, longer than usual. Sentinels do not promote a replica that was away for 15 s.
const BURST_MAX: Duration = Duration::from_secs(5);
/// Units left over, so that nothing sells out.
const SPARE: u32 = 50;

/// Disconnects the replicas, makes more grants, and kills the primary for good. A replica continues without these
/// grants.
pub(super) async fn lose(scene: &Scene, fault: &Fault) -> Result<()> {
    let site = &scene.installation;
    let count = u32::try_from(fault.amount).unwrap_or(1);
    let form = Form::sale_of(count + SPARE, Level::Memory);
    let campaign = scene.campaigns.create(form).await?;
    // To lose exactly one entry, no other user may be granted a unit during the fault.
    let alone = match count {
        1 => Some(scene.nodes.pause().await),
        _ => None,
    };
    let (partition, primary) = home_of(site, &campaign.id).await?;
    let server = &site.redis.servers()[primary];
    let replicas = blocking(|| site.redis.replicas(primary))?;
    let replicas: Vec<_> = replicas.iter().map(|i| &site.redis.servers()[*i]).collect();
    for replica in &replicas {
        blocking(|| replica.pause())?;
    }
    let cut_off = server.call(&["CLIENT", "KILL", "TYPE", "replica"]);
    // Unanswered claims are not repeated: the burst must end while replicas can still be promoted.
    let burst = tokio::time::timeout(BURST_MAX, burst(scene, &campaign.id, count)).await;
    blocking(|| server.kill())?;
    for replica in &replicas {
        blocking(|| replica.resume())?;
    }
    drop(alone);
    cut_off.context("disconnect the replicas")?;
    if let Err(late) = burst {
        eprintln!("  the burst did not end in time, so fewer grants are lost: {late}");
    }
    wait_for_failover(&site.redis, partition, primary).await?;
    tokio::time::sleep(fault.hold).await;
    blocking(|| server.start_again())
}

/// A partition on the same server as a campaign, and that server.
async fn home_of(site: &Installation, campaign: &str) -> Result<(usize, usize)> {
    let pattern = format!("*:c:{campaign}");
    for partition in 0..crate::plan::PARTITIONS {
        let primary = site.redis.wait_for_primary(partition).await?;
        let keys = site.redis.servers()[primary].call(&["KEYS", &pattern])?;
        if !keys.array().is_empty() {
            return Ok((partition, primary));
        }
    }
    anyhow::bail!("no server has campaign {campaign}")
}

async fn burst(scene: &Scene, campaign: &str, count: u32) {
    let mut claims = JoinSet::new();
    for number in 0..count {
        if claims.len() >= AT_A_TIME {
            claims.join_next().await;
        }
        let user = scene.campaigns.fresh_name("burst");
        let wish = Wish::Claim {
            user: user.clone(),
            quantity: 1,
        };
        let operation = scene.nodes.history().begin(campaign, wish);
        let request = Request::claim(campaign, false, &user, 1);
        let nodes = scene.nodes.clone();
        scene.unfinished.add(operation, request.clone());
        claims.spawn(async move {
            let node = usize::try_from(number).unwrap_or_default() % NODES;
            nodes.attempt_alone(operation, node, &request).await
        });
    }
    while claims.join_next().await.is_some() {}
}

/// Disconnects the primary from Sentinels and replicas, but not from nodes, until another one is promoted.
pub(super) async fn isolate(site: &Installation, hold: Duration) -> Result<()> {
    let RedisSite::Sentinel { watch, .. } = &site.redis else {
        return Ok(());
    };
    let primary = site.redis.wait_for_primary(0).await?;
    watch[primary].half_open().await;
    let promoted = wait_for_failover(&site.redis, 0, primary).await;
    tokio::time::sleep(hold).await;
    watch[primary].pass().await;
    promoted.map(|_| ())
}
