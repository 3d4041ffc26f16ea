//! `qiang-bench admission`: a crowd claims a few units, each user once, through the gate and then the engine.
//!
//! It counts the answers that do not need a decision. The Redis primary or the embedded engine's book makes decisions.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use anyhow::ensure;
use qiang::UsageError;
use qiang_core::{
    admission::AdmissionRatio,
    campaign::{AckLevel, CampaignKind},
    id::CampaignId,
    outcome::Outcome,
    ports::{Engine, EngineError, GateAnswers},
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_redis::{RedisEngine, RedisOptions};
use serde::Serialize;

use crate::fixture;

/// Measure how much of a crowd is answered without a decision of the engine, from the first click on.
#[derive(Debug, clap::Args)]
pub(crate) struct AdmissionArgs {
    /// Redis to measure; its keys get a separate prefix and are removed. Without it, the embedded engine is measured.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Nodes in this process, each with its own gate and connections. None knows the sale before.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    nodes: u32,
    /// Users, each with one claim.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    attempts: u32,
    /// Stock of the sale.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    units: u32,
    /// Users who wait for an answer at a time, over all nodes.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    waiting: u32,
    /// Admission ratio of the sale in percent; 0 admits all users.
    #[arg(long, default_value_t = AdmissionRatio::DEFAULT.percent())]
    percent: u32,
    /// Minimum percentage of answers without a decision; a lower one is exit code 1.
    #[arg(long, default_value_t = 99.0)]
    at_least: f64,
}

/// Result of the measurement, printed as JSON.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    nodes: u32,
    attempts: u64,
    units: u32,
    waiting: u32,
    admission_percent: u32,
    seconds: f64,
    per_second: f64,
    granted: u64,
    oversold: u64,
    unsold: u64,
    sold_out: u64,
    not_admitted: u64,
    failed: u64,
    /// Number of claims that needed a decision.
    decided: u64,
    /// Number of claims answered by the gate: at once, and after a wait.
    answered_at_once: u64,
    answered_after_waiting: u64,
    /// Percentage of answers without a decision.
    without_primary_percent: f64,
    ok: bool,
}

/// Number of answers by outcome.
#[derive(Debug, Default)]
struct Told {
    granted: u64,
    sold_out: u64,
    not_admitted: u64,
    failed: u64,
    at_once: u64,
}

pub(crate) async fn run(args: &AdmissionArgs) -> anyhow::Result<bool> {
    let measured = match &args.redis {
        Some(url) => on_redis(args, url).await?,
        None => embedded(args).await?,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(measured.ok)
}

async fn embedded(args: &AdmissionArgs) -> anyhow::Result<Measured> {
    let one = UsageError::new("--nodes needs --redis: the embedded engine has one node");
    ensure!(args.nodes == 1, one);
    let (folder, _temporary) = fixture::folder(None::<&Path>)?;
    let engine = Embedded::open(&folder.join("qiang.db"), Arc::new(SystemClock))?;
    let sale = fixture::sale_with(
        &engine,
        Some(&engine),
        args.units,
        AckLevel::Fsync,
        ratio(args)?,
    );
    let measured = measure(args, "embedded", &[Arc::new(engine.clone())], sale.await?).await;
    // The call waits for a thread to end.
    tokio::task::block_in_place(|| engine.close());
    measured
}

async fn on_redis(args: &AdmissionArgs, url: &str) -> anyhow::Result<Measured> {
    let options = RedisOptions {
        urls: vec![url.to_owned()],
        prefix: format!("qiang-bench:{:08x}", rand::random::<u32>()),
        ..RedisOptions::default()
    };
    let opener = RedisEngine::connect(options.clone(), &[]).await?;
    let sale = fixture::sale_with(&opener, None, args.units, AckLevel::Memory, ratio(args)?);
    let sale = sale.await?;
    let mut engines = Vec::new();
    for _ in 0..args.nodes {
        engines.push(RedisEngine::connect(options.clone(), &[]).await?);
    }
    let nodes: Vec<Arc<dyn Engine>> = engines
        .iter()
        .map(|engine| Arc::new(engine.clone()) as Arc<dyn Engine>)
        .collect();
    let measured = measure(args, "redis", &nodes, sale).await;
    for engine in engines {
        engine.close().await;
    }
    opener.erase().await?;
    measured
}

fn ratio(args: &AdmissionArgs) -> anyhow::Result<Option<AdmissionRatio>> {
    AdmissionRatio::from_percent(args.percent)
        .map_err(|error| UsageError::new(error.to_string()).into())
}

async fn measure(
    args: &AdmissionArgs,
    engine: &'static str,
    nodes: &[Arc<dyn Engine>],
    sale: CampaignId,
) -> anyhow::Result<Measured> {
    let (next, users) = (Arc::new(AtomicU32::new(0)), args.attempts);
    let started = Instant::now();
    let tasks: Vec<_> = (0..args.waiting.min(users))
        .map(|n| {
            let node = Arc::clone(&nodes[n as usize % nodes.len()]);
            tokio::spawn(ask(node, sale, Arc::clone(&next), users))
        })
        .collect();
    let mut told = Told::default();
    for task in tasks {
        told.add(&task.await??);
    }
    let seconds = started.elapsed().as_secs_f64();
    let answers: Vec<GateAnswers> = nodes.iter().map(|node| node.gate_answers()).collect();
    let decided: u64 = answers.iter().map(|it| it.decided).sum();
    let held = |it: &GateAnswers| it.outcomes.iter().sum::<u64>() + it.not_admitted;
    let answered_after_waiting = answers.iter().map(held).sum();
    let (attempts, units) = (u64::from(users), u64::from(args.units));
    let without_primary_percent =
        100.0 * (told.at_once + answered_after_waiting) as f64 / attempts as f64;
    let oversold = told.granted.saturating_sub(units);
    let unsold = units.min(attempts).saturating_sub(told.granted);
    Ok(Measured {
        engine,
        nodes: args.nodes,
        attempts,
        units: args.units,
        waiting: args.waiting,
        admission_percent: args.percent,
        seconds,
        per_second: attempts as f64 / seconds,
        granted: told.granted,
        oversold,
        unsold,
        sold_out: told.sold_out,
        not_admitted: told.not_admitted,
        failed: told.failed,
        decided,
        answered_at_once: told.at_once,
        answered_after_waiting,
        without_primary_percent,
        ok: oversold + unsold + told.failed == 0 && without_primary_percent >= args.at_least,
    })
}

/// Sends claims of one user after another to a node, until all users have claimed.
async fn ask(
    node: Arc<dyn Engine>,
    sale: CampaignId,
    next: Arc<AtomicU32>,
    users: u32,
) -> anyhow::Result<Told> {
    let mut told = Told::default();
    loop {
        let user = next.fetch_add(1, Ordering::Relaxed);
        if user >= users {
            return Ok(told);
        }
        let claim = fixture::claim(sale, CampaignKind::Sale, &format!("user-{user}"))?;
        let answer = match node.try_gate_outcome(&claim) {
            Some(outcome) => {
                told.at_once += 1;
                // Lets other users of this thread continue.
                tokio::task::yield_now().await;
                Ok(outcome)
            }
            None => node.claim(claim).await.map(|claimed| claimed.outcome),
        };
        *match answer {
            Ok(Outcome::Granted(_)) => &mut told.granted,
            Ok(Outcome::SoldOut { .. }) => &mut told.sold_out,
            Err(EngineError::NotAdmitted) => &mut told.not_admitted,
            Ok(_) | Err(_) => &mut told.failed,
        } += 1;
    }
}

impl Told {
    fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.sold_out += other.sold_out;
        self.not_admitted += other.not_admitted;
        self.failed += other.failed;
        self.at_once += other.at_once;
    }
}
