//! Visitors: users who click at a fixed rate through `qiang-client`, as an integrator's program does.
//!
//! The client retries their claims under the same key. To measure the service, use
//! [`crate::load::load_generator`] instead: otherwise the retries become part of the measurement.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::{CampaignId, ClaimResult, Client, Error, IdempotencyKey, NewClaim, NewOrder};
use bytes::Bytes;
use hyper::StatusCode;
use serde::Serialize;

use crate::load::load_generator::{LoadResults, SeenGrant, due_at};

/// Target of the visitors' clicks.
#[derive(Debug, Clone)]
pub enum Goal {
    /// A share of a red packet.
    Share(CampaignId),
    /// One unit of a sale.
    Unit(CampaignId),
}

/// Plan of visits.
pub struct VisitPlan {
    /// Client with its limits. Each visitor has a separate token.
    pub client: Client,
    /// Target of the clicks.
    pub goal: Goal,
    /// The visitors' tokens.
    pub tokens: Arc<Vec<String>>,
    /// Index of the visitor of each click, in order. All clicks of a visitor have one key, as those of a page have.
    pub clicks: Arc<Vec<u32>>,
    /// Number of concurrent clicks.
    pub at_once: usize,
    /// Rate of clicks. Latency counts from the due time of a click.
    pub per_second: f64,
}

/// Runs the visits. Calls `progress` after each answer.
///
/// # Errors
/// If a token is invalid.
pub async fn run(
    plan: VisitPlan,
    progress: impl Fn() + Send + Sync + 'static,
) -> anyhow::Result<LoadResults> {
    let has_some = plan.tokens.iter().map(|_| AtomicBool::new(false));
    let crowd = Arc::new(VisitorCrowd {
        has_some: has_some.collect(),
        next: AtomicUsize::new(0),
        started: Instant::now(),
        plan,
    });
    let progress = Arc::new(progress);
    let tasks: Vec<_> = (0..crowd.plan.at_once)
        .map(|_| {
            let (crowd, progress) = (Arc::clone(&crowd), Arc::clone(&progress));
            tokio::spawn(async move { crowd.visit(&*progress).await })
        })
        .collect();
    let mut results = LoadResults::new()?;
    for task in tasks {
        results.add(task.await??)?;
    }
    results.seconds = crowd.started.elapsed().as_secs_f64();
    Ok(results)
}

struct VisitorCrowd {
    plan: VisitPlan,
    /// Whether each visitor has a grant.
    has_some: Vec<AtomicBool>,
    next: AtomicUsize,
    started: Instant,
}

impl VisitorCrowd {
    /// Runs clicks one after another, until none is left.
    async fn visit(&self, progress: &(dyn Fn() + Send + Sync)) -> anyhow::Result<LoadResults> {
        let plan = &self.plan;
        let mut results = LoadResults::new()?;
        loop {
            let click = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(user) = plan.clicks.get(click).copied() else {
                return Ok(results);
            };
            let due = due_at(self.started, click, plan.per_second).await;
            results.requests += 1;
            let answer = plan.click(user).await;
            let latency_us = due.elapsed().as_micros() as u64;
            let status = match answer {
                Ok(ClaimResult::Granted(grant)) => {
                    let seen = self.see(user, grant);
                    let status = seen.status;
                    results.seen.push(seen);
                    Some(status.as_u16())
                }
                Ok(ClaimResult::Waiting(_)) => Some(StatusCode::ACCEPTED.as_u16()),
                Err(Error::Problem(problem)) => Some(problem.status),
                Err(error @ Error::Usage(_)) => return Err(error.into()),
                Err(_) => None,
            };
            match status {
                Some(status) => {
                    *results.statuses.entry(status).or_default() += 1;
                    results.latency_us.saturating_record(latency_us);
                }
                None => results.errors += 1,
            }
            progress();
        }
    }

    /// Converts a grant for the check. The client does not distinguish a grant from its replay: a further grant of a
    /// visitor counts as a replay.
    fn see(&self, user: u32, grant: Bytes) -> SeenGrant {
        let had_some = self.has_some[user as usize].swap(true, Ordering::Relaxed);
        let status = match had_some {
            true => StatusCode::OK,
            false => StatusCode::CREATED,
        };
        SeenGrant {
            user,
            status,
            body: grant,
        }
    }
}

impl VisitPlan {
    /// Claims as this visitor. A grant is answered as JSON.
    async fn click(&self, user: u32) -> Result<ClaimResult<Bytes>, Error> {
        let (Goal::Share(campaign) | Goal::Unit(campaign)) = &self.goal;
        let key = format!("visit-{campaign}").parse::<IdempotencyKey>();
        let key = key.map_err(|error| Error::Usage(error.to_string()))?;
        let client = self.client.with_token(&self.tokens[user as usize])?;
        let client = client.with_key(key);
        match &self.goal {
            Goal::Share(packet) => {
                let claim = NewClaim::with_defaults();
                as_json(client.claim_share(packet, &claim).await?)
            }
            Goal::Unit(sale) => as_json(client.order(sale, &NewOrder::units(1)).await?),
        }
    }
}

fn as_json(result: ClaimResult<impl Serialize>) -> Result<ClaimResult<Bytes>, Error> {
    Ok(match result {
        ClaimResult::Granted(grant) => {
            let json = serde_json::to_vec(&grant);
            let json = json.map_err(|error| Error::Answer(error.to_string()))?;
            ClaimResult::Granted(json.into())
        }
        ClaimResult::Waiting(place) => ClaimResult::Waiting(place),
    })
}
