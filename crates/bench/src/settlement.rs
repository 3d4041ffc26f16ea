//! `qiang-bench settlement`: rate of settlement from a log on Redis into a ledger, compared with single rows, and its
//! lag under a steady load, all on one machine.
//!
//! An order of a sale becomes one row of the ledger. A share of a red packet becomes three: the share, the user's
//! account, and the posting. Both are compared with one row per grant, inserted in its own transaction, the minimum for
//! a design without batches.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use qiang_core::{
    campaign::{AckLevel, CampaignKind},
    id::CampaignId,
};
use serde::Serialize;

use crate::fixture::{self, SETTLE_MAX};
use qiang::{Backend, NodeConfig, scratch::Scratch};

/// Interval at which the steady load adds claims.
const STEP: Duration = Duration::from_millis(10);

/// Measure settlement.
#[derive(Debug, clap::Args)]
pub(crate) struct SettlementArgs {
    /// Redis to use; the benchmark creates and removes its own keys.
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    redis: String,
    /// Database server of the ledger; the benchmark creates and drops a database there. By default a temporary file.
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// Measure only this kind of campaign; by default both.
    #[arg(long, value_name = "KIND")]
    of: Option<Of>,
    /// Partitions of the engine; every campaign is spread over all of them.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    partitions: u16,
    /// Transport of entries: stream, list, rabbitmq or log.
    #[arg(long, value_name = "KIND", default_value = "stream")]
    transport: String,
    /// URL of RabbitMQ, for that transport.
    #[arg(long, value_name = "URL", default_value = "amqp://127.0.0.1:5672")]
    rabbitmq: String,
    /// Grants in the log when settlement starts.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    entries: u32,
    /// Rows inserted one by one, each in its own transaction, for comparison.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    single: u32,
    /// Grants per second of the steady load.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,
    /// Seconds of the steady load; 0 skips it.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=600))]
    seconds: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Kind of campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Of {
    Sale,
    RedPacket,
}

impl Of {
    fn kind(self) -> CampaignKind {
        match self {
            Self::Sale => CampaignKind::Sale,
            Self::RedPacket => CampaignKind::RedPacket,
        }
    }

    /// Ledger rows per grant: an order; or a share, its user's account, and the posting.
    fn rows(self) -> u32 {
        match self {
            Self::Sale => 1,
            Self::RedPacket => 3,
        }
    }

    async fn open(self, backend: &Backend, units: u32) -> anyhow::Result<CampaignId> {
        let (engine, ledger) = (&*backend.ports.engine, &*backend.ports.ledger);
        match self {
            Self::Sale => fixture::sale(engine, ledger, units, AckLevel::Memory).await,
            Self::RedPacket => {
                fixture::red_packet(engine, Some(ledger), units, AckLevel::Memory).await
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    ledger: &'static str,
    transport: String,
    partitions: u16,
    loads: Vec<Measured>,
}

/// Result for one kind of campaign.
#[derive(Debug, Serialize)]
struct Measured {
    of: Of,
    entries: u64,
    settle_seconds: f64,
    per_second: f64,
    single_per_second: f64,
    /// Rate of settled entries divided by the rate of single rows.
    ratio: f64,
    /// Ledger rows per entry.
    rows_per_entry: u32,
    steady: Option<Steady>,
    audit_ok: bool,
}

#[derive(Debug, Serialize)]
struct Steady {
    asked_per_second: u32,
    granted_per_second: f64,
    lag_max: u64,
    lag_at_end: u64,
    caught_up_seconds: f64,
}

pub(crate) async fn run(args: &SettlementArgs) -> anyhow::Result<bool> {
    let mut report = Report {
        ledger: args.ledger.as_deref().map_or("a file", Scratch::kind_of),
        transport: args.transport.clone(),
        partitions: args.partitions,
        loads: Vec::new(),
    };
    for of in args.of.map_or(vec![Of::Sale, Of::RedPacket], |of| vec![of]) {
        report.loads.push(measure(args, of).await?);
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_text(&report);
    }
    Ok(report.loads.iter().all(|load| load.audit_ok))
}

fn print_text(report: &Report) {
    for load in &report.loads {
        let of = match load.of {
            Of::Sale => "orders of a sale",
            Of::RedPacket => "shares of a red packet",
        };
        println!(
            "{} {of} into {} by {} over {} partitions in {:.2} s: {:.0}/s, {:.1} times the {:.0}/s of single rows",
            load.entries,
            report.ledger,
            report.transport,
            report.partitions,
            load.settle_seconds,
            load.per_second,
            load.ratio,
            load.single_per_second,
        );
        if load.rows_per_entry > 1 {
            println!(
                "  each becomes {} rows of the ledger: {:.1} times in rows",
                load.rows_per_entry,
                load.ratio * f64::from(load.rows_per_entry),
            );
        }
        if let Some(steady) = &load.steady {
            println!(
                "  a steady load of {:.0} grants/s (asked {}): lag at most {}, at its end {}, caught up in {:.2} s",
                steady.granted_per_second,
                steady.asked_per_second,
                steady.lag_max,
                steady.lag_at_end,
                steady.caught_up_seconds,
            );
        }
        println!("  audit {}", if load.audit_ok { "ok" } else { "BROKEN" });
    }
}

async fn measure(args: &SettlementArgs, of: Of) -> anyhow::Result<Measured> {
    let name = format!("qiang-bench-{:016x}", rand::random::<u64>());
    let folder = tempfile::tempdir()?;
    let scratch = match &args.ledger {
        Some(server) => Some(Scratch::make(server, &name.replace('-', "_")).await?),
        None => None,
    };
    let measured = measure_on(args, of, &name, folder.path(), scratch.as_ref()).await;
    if let Some(scratch) = scratch {
        scratch.drop_database().await?;
    }
    measured
}

async fn measure_on(
    args: &SettlementArgs,
    of: Of,
    name: &str,
    folder: &std::path::Path,
    scratch: Option<&Scratch>,
) -> anyhow::Result<Measured> {
    let file = folder.join("ledger.db");
    let mut flags = vec![
        ("engine.kind", "redis".to_owned()),
        ("engine.data", file.display().to_string()),
        ("redis.urls", args.redis.clone()),
        ("redis.prefix", name.to_owned()),
        ("redis.partitions", args.partitions.to_string()),
        ("redis.shard_supply_min", "1".to_owned()),
        ("redis.shards_max", args.partitions.to_string()),
        ("settlement.transport", args.transport.clone()),
        ("settlement.rabbitmq_url", args.rabbitmq.clone()),
        ("settlement.in_process", "false".to_owned()),
    ];
    if let Some(scratch) = scratch {
        flags.push(("ledger.url", scratch.url().to_owned()));
    }
    // The log is filled first, without settlement.
    let idle = Backend::open(&NodeConfig::defaults_with(&flags)?).await?;
    let campaign = of.open(&idle, args.entries).await?;
    fixture::claim_all(&*idle.ports.engine, campaign, of.kind(), 0..args.entries).await?;
    idle.close().await?;

    let single_per_second = match scratch {
        Some(scratch) => scratch.single_rows(args.single).await?,
        None => single_rows_in_file(&folder.join("single.db"), args.single)?,
    };

    flags.retain(|(key, _)| *key != "settlement.in_process");
    let settling = Backend::open(&NodeConfig::defaults_with(&flags)?).await?;
    let started = Instant::now();
    settling.settle(SETTLE_MAX).await?;
    let settle_seconds = started.elapsed().as_secs_f64();
    let steady = if args.seconds == 0 {
        None
    } else {
        Some(steady_load(args, of, &settling).await?)
    };
    settling.close().await?;
    settling.erase().await?;
    let audited = match scratch {
        Some(scratch) => qiang_audit::audit_ledger(scratch.url()).await?,
        None => tokio::task::spawn_blocking(move || qiang_audit::audit(&file)).await??,
    };
    let per_second = f64::from(args.entries) / settle_seconds;
    Ok(Measured {
        of,
        entries: u64::from(args.entries),
        settle_seconds,
        per_second,
        single_per_second,
        ratio: per_second / single_per_second,
        rows_per_entry: of.rows(),
        steady,
        audit_ok: audited.ok,
    })
}

/// Claims at a fixed rate, and measures the settlement lag.
async fn steady_load(args: &SettlementArgs, of: Of, backend: &Backend) -> anyhow::Result<Steady> {
    let total = args.rate * args.seconds;
    let campaign = of.open(backend, total).await?;
    let (mut asked, mut lag_max) = (0_u32, 0);
    let lag = || {
        let (head, settled) = backend.ports.gauges.positions();
        head.saturating_sub(settled)
    };
    let started = Instant::now();
    let mut rounds = tokio::task::JoinSet::new();
    let mut ticks = tokio::time::interval(STEP);
    while asked < total {
        ticks.tick().await;
        let due = (started.elapsed().as_secs_f64() * f64::from(args.rate)) as u32;
        let due = due.min(total);
        if due > asked {
            let engine = Arc::clone(&backend.ports.engine);
            let users = asked..due;
            rounds.spawn(
                async move { fixture::claim_all(&*engine, campaign, of.kind(), users).await },
            );
            asked = due;
        }
        lag_max = lag_max.max(lag());
    }
    while let Some(round) = rounds.join_next().await {
        round??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let lag_at_end = lag();
    let ended = Instant::now();
    backend.settle(SETTLE_MAX).await?;
    Ok(Steady {
        asked_per_second: args.rate,
        granted_per_second: f64::from(total) / seconds,
        lag_max,
        lag_at_end,
        caught_up_seconds: ended.elapsed().as_secs_f64(),
    })
}

/// Rate of rows inserted one by one into a file, each in its own durable transaction.
fn single_rows_in_file(path: &std::path::Path, rows: u32) -> anyhow::Result<f64> {
    let file = rusqlite::Connection::open(path).context("cannot open a file for single rows")?;
    file.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE single (number INTEGER PRIMARY KEY, user TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL)",
    )?;
    let mut insert = file.prepare("INSERT INTO single VALUES (?1, ?2, 100)")?;
    let started = Instant::now();
    for n in 0..rows {
        insert.execute(rusqlite::params![n, format!("user-{n}")])?;
    }
    Ok(f64::from(rows) / started.elapsed().as_secs_f64())
}
