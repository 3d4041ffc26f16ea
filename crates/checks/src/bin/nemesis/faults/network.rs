//! Links that fail in both directions or in one.

use std::time::Duration;

use anyhow::Result;
use qiang_testkit::proxy::FaultProxy;

use crate::{
    faults::process::replicas,
    installation::{Installation, redis::RedisSite},
    plan::Target,
};

/// Blocks both directions. Every other time it also refuses new connections and resets old ones, so that both sides
/// notice at once.
pub(super) async fn cut(site: &Installation, target: Target, hold: Duration) -> Result<()> {
    let links = links(site, target).await?;
    let refuses = hold.as_millis() % 2 == 1;
    for link in &links {
        if refuses {
            link.refuse().await;
            link.cut().await;
        } else {
            link.half_open().await;
        }
    }
    tokio::time::sleep(hold).await;
    heal(&links).await;
    Ok(())
}

/// Forwards requests and swallows answers.
pub(super) async fn drop_answers(
    site: &Installation,
    target: Target,
    hold: Duration,
) -> Result<()> {
    let links = links(site, target).await?;
    for link in &links {
        link.drop_responses().await;
    }
    tokio::time::sleep(hold).await;
    heal(&links).await;
    Ok(())
}

async fn heal(links: &[&FaultProxy]) {
    for link in links {
        link.pass().await;
    }
}

async fn links(site: &Installation, target: Target) -> Result<Vec<&FaultProxy>> {
    let programs = || site.programs.iter();
    Ok(match target {
        Target::Node(index) => vec![&site.programs[index].http],
        Target::Ledger => programs().map(|program| &program.ledger).collect(),
        Target::LedgerLink(index) => vec![&site.programs[index].ledger],
        Target::RedisLink(index) => site.programs[index].redis_links().collect(),
        Target::Rabbit => programs().filter_map(|p| p.rabbit.as_ref()).collect(),
        Target::Sentinel(index) => programs().map(|p| &p.sentinels[index]).collect(),
        Target::Sentinels => programs().flat_map(|p| &p.sentinels).collect(),
        Target::Primary(partition) => {
            let primary = site.redis.wait_for_primary(partition).await?;
            to_server(site, primary)
        }
        Target::Replica(partition) => {
            let replicas = replicas(site, partition).await?;
            let first = replicas.iter().take(1);
            first.flat_map(|index| to_server(site, *index)).collect()
        }
        Target::Replicas(partition) => {
            let replicas = replicas(site, partition).await?;
            let all = replicas.iter();
            all.flat_map(|index| to_server(site, *index)).collect()
        }
        Target::Worker | Target::Everything => Vec::new(),
    })
}

/// All links to a server: of programs, replicas and Sentinels.
fn to_server(site: &Installation, index: usize) -> Vec<&FaultProxy> {
    let mut links = vec![&site.redis.proxies()[index]];
    if let RedisSite::Sentinel { .. } = site.redis {
        links.extend(site.programs.iter().map(|program| &program.servers[index]));
    }
    links
}
