//! Probe of availability: new campaigns over all partitions, claimed through both nodes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use tokio::task::JoinSet;

use crate::{
    campaigns::{Campaigns, Form},
    client::{Nodes, Request},
    history::{Answer, Level, Wish},
};

/// Users of a probe, spread over the partitions. One of four partitions gets none in one of 2,000 probes.
const USERS: usize = 32;
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Waits until campaigns can be created and every user of a new one is granted, on both nodes. It checks the level that
/// needs replicas and the level that needs the ledger.
///
/// # Errors
/// If that takes longer than `max`. The error contains the last refusal.
pub(crate) async fn available(
    campaigns: &Arc<Campaigns>,
    nodes: &Nodes,
    max: Duration,
) -> Result<Duration> {
    let since = Instant::now();
    let both = async {
        let probe = |level| grant_all(Arc::clone(campaigns), nodes.clone(), level, since + max);
        tokio::try_join!(probe(Level::Replica), probe(Level::Ledger))
    };
    match tokio::time::timeout(max, both).await {
        Ok(done) => done.map(|_| since.elapsed()),
        Err(_) => bail!("no campaign could be created within {} s", max.as_secs()),
    }
}

async fn grant_all(
    campaigns: Arc<Campaigns>,
    nodes: Nodes,
    level: Level,
    until: Instant,
) -> Result<()> {
    let campaign = campaigns.create(Form::probe(level)).await?;
    let mut users = JoinSet::new();
    for number in 0..USERS {
        let user = campaigns.fresh_name("probe");
        let (nodes, campaign) = (nodes.clone(), campaign.id.clone());
        users.spawn(async move {
            let wish = Wish::Claim {
                user: user.clone(),
                quantity: 1,
            };
            let operation = nodes.history().begin(&campaign, wish);
            let request = Request::claim(&campaign, false, &user, 1);
            loop {
                // Every user stays with one node, because each node must recover.
                let last = nodes.attempt(operation, number, &request).await;
                match last {
                    Answer::Granted { .. } => return Ok(()),
                    _ if Instant::now() + AGAIN_AFTER * 4 > until => {
                        let node = number % crate::plan::NODES;
                        bail!("a claim at level {level} of {user} at node {node}: {last:?}");
                    }
                    _ => tokio::time::sleep(AGAIN_AFTER).await,
                }
            }
        });
    }
    while let Some(done) = users.join_next().await {
        done.context("a probe")??;
    }
    Ok(())
}
