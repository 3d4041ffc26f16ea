//! `qiang-bench soak`: a node under a steady load with all background work.
//!
//! The node is a process of its own. Claims of a sale with stock, claims of a sold-out sale, and payments arrive at a
//! fixed rate, a share of the measured capacity. Unpaid orders expire. Beside them, streams watch the sale, the ledger
//! is audited or compared with the engine, and the file is backed up. Sales follow each other, so that memory settles.

mod background;
mod load;
mod report;

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    fixture,
    node_process::{NodeProcess, NodeSetup},
};

use self::{
    background::{Background, MemorySample},
    load::{SoakLoad, Stage},
    report::SoakReport,
};

/// Load a node at a share of its capacity, with all background work.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    /// Redis to use for the engine; without it, the embedded engine. The benchmark creates and removes its own keys.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Database server of the ledger on Redis; the benchmark creates and drops a database there. By default a file.
    #[arg(long, value_name = "URL", requires = "redis")]
    ledger: Option<String>,
    /// Seconds of the load.
    #[arg(long, default_value_t = 3_600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seconds of a window of the report.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    window: u64,
    /// Share of the measured capacity, in percent.
    #[arg(long, default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: u32,
    /// Clicks per second, instead of that share.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds of the measurement of the capacity, by a closed loop.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=120))]
    measure: u64,
    /// Clicks that are granted, in percent; the others are refused as sold out.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    granted: u32,
    /// Orders that are paid at once, in percent; the others expire.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=100))]
    paid: u32,
    /// Seconds for which an unpaid order is held.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    hold: u32,
    /// Users. Each has one order of a sale, then the next sale begins.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    users: u32,
    /// Streams that watch the sale.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    watchers: u32,
    /// Connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: u32,
    /// Seconds between two audits or reconciliations.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    check_every: u64,
    /// Seconds between two backups of the file.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    backup_every: u64,
    /// Keep the backups in this folder until the next one, instead of a temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &SoakArgs) -> anyhow::Result<bool> {
    let (folder, _temporary) = fixture::folder(args.data.as_deref())?;
    let setup = NodeSetup {
        redis: args.redis.clone(),
        ledger: args.ledger.clone(),
        keys: Vec::new(),
    };
    let mut node = NodeProcess::start(&setup).await?;
    let load = Arc::new(SoakLoad::new(args, &node).await?);
    let closed = Stage {
        rate: None,
        lasts: Duration::from_secs(args.measure),
        window: Duration::from_secs(args.window),
    };
    let measured = Arc::clone(&load).run(&closed).await?;
    let capacity = measured.answered() as f64 / args.measure as f64;
    let rate = args
        .rate
        .unwrap_or(capacity * f64::from(args.percent) / 100.0);
    let stage = Stage {
        rate: Some(rate),
        lasts: Duration::from_secs(args.seconds),
        ..closed
    };
    let mut samples = vec![MemorySample::take("start", args, &node).await?];
    let background = Background::start(args, &node, folder, Arc::clone(&load)).await?;
    let running = tokio::spawn(Arc::clone(&load).run_stage(stage));
    tokio::time::sleep(stage.lasts / 2).await;
    samples.push(MemorySample::take("middle", args, &node).await?);
    let stats = running.await??;
    samples.push(MemorySample::take("end", args, &node).await?);
    let work = background.stop().await?;
    node.settle().await?;
    let audit_ok = match node.ledger_url.clone() {
        Some(url) => qiang_audit::audit_ledger(&url).await?.ok,
        None => {
            let file = node.file.clone();
            tokio::task::spawn_blocking(move || qiang_audit::audit_served(&file))
                .await??
                .ok
        }
    };
    let sales = load.sales();
    node.stop().await?;
    let report = SoakReport::new(
        args,
        (capacity, rate),
        &stats,
        samples,
        work,
        (sales, audit_ok),
    );
    match args.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => report.print(),
    }
    Ok(report.ok)
}
