//! `qiang bench settlement`: how fast a log on Redis goes into a ledger, beside single rows; and whether settlement
//! keeps up with a steady rush, all on the machine at hand.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use qiang_core::{
    book::Claim,
    campaign::{AckLevel, Kind},
    id::{CampaignId, UserId},
    ports::Engine,
};
use serde::Serialize;

use super::{super::scratch::Scratch, stage};
use crate::{audit, config::Config, serve::Backend};

/// Claims that wait at a time while the log is made.
const WAITING: usize = 4_000;
/// How long settlement may take before the benchmark gives up.
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// How often a steady rush is topped up.
const STEP: Duration = Duration::from_millis(10);

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct SettlementArgs {
    /// The Redis to use; keys of the benchmark's own are made and removed.
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    redis: String,
    /// The database server of the ledger: a database is made there and dropped. A temporary file without it.
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// How entries travel: stream, list, rabbitmq or log.
    #[arg(long, value_name = "KIND", default_value = "stream")]
    transport: String,
    /// Where RabbitMQ is, for that transport.
    #[arg(long, value_name = "URL", default_value = "amqp://127.0.0.1:5672")]
    rabbitmq: String,
    /// Grants that wait in the log when settlement starts.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    entries: u32,
    /// Rows that are inserted one by one, each in a transaction of its own, for comparison.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    single: u32,
    /// Grants a second of the steady rush.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    rate: u32,
    /// Seconds of the steady rush; 0 leaves it out.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=600))]
    seconds: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    ledger: &'static str,
    transport: String,
    entries: u64,
    settle_seconds: f64,
    per_second: f64,
    single_per_second: f64,
    /// Entries settled a second over single rows a second.
    ratio: f64,
    steady: Option<Steady>,
    audit_ok: bool,
}

/// How a steady rush went.
#[derive(Debug, Serialize)]
struct Steady {
    asked_per_second: u32,
    granted_per_second: f64,
    lag_max: u64,
    lag_at_end: u64,
    caught_up_seconds: f64,
}

pub(crate) fn run(args: &SettlementArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(measure(args))?;
    if args.json {
        println!("{}", serde_json::to_string(&measured)?);
    } else {
        print_text(&measured);
    }
    Ok(if measured.audit_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_text(measured: &Measured) {
    println!(
        "{} entries into {} by {} in {:.2} s: {:.0}/s, {:.1} times the {:.0}/s of single rows",
        measured.entries,
        measured.ledger,
        measured.transport,
        measured.settle_seconds,
        measured.per_second,
        measured.ratio,
        measured.single_per_second,
    );
    if let Some(steady) = &measured.steady {
        println!(
            "a steady rush of {:.0} grants/s (asked {}): lag at most {}, at its end {}, caught up in {:.2} s",
            steady.granted_per_second,
            steady.asked_per_second,
            steady.lag_max,
            steady.lag_at_end,
            steady.caught_up_seconds,
        );
    }
    println!("audit {}", if measured.audit_ok { "ok" } else { "BROKEN" });
}

async fn measure(args: &SettlementArgs) -> anyhow::Result<Measured> {
    let name = format!("qiang-bench-{:016x}", rand::random::<u64>());
    let folder = tempfile::tempdir()?;
    let scratch = match &args.ledger {
        Some(server) => Some(Scratch::make(server, &name.replace('-', "_")).await?),
        None => None,
    };
    let measured = measure_on(args, &name, folder.path(), scratch.as_ref()).await;
    if let Some(scratch) = scratch {
        scratch.drop_it().await?;
    }
    measured
}

async fn measure_on(
    args: &SettlementArgs,
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
        ("settlement.transport", args.transport.clone()),
        ("settlement.rabbitmq_url", args.rabbitmq.clone()),
        ("settlement.inside", "false".to_owned()),
    ];
    if let Some(scratch) = scratch {
        qiang_ledger::migrate(scratch.url()).await?;
        flags.push(("ledger.url", scratch.url().to_owned()));
    }
    // The log first, with nobody settling.
    let quiet = Backend::open(&Config::defaults_with(&flags)?).await?;
    let packet = open(&quiet, args.entries).await?;
    grab(&quiet.engine, packet, 0, args.entries).await?;
    quiet.close().await?;

    let single_per_second = match scratch {
        Some(scratch) => scratch.single_rows(args.single).await?,
        None => single_rows_in_file(&folder.join("single.db"), args.single)?,
    };

    flags.retain(|(key, _)| *key != "settlement.inside");
    let settling = Backend::open(&Config::defaults_with(&flags)?).await?;
    let started = Instant::now();
    ensure!(
        settling.settle(SETTLE_MAX).await?,
        "the ledger did not catch up"
    );
    let settle_seconds = started.elapsed().as_secs_f64();
    let steady = if args.seconds == 0 {
        None
    } else {
        Some(rush(args, &settling).await?)
    };
    settling.close().await?;
    settling.erase().await?;
    let audited = match scratch {
        Some(scratch) => audit::audit_ledger(scratch.url()).await?,
        None => tokio::task::spawn_blocking(move || audit::audit(&file)).await??,
    };
    let per_second = f64::from(args.entries) / settle_seconds;
    Ok(Measured {
        ledger: scratch.map_or("a file", Scratch::kind),
        transport: args.transport.clone(),
        entries: u64::from(args.entries),
        settle_seconds,
        per_second,
        single_per_second,
        ratio: per_second / single_per_second,
        steady,
        audit_ok: audited.ok,
    })
}

async fn open(backend: &Backend, shares: u32) -> anyhow::Result<CampaignId> {
    let (engine, ledger) = (&*backend.engine, &*backend.ledger);
    stage::red_packet_on(engine, ledger, shares, AckLevel::Memory).await
}

/// Claims for users `from` to `from + count`, many at a time; all must be granted.
async fn grab(
    engine: &Arc<dyn Engine>,
    packet: CampaignId,
    from: u32,
    count: u32,
) -> anyhow::Result<()> {
    let mut tickets = std::collections::VecDeque::with_capacity(WAITING);
    let mut users = from..from + count;
    loop {
        while tickets.len() < WAITING
            && let Some(n) = users.next()
        {
            tickets.push_back(engine.claim(claim(packet, n)?));
        }
        let Some(ticket) = tickets.pop_front() else {
            return Ok(());
        };
        let claimed = ticket.await?;
        ensure!(claimed.outcome.grant().is_some(), "a claim was not granted");
    }
}

fn claim(campaign: CampaignId, n: u32) -> anyhow::Result<Claim> {
    Ok(Claim {
        campaign,
        kind: Kind::RedPacket,
        user: UserId::new(&format!("user-{n}"))?,
        quantity: 1,
        key: None,
    })
}

/// Claims at a steady rate, and watches how far settlement is behind.
async fn rush(args: &SettlementArgs, backend: &Backend) -> anyhow::Result<Steady> {
    let total = args.rate * args.seconds;
    let packet = open(backend, total).await?;
    let (mut asked, mut lag_max) = (0_u32, 0);
    let lag = || {
        let (head, settled) = backend.gauges.positions();
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
            let engine = Arc::clone(&backend.engine);
            let (from, count) = (asked, due - asked);
            rounds.spawn(async move { grab(&engine, packet, from, count).await });
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
    let settled = backend.settle(SETTLE_MAX).await?;
    ensure!(settled, "the ledger did not catch up");
    Ok(Steady {
        asked_per_second: args.rate,
        granted_per_second: f64::from(total) / seconds,
        lag_max,
        lag_at_end,
        caught_up_seconds: ended.elapsed().as_secs_f64(),
    })
}

/// Rows inserted one by one into a file, each durable by itself: a second.
fn single_rows_in_file(path: &std::path::Path, rows: u32) -> anyhow::Result<f64> {
    let file = rusqlite::Connection::open(path).context("open a file for single rows")?;
    file.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
         CREATE TABLE single (number INTEGER PRIMARY KEY, user TEXT NOT NULL, amount INTEGER NOT NULL)",
    )?;
    let mut insert = file.prepare("INSERT INTO single VALUES (?1, ?2, 100)")?;
    let started = Instant::now();
    for n in 0..rows {
        insert.execute(rusqlite::params![n, format!("user-{n}")])?;
    }
    Ok(f64::from(rows) / started.elapsed().as_secs_f64())
}
