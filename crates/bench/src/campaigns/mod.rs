//! `qiang-bench campaigns`: many small red packets on the embedded engine or on Redis.
//!
//! It measures the rates of creation, claims and settlement, and the cost of each red packet in memory, in the file and
//! at a start.

mod archived;
mod load;
mod redis;
mod start;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::ensure;
use qiang::{Backend, NodeConfig};
use serde::Serialize;

use self::{
    archived::Archived,
    load::Packets,
    redis::Server,
    start::{Live, Start},
};
use crate::{
    fixture,
    process::{cpu_seconds, resident_bytes},
};

/// Time limit of settlement. Claims from a million red packets change pages all over the file.
const SETTLE_MAX: Duration = Duration::from_secs(7_200);

/// Measure many small red packets.
#[derive(Debug, clap::Args)]
pub(crate) struct CampaignsArgs {
    /// Packets that are live at the same time.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    packets: u32,
    /// Shares of each packet.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    shares: u32,
    /// Claims from packets in memory; default: all shares left after the first claim of each packet, at most a million.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    claims: Option<u64>,
    /// Claim from the packets in order of creation. Without it, consecutive claims are from distant packets.
    #[arg(long)]
    in_turn: bool,
    /// Concurrent creations.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    in_flight: u32,
    /// Concurrent claims.
    #[arg(long, value_name = "N", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    claims_in_flight: u32,
    /// Seconds for which a node with all windows open is watched.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    idle: u32,
    /// Redis to measure instead of the embedded engine; the benchmark creates and removes its own keys. Nothing else
    /// should use this Redis during the run.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Partitions of the engine on Redis.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    partitions: u16,
    /// Keep the data in this folder instead of a temporary one. Its disk is measured.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only measure the start of a node on existing data with this key prefix.
    #[arg(long, value_name = "PREFIX", hide = true, requires = "data")]
    start: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl CampaignsArgs {
    /// Number of claims after the first one from each red packet.
    fn claims(&self) -> u64 {
        let left = u64::from(self.packets) * u64::from(self.shares - 1);
        left.min(self.claims.unwrap_or(1_000_000))
    }

    fn config(&self, folder: &Path, prefix: &str) -> anyhow::Result<NodeConfig> {
        let mut flags = vec![
            ("engine.data", file(folder).display().to_string()),
            (
                "auth.hs256_secret",
                "this node gets no requests at all".to_owned(),
            ),
        ];
        if let Some(redis) = &self.redis {
            flags.extend([
                ("engine.kind", "redis".to_owned()),
                ("redis.urls", redis.clone()),
                ("redis.prefix", prefix.to_owned()),
                ("redis.partitions", self.partitions.to_string()),
            ]);
        }
        NodeConfig::defaults_with(&flags)
    }
}

/// Rate of an operation, and its cost.
#[derive(Debug, Serialize)]
struct Rate {
    count: u64,
    seconds: f64,
    per_second: f64,
    /// Processor time of this process per operation, in µs, including the simulated users.
    cpu_us: f64,
    /// Processor time of Redis per operation, in µs.
    redis_cpu_us: Option<f64>,
    /// Script calls per operation, including periodic calls of the node.
    redis_calls: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    engine: &'static str,
    packets: u32,
    shares: u32,
    created: Rate,
    /// Settlement of the entries of the creations, from the last creation on; `None` if all were settled by then.
    opened_settled: Option<Rate>,
    /// The node that created the red packets, with all of them in memory and no claims.
    live: Live,
    /// A node that starts with all red packets live and no claims.
    start: Start,
    /// First claims from each red packet after a start. The embedded engine reloads the red packet from the file.
    first_claimed: Rate,
    /// Further claims, from red packets in memory.
    claimed: Rate,
    settled: Rate,
    /// Bytes of files per red packet: after the creations, and after settlement of the claims.
    file_bytes_per_packet: (f64, f64),
    /// Bytes of Redis per red packet, including the log: after the creations, and after the claims.
    redis_bytes_per_packet: Option<(f64, f64)>,
    /// The same red packets after their end, with an archived log; `None` on Redis.
    archived: Option<Archived>,
    audit_ok: bool,
}

fn file(folder: &Path) -> PathBuf {
    folder.join("qiang.db")
}

pub(crate) async fn run(args: &CampaignsArgs) -> anyhow::Result<bool> {
    if let (Some(prefix), Some(folder)) = (&args.start, &args.data) {
        let measured = start::measure(args.config(folder, prefix)?, args.idle).await?;
        println!("{}", serde_json::to_string(&measured)?);
        return Ok(true);
    }
    let report = measure(args).await?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_text(&report);
    }
    Ok(report.audit_ok)
}

/// Folder and Redis server under measurement.
struct Meter {
    folder: PathBuf,
    server: Option<Server>,
}

impl Meter {
    /// Runs `work`, and returns its rate and cost per operation.
    async fn rate<T>(
        &mut self,
        count: u64,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<(Rate, T)> {
        let before = match &mut self.server {
            Some(server) => Some(server.work().await?),
            None => None,
        };
        let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
        let done = work.await?;
        let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds()? - cpu_before);
        let (mut redis_cpu_us, mut redis_calls) = (None, None);
        if let (Some(server), Some(before)) = (&mut self.server, before) {
            let after = server.work().await?;
            redis_cpu_us = Some((after.cpu_seconds - before.cpu_seconds) * 1e6 / count as f64);
            redis_calls = Some((after.calls - before.calls) as f64 / count as f64);
        }
        let rate = Rate {
            count,
            seconds,
            per_second: count as f64 / seconds,
            cpu_us: cpu * 1e6 / count as f64,
            redis_cpu_us,
            redis_calls,
        };
        Ok((rate, done))
    }

    /// Total size of the file and its companions in bytes.
    fn file_bytes(&self) -> anyhow::Result<f64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(&self.folder)? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes as f64)
    }

    async fn redis_bytes(&mut self) -> anyhow::Result<Option<f64>> {
        match &mut self.server {
            Some(server) => Ok(Some(server.used_bytes().await?)),
            None => Ok(None),
        }
    }
}

async fn measure(args: &CampaignsArgs) -> anyhow::Result<Report> {
    let (folder, _temporary) = fixture::folder(args.data.as_deref())?;
    ensure!(
        !file(&folder).exists(),
        "the folder {} already has data",
        folder.display()
    );
    let prefix = format!("qiang-bench-{:016x}", rand::random::<u64>());
    let server = match &args.redis {
        Some(url) => Some(Server::connect(url).await?),
        None => None,
    };
    let mut meter = Meter { folder, server };
    let per_packet = |bytes: f64| bytes / f64::from(args.packets);

    let memory_before = resident_bytes()?;
    let backend = Backend::open(&args.config(&meter.folder, &prefix)?).await?;
    let redis_before = meter.redis_bytes().await?;
    let (file, packets) = (file(&meter.folder), u64::from(args.packets));
    let asked = Packets::new(args.packets, args.shares)?;
    asked.fund(&backend).await?;
    let (created, ids) = meter
        .rate(packets, asked.create_all(&backend, args.in_flight))
        .await?;
    let opened_settled = match backend.settle(Duration::ZERO).await {
        Ok(()) => None,
        Err(_) => Some(meter.rate(packets, backend.settle(SETTLE_MAX)).await?.0),
    };
    let redis_created = meter.redis_bytes().await?;
    let live = Live::watch(memory_before, args.idle).await?;
    backend.close().await?;
    let file_created = meter.file_bytes()?;

    let start = start::in_child(args, &meter.folder, &prefix)?;

    let backend = Backend::open(&args.config(&meter.folder, &prefix)?).await?;
    let all = packets + args.claims();
    let claim = |claims| {
        load::claim_all(
            &backend,
            &ids,
            claims,
            (args.claims_in_flight, args.in_turn),
        )
    };
    let (first_claimed, ()) = meter.rate(packets, claim(0..packets)).await?;
    let (claimed, ()) = meter.rate(all - packets, claim(packets..all)).await?;
    let (settled, ()) = meter.rate(all, backend.settle(SETTLE_MAX)).await?;
    let redis_claimed = meter.redis_bytes().await?;
    backend.close().await?;
    backend.erase().await?;
    let file_settled = meter.file_bytes()?;
    let archived = match args.redis {
        None => Some(archived::measure(&meter.folder, args.packets).await?),
        Some(_) => None,
    };
    let audited = tokio::task::spawn_blocking(move || qiang_audit::audit(&file)).await??;
    let redis_bytes = |after: Option<f64>| Some(per_packet(after? - redis_before?));
    Ok(Report {
        engine: if args.redis.is_some() {
            "redis"
        } else {
            "embedded"
        },
        packets: args.packets,
        shares: args.shares,
        created,
        opened_settled,
        live,
        start,
        first_claimed,
        claimed,
        settled,
        file_bytes_per_packet: (per_packet(file_created), per_packet(file_settled)),
        redis_bytes_per_packet: redis_bytes(redis_created).zip(redis_bytes(redis_claimed)),
        archived,
        audit_ok: audited.ok,
    })
}

fn print_text(report: &Report) {
    let print = |what: &str, rate: &Rate| {
        print!(
            "{what}: {} in {:.2} s, {:.0}/s, {:.1} µs of processor time each",
            rate.count, rate.seconds, rate.per_second, rate.cpu_us
        );
        match (rate.redis_cpu_us, rate.redis_calls) {
            (Some(cpu), Some(calls)) => println!("; Redis {cpu:.1} µs, {calls:.2} calls each"),
            _ => println!(),
        }
    };
    let (packets, shares) = (report.packets, report.shares);
    let (live, start) = (&report.live, &report.start);
    println!("{packets} packets of {shares} shares, {}:", report.engine);
    print("created, durable and open", &report.created);
    match &report.opened_settled {
        Some(rate) => print("openings settled afterwards", rate),
        None => println!("openings settled during the creations"),
    }
    print(
        "claimed for the first time, after a start",
        &report.first_claimed,
    );
    print("claimed again, from memory", &report.claimed);
    print("claims settled afterwards", &report.settled);
    live.print("all packets live and in memory", packets);
    println!("start: {:.2} s until the node serves", start.seconds);
    start
        .live
        .print("all packets live, after the start", packets);
    let (created, settled) = report.file_bytes_per_packet;
    println!("file: {created:.0} bytes per packet, {settled:.0} with the claims");
    if let Some((created, claimed)) = report.redis_bytes_per_packet {
        println!("Redis: {created:.0} bytes per packet, {claimed:.0} with the claims");
    }
    if let Some(archived) = &report.archived {
        archived.print();
    }
    println!("audit {}", if report.audit_ok { "ok" } else { "BROKEN" });
}
