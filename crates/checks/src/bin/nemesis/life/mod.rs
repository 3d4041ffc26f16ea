//! Whole lives of campaigns under faults: warm-up, peak load, expired holds, returns, refunds, close. Each seed gives
//! one life. Nodes and worker are killed and halted throughout. At the end, everything must settle automatically.

mod plan;
mod report;
mod visitors;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(crate) use self::report::Report;
use self::{
    plan::{End, Life, Planned, SHARD_SUPPLY_MIN, Track},
    report::Lived,
    visitors::Stage,
};
use crate::{
    campaigns::{Campaigns, Form},
    check::{self, Breach, Findings},
    client::Nodes,
    faults::process,
    history::{Campaign, History, Window},
    installation::{Installation, Setup, ledger::LedgerKind},
    plan::{Kind, NODES, Topology},
    round::final_rows,
    rows::Rows,
};

/// Maximum lives per installation. A new one keeps the ledger small, so that its rows are read quickly.
const LIVES_MAX: usize = 25;
/// One of this many lives uses MariaDB.
const ON_MARIADB: u64 = 4;
/// Time between the creation of campaigns and their start.
const AHEAD: Duration = Duration::from_millis(1_300);
/// Text of the answer to a creation after the window.
const OVER_ALREADY: &str = "the window is over already";
const DAY_MS: i64 = 86_400_000;
/// Maximum time until holds, closes and refunds end automatically.
const OVER_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Number of campaigns and orders that have not ended.
const OPEN: &str = "SELECT (SELECT count(*) FROM campaigns WHERE phase <> 'closed')
    + (SELECT count(*) FROM orders WHERE state = 'held')";

/// Parameters of a run.
pub(crate) struct Order {
    pub(crate) qiang: PathBuf,
    pub(crate) seeds: std::ops::Range<u64>,
    /// The ledger of all lives; `None` chooses it by seed.
    pub(crate) ledger: Option<LedgerKind>,
}

/// Prints the lives of seeds.
pub(crate) fn print(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}: {:#?}", Life::draw(seed));
    }
}

/// Runs the lives of all seeds. Lives on the same database run one after the other.
///
/// # Errors
/// If servers cannot be started, or the final rows cannot be read.
pub(crate) async fn run(order: Order, report: &mut Report) -> Result<()> {
    for kind in [LedgerKind::Postgres, LedgerKind::Mariadb] {
        let of_kind = |seed: &u64| order.ledger.unwrap_or_else(|| ledger_of(*seed)) == kind;
        let mut seeds = order.seeds.clone().filter(of_kind).peekable();
        while seeds.peek().is_some() {
            let setup = Setup {
                topology: Topology::Standalone,
                with_rabbit: false,
                ledger: kind,
                shard_supply_min: SHARD_SUPPLY_MIN,
                qiang: order.qiang.clone(),
            };
            let installation = Arc::new(Installation::start(setup, None).await?);
            for seed in seeds.by_ref().take(LIVES_MAX) {
                let lived = live(&installation, seed)
                    .await
                    .with_context(|| format!("run seed {seed} on {}", kind.name()))?;
                eprintln!("{}", lived.text());
                let is_sound = lived.is_sound();
                report.lives.push(lived);
                if !is_sound {
                    // Open rows of this life would count against the next one.
                    break;
                }
            }
        }
    }
    Ok(())
}

fn ledger_of(seed: u64) -> LedgerKind {
    match seed.is_multiple_of(ON_MARIADB) {
        true => LedgerKind::Mariadb,
        false => LedgerKind::Postgres,
    }
}

/// Runs one life and judges it. If it is not sound, its logs are kept.
///
/// # Errors
/// If a process cannot be started again, or the logs cannot be written.
async fn live(installation: &Arc<Installation>, seed: u64) -> Result<Lived> {
    let began = Instant::now();
    let life = Life::draw(seed);
    let history = Arc::new(History::new());
    let addrs = (0..NODES).map(|node| installation.node(node)).collect();
    let prefix = format!("s{seed}-");
    let nodes = Nodes::new(addrs, Arc::clone(&history), &prefix);
    let (start, starts_ms) = (Instant::now() + AHEAD, now_ms() + millis(AHEAD));
    let made = Arc::new(Mutex::new(Vec::new()));
    let mut tracks = JoinSet::new();
    let faults = life.tracks.iter().map(|track| track.faults.len()).sum();
    for track in life.tracks.clone() {
        let (installation, history) = (Arc::clone(installation), Arc::clone(&history));
        tracks.spawn(make_faults(
            installation,
            history,
            track,
            start,
            Arc::clone(&made),
        ));
    }
    let mut findings = Findings::default();
    let led = lead(&life, &nodes, start, starts_ms, &mut findings).await;
    while let Some(track) = tracks.join_next().await {
        track.context("a track of faults")??;
    }
    let mut read_back = 0;
    let rows = match led {
        Ok(count) => {
            read_back = count;
            settle(installation, &nodes, &mut findings).await
        }
        Err(error) => Err(error),
    };
    let evidence = history.finish();
    let rows = match rows {
        Ok(mut rows) => {
            rows.keep(&prefix, |id| evidence.campaigns.contains_key(id));
            findings.absorb(check::judge(&evidence, &rows));
            findings.absorb(check::judge_lives(&evidence, &rows));
            rows
        }
        // A life that has not ended cannot be compared with rows.
        Err(error) => {
            findings.absorb(check::judge_answers(&evidence));
            findings.violation(Breach::Unavailable, format!("{error:#}"));
            Rows::default()
        }
    };
    let mut lived = Lived::new(seed, installation.setup.ledger, &evidence, &rows, findings);
    lived.count("read back before the start", read_back);
    lived.faults = faults;
    lived.took = began.elapsed();
    if !lived.is_sound() {
        let folder = std::env::temp_dir().join(format!("qiang-life-{seed}"));
        installation.keep_logs(&folder)?;
        let made = std::mem::take(&mut *made.lock());
        let text = format!("{}\n{life:#?}\n{evidence:#?}\n{rows:#?}\n", made.join("\n"));
        std::fs::write(folder.join("history.txt"), text)?;
        lived.logs = Some(folder);
    }
    Ok(lived)
}

/// Waits until everything has ended automatically, and reads the final rows.
async fn settle(
    installation: &Installation,
    nodes: &Nodes,
    findings: &mut Findings,
) -> Result<Rows> {
    let open = wait_until_over(installation).await?;
    if open > 0 {
        let text = format!("{open} campaigns and orders are still open after {OVER_MAX:?}");
        findings.violation(Breach::Open, text);
    }
    final_rows(installation, nodes).await
}

/// Creates the campaigns, checks their warm-up, runs the users, and closes campaigns that the clock does not end.
/// Returns the number of campaigns that a node returned before their start.
async fn lead(
    life: &Life,
    nodes: &Nodes,
    start: Instant,
    starts_ms: i64,
    findings: &mut Findings,
) -> Result<usize> {
    let creator = Arc::new(Campaigns::new(nodes.clone(), false));
    let mut creating = JoinSet::new();
    for (place, planned) in life.campaigns.iter().copied().enumerate() {
        let creator = Arc::clone(&creator);
        creating.spawn(async move {
            match creator.create(form_of(planned, starts_ms)).await {
                // Faults delayed the creation until the window ended. No user can come then.
                Err(error) if format!("{error:#}").contains(OVER_ALREADY) => Ok((place, None)),
                created => created.map(|campaign| (place, Some(campaign))),
            }
        });
    }
    let mut created = Vec::new();
    while let Some(done) = creating.join_next().await {
        created.push(done.context("a creation")??);
    }
    created.sort_by_key(|(place, _)| *place);
    let campaigns: Vec<_> = created.into_iter().map(|(_, campaign)| campaign).collect();
    let mut reading = JoinSet::new();
    for campaign in campaigns.iter().flatten() {
        for node in 0..NODES {
            reading.spawn(read_back(nodes.clone(), node, campaign.clone(), start));
        }
    }
    let hold_s = life
        .campaigns
        .iter()
        .map(|planned| planned.form.hold_s)
        .max();
    let stage = Stage {
        nodes: nodes.clone(),
        campaigns: Arc::new(campaigns),
        hold: Duration::from_secs(hold_s.unwrap_or(1).into()),
        start,
    };
    let mut closes = JoinSet::new();
    for (place, planned) in life.campaigns.iter().enumerate() {
        if let End::Close(at) = planned.end {
            let (stage, creator) = (stage.clone(), Arc::clone(&creator));
            closes.spawn(async move {
                stage.at(at).await;
                match &stage.campaigns[place] {
                    Some(campaign) => creator.close(&campaign.id).await,
                    None => Ok(()),
                }
            });
        }
    }
    stage.play(life.visits.clone(), life.changes.clone()).await;
    while let Some(closed) = closes.join_next().await {
        closed.context("a close")??;
    }
    let read: Vec<(bool, String)> = reading.join_all().await.into_iter().flatten().collect();
    for (_, text) in read.iter().filter(|(is_warm, _)| !is_warm) {
        findings.violation(Breach::Units, format!("not warmed up: {text}"));
    }
    Ok(read.len())
}

fn form_of(planned: Planned, starts_ms: i64) -> Form {
    let lasts_ms = match planned.end {
        End::Window(ends) => ends,
        End::Close(_) => DAY_MS,
    };
    let window = Window {
        starts_ms,
        ends_ms: starts_ms + lasts_ms,
    };
    Form {
        window: Some(window),
        ..planned.form
    }
}

/// Reads a campaign before its start: whether a node has all of it, and the node's state. `None` if the node was down
/// or halted until the start.
async fn read_back(
    nodes: Nodes,
    node: usize,
    campaign: Campaign,
    start: Instant,
) -> Option<(bool, String)> {
    let path = format!("/v1/campaigns/{}/state", campaign.id);
    while Instant::now() < start {
        let asked = tokio::time::timeout_at(start.into(), nodes.get(node, &path));
        let Ok(Ok(state)) = asked.await else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        let number = |name: &str| state[name].as_u64() == Some(campaign.supply.into());
        let is_warm = state["phase"] == "scheduled" && number("supply") && number("remaining");
        return Some((is_warm, format!("node {node} has {state} of {campaign:?}")));
    }
    None
}

/// Injects the faults one after the other.
async fn make_faults(
    installation: Arc<Installation>,
    history: Arc<History>,
    track: Track,
    start: Instant,
    made: Arc<Mutex<Vec<String>>>,
) -> Result<()> {
    let distance = Duration::from_millis(track.from.unsigned_abs());
    let from = start.checked_sub(distance).unwrap_or(start);
    tokio::time::sleep_until(from.into()).await;
    for fault in track.faults {
        let since = history.now();
        match fault.kind {
            Kind::Kill => process::kill(&installation, fault.target, fault.hold).await?,
            Kind::Stop => process::stop(&installation, fault.target, fault.hold).await?,
            other => bail!("a life has no fault {}", other.name()),
        }
        let until = history.now();
        made.lock().push(format!("{since} to {until} µs: {fault}"));
        tokio::time::sleep(fault.pause).await;
    }
    Ok(())
}

/// Waits until no campaign and no order is open. Returns the number still open after the time limit.
async fn wait_until_over(installation: &Installation) -> Result<u64> {
    let since = Instant::now();
    loop {
        let open = installation.sql(OPEN)?.trim().parse()?;
        if open == 0 || since.elapsed() > OVER_MAX {
            return Ok(open);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "windows are judged by the machine's clock"
)]
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
