//! One installation from its start to the verdict: faults under load, final requests, final rows, checks.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::{
    campaigns::Campaigns,
    check::{self, Breach},
    client::{Nodes, Request},
    clock::Clock,
    faults::{BEFORE, Scene, Unfinished, inflict, may_lose},
    history::{History, Level, LossWindow, OperationId},
    installation::{Installation, Setup, blocking},
    load::Load,
    plan::{Fault, Plan, Topology},
    probe,
    report::Report,
    rows::{EngineRow, Rows},
};

/// Maximum time of repeated requests without an answer after the last fault.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for the ledger to catch up at the end.
const SETTLED_MAX: Duration = Duration::from_secs(60);
/// Interval of queries for the current primaries.
const WATCH_EVERY: Duration = Duration::from_millis(200);
/// Maximum grants that are requested again at the end, and how many at the same time.
const REPLAYED_MAX: usize = 4_000;
const AT_A_TIME: usize = 64;
/// Time of load before the first fault.
const WARM_UP: Duration = Duration::from_secs(2);

/// Parameters of a round.
pub(crate) struct Order {
    pub(crate) setup: Setup,
    pub(crate) clock: Option<Clock>,
    /// Duration of the faults.
    pub(crate) length: Duration,
    pub(crate) recovery_max: Duration,
    /// Folder for the programs' logs if there are violations.
    pub(crate) logs: PathBuf,
}

/// Injects faults of the plan until the time is up or the service does not recover, then judges. Returns the duration
/// of the faults.
///
/// # Errors
/// If servers cannot be started, or the final rows cannot be read.
pub(crate) async fn run(order: Order, plan: &mut Plan, report: &mut Report) -> Result<Duration> {
    let topology = order.setup.topology;
    let installation = Installation::start(order.setup, order.clock).await?;
    let history = Arc::new(History::new());
    let addrs = vec![installation.node(0), installation.node(1)];
    let nodes = Nodes::new(addrs, Arc::clone(&history), "");
    let campaigns = Arc::new(Campaigns::new(
        nodes.clone(),
        topology != Topology::Standalone,
    ));
    let scene = Arc::new(Scene {
        installation,
        campaigns: Arc::clone(&campaigns),
        nodes: nodes.clone(),
        unfinished: Unfinished::default(),
    });
    let load = Load::start(nodes.clone(), Arc::clone(&campaigns));
    let promotions = Arc::new(AtomicUsize::new(0));
    let watch = tokio::spawn(watch_primaries(Arc::clone(&scene), Arc::clone(&promotions)));
    tokio::time::sleep(WARM_UP).await;
    let violations_before: usize = report.findings.counts().values().sum();
    let began = Instant::now();
    let mut is_stuck = false;
    while began.elapsed() < order.length && !is_stuck {
        let Some(fault) = plan.next() else { break };
        let since = history.now();
        let done = one_fault(&scene, &fault, order.recovery_max).await;
        report.fault(topology, &fault, done.as_ref().ok().copied());
        match done {
            Ok(recovery) => eprintln!(
                "{since} µs: {fault}: available after {:.2} s",
                recovery.as_secs_f64()
            ),
            Err(error) => {
                is_stuck = true;
                let ready = [
                    scene.installation.readiness(0).await,
                    scene.installation.readiness(1).await,
                ];
                let text = format!("{topology}: {fault}: {error:#}; /readyz: {ready:?}");
                eprintln!("{text}");
                report.findings.violation(Breach::Unavailable, text);
            }
        }
        tokio::time::sleep(fault.pause).await;
    }
    let spent = began.elapsed();
    let patience = match is_stuck {
        true => {
            campaigns.give_up();
            WARM_UP
        }
        false => PATIENCE,
    };
    load.finish(patience).await;
    let rows = match is_stuck {
        true => None,
        false => Some(rest(&scene).await),
    };
    watch.abort();
    report.promotions += promotions.load(Ordering::Relaxed);
    report.answered += history.answered();
    report.undecided += history.undecided();
    report.rounds += 1;
    if let Some(Ok(rows)) = &rows {
        report.withheld += rows
            .withheld
            .values()
            .map(|units| u64::from(*units))
            .sum::<u64>();
    }
    let evidence = history.finish();
    report.findings.absorb(match rows {
        Some(Ok(rows)) => check::judge(&evidence, &rows),
        // A run that is not settled cannot be compared with rows.
        Some(Err(error)) => {
            let mut findings = check::judge_answers(&evidence);
            let text = format!("{topology}: the run did not settle after the faults: {error:#}");
            findings.violation(Breach::Unavailable, text);
            findings
        }
        None => check::judge_answers(&evidence),
    });
    let violations: usize = report.findings.counts().values().sum();
    if violations > violations_before {
        scene.installation.keep_logs(&order.logs)?;
        eprintln!("logs of the programs: {}", order.logs.display());
    }
    Ok(spent)
}

/// Repeats all requests, closes all campaigns, and reads the final rows.
async fn rest(scene: &Scene) -> Result<Rows> {
    let history = scene.nodes.history();
    let unfinished = scene.unfinished.take().into_iter();
    ask_all(&scene.nodes, unfinished.chain(replays(history)).collect()).await;
    let mut withheld = BTreeMap::new();
    for campaign in history.campaigns() {
        let units = scene.installation.withheld(&campaign.id).await?;
        withheld.insert(campaign.id.clone(), units);
        // The close returns withheld units and removes their record.
        scene.campaigns.close(&campaign.id).await?;
    }
    let rows = final_rows(&scene.installation, &scene.nodes).await?;
    Ok(Rows { withheld, ..rows })
}

/// Injects a fault and waits until the service is available again. Returns the recovery time after the end of the
/// fault.
async fn one_fault(scene: &Scene, fault: &Fault, recovery_max: Duration) -> Result<Duration> {
    let history = scene.nodes.history();
    let from = history.now().saturating_sub(BEFORE);
    inflict(scene, fault).await?;
    let recovered = probe::available(&scene.campaigns, &scene.nodes, recovery_max).await;
    let whole = scene.installation.redis.wait_until_whole().await;
    if let Some(level) = may_lose(fault) {
        let until = history.now();
        history.may_lose(LossWindow { from, until, level });
    }
    whole?;
    recovered
}

/// A partition's primary, and its known replicas.
#[derive(Debug)]
struct Followed {
    primary: usize,
    replicas: BTreeSet<usize>,
}

impl Followed {
    /// Records the current primary. Returns whether a known replica of the old one was promoted. Otherwise the primary
    /// got the partition's slot by a move of its keys, which loses nothing.
    fn note(known: &mut Option<Self>, primary: usize, replicas: Vec<usize>) -> bool {
        match known {
            Some(known) if known.primary == primary => {
                // A replica that does not answer for a while may still be promoted.
                known.replicas.extend(replicas);
                false
            }
            _ => {
                let replicas = replicas.into_iter().collect();
                let before = known.replace(Self { primary, replicas });
                before.is_some_and(|before| before.replicas.contains(&primary))
            }
        }
    }
}

/// Records every failover. A failover without an injected fault may also lose data of level `memory`.
async fn watch_primaries(scene: Arc<Scene>, promotions: Arc<AtomicUsize>) {
    let history = scene.nodes.history();
    let mut known: [Option<Followed>; crate::plan::PARTITIONS] = Default::default();
    loop {
        for (partition, known) in known.iter_mut().enumerate() {
            let redis = &scene.installation.redis;
            let now = blocking(|| {
                let primary = redis.primary(partition)?;
                Some((primary, redis.replicas(primary)))
            });
            let Some((primary, replicas)) = now.ok().flatten() else {
                continue;
            };
            if Followed::note(known, primary, replicas) {
                promotions.fetch_add(1, Ordering::Relaxed);
                let now = history.now();
                history.may_lose(LossWindow {
                    from: now.saturating_sub(5 * BEFORE),
                    until: now + 5 * BEFORE,
                    level: Level::Memory,
                });
            }
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// Requests of users with a grant, to repeat at the end.
fn replays(history: &History) -> Vec<(OperationId, Request)> {
    let mut claims = history.granted_claims();
    // If there are too many, the middle ones are omitted: the oldest and the newest matter most.
    if let Some(skipped) = claims.len().checked_sub(REPLAYED_MAX) {
        claims.drain(REPLAYED_MAX / 2..REPLAYED_MAX / 2 + skipped);
    }
    claims
        .into_iter()
        .map(|(operation, campaign, user, quantity)| {
            let is_packet = history.campaign(&campaign).is_some_and(|c| c.is_packet);
            (
                operation,
                Request::claim(&campaign, is_packet, &user, quantity),
            )
        })
        .collect()
}

async fn ask_all(nodes: &Nodes, requests: Vec<(OperationId, Request)>) {
    let until = Instant::now() + PATIENCE;
    let mut asking = JoinSet::new();
    for (number, (operation, request)) in requests.into_iter().enumerate() {
        if asking.len() >= AT_A_TIME {
            asking.join_next().await;
        }
        let nodes = nodes.clone();
        asking.spawn(async move {
            let mut node = number;
            while !nodes.attempt(operation, node, &request).await.is_final() {
                if Instant::now() > until {
                    return;
                }
                node += 1;
                tokio::time::sleep(WATCH_EVERY).await;
            }
        });
    }
    while asking.join_next().await.is_some() {}
}

/// Waits until the ledger is complete and the audit has no findings, then reads all rows.
pub(crate) async fn final_rows(installation: &Installation, nodes: &Nodes) -> Result<Rows> {
    let since = Instant::now();
    let audit = loop {
        let audit = blocking(|| installation.audit())??;
        let is_done = audit["ok"] == true && audit["in_flight"] == 0;
        if is_done || since.elapsed() > SETTLED_MAX {
            break audit;
        }
        tokio::time::sleep(WATCH_EVERY).await;
    };
    let sql = |statement: &str| installation.sql(statement);
    let mut rows = Rows::read(sql, nodes.sender(), nodes.seller())?;
    if audit["in_flight"] != 0 {
        let left = &audit["in_flight"];
        let text = format!("{left} entries are not settled after {SETTLED_MAX:?}");
        rows.audit.push(text);
    }
    for check in audit["checks"].as_array().into_iter().flatten() {
        if check["ok"] == false {
            let text = format!("{}: {}", check["name"], check["offending"]);
            rows.audit.push(text);
        }
    }
    for campaign in nodes.history().campaigns() {
        let path = format!("/v1/campaigns/{}/state", campaign.id);
        let state = nodes.get(0, &path).await;
        let state = state.with_context(|| format!("GET {path}"))?;
        let number = |name: &str| state[name].as_u64().and_then(|n| u32::try_from(n).ok());
        let row = EngineRow {
            supply: number("supply").unwrap_or_default(),
            granted: number("granted").unwrap_or_default(),
            remaining: number("remaining").unwrap_or_default(),
            returned: number("returned").unwrap_or_default(),
            withheld: number("withheld").unwrap_or_default(),
        };
        rows.engine.insert(campaign.id, row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moved slot is not a failover. A replica of its former server may still be promoted there later.
    #[test]
    fn only_a_replica_takes_its_primarys_place() {
        let mut known = None;
        let mut note =
            |primary, replicas: &[usize]| Followed::note(&mut known, primary, replicas.to_vec());
        assert!(!note(0, &[3]));
        assert!(!note(0, &[]));
        assert!(!note(1, &[4]), "a slot has moved");
        assert!(!note(1, &[4]));
        assert!(note(4, &[]), "the replica was promoted");
        assert!(!note(4, &[1]));
        assert!(note(1, &[4]), "and the other one again");
        assert!(!note(0, &[3]), "the slot has moved back");
    }
}
