//! `qiang-bench engine`: the test of the Redis + Lua article (20 workers claim 100,000 shares) on the embedded engine,
//! without HTTP, with many waiting users.

use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Instant};

use anyhow::bail;
use hdrhistogram::Histogram;
use qiang_core::{
    campaign::{AckLevel, CampaignKind},
    id::CampaignId,
    outcome::Outcome,
    ports::{Claimed, Engine, PendingReply},
};
use serde::Serialize;

use crate::fixture;

/// Measure the embedded engine alone: durable grants per second, no HTTP.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// Tasks that claim for users.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    workers: u32,
    /// Users who wait for an answer at a time, over all workers.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    in_flight: u32,
    /// Shares of the packet; all are claimed.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    shares: u32,
    /// Keep the data in this folder instead of a temporary one. Its disk is measured.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Measured {
    granted: u64,
    seconds: f64,
    per_second: f64,
    duplicates: u64,
    oversold: u64,
    p50_us: u64,
    p99_us: u64,
    workers: u32,
    in_flight: u32,
    settle_seconds: f64,
    audit_ok: bool,
}

pub(crate) async fn run(args: &EngineArgs) -> anyhow::Result<bool> {
    let measured = measure(args).await?;
    if args.json {
        println!("{}", serde_json::to_string(&measured)?);
    } else {
        println!(
            "{} durable grants in {:.3} s: {:.0}/s ({} users waiting, {} workers)\n\
             latency p50 {} µs, p99 {} µs; duplicates {}, oversold {}, audit {}; settled after {:.2} s more",
            measured.granted,
            measured.seconds,
            measured.per_second,
            measured.in_flight,
            measured.workers,
            measured.p50_us,
            measured.p99_us,
            measured.duplicates,
            measured.oversold,
            if measured.audit_ok { "ok" } else { "BROKEN" },
            measured.settle_seconds,
        );
    }
    Ok(measured.duplicates == 0
        && measured.oversold == 0
        && measured.granted == u64::from(args.shares)
        && measured.audit_ok)
}

async fn measure(args: &EngineArgs) -> anyhow::Result<Measured> {
    let (folder, _temporary) = fixture::folder(args.data.as_deref())?;
    let path = folder.join("qiang.db");
    let backend = fixture::embedded(&path)?;
    let (engine, ledger) = (&backend.ports.engine, &*backend.ports.ledger);
    let campaign =
        fixture::red_packet(&**engine, Some(ledger), args.shares, AckLevel::Fsync).await?;

    let started = Instant::now();
    let workers: Vec<_> = (0..args.workers)
        .map(|worker| {
            // The first workers take the remainder.
            let waiting =
                args.in_flight / args.workers + u32::from(worker < args.in_flight % args.workers);
            tokio::spawn(work(Arc::clone(engine), campaign, worker, waiting as usize))
        })
        .collect();
    let mut numbers = Vec::new();
    let mut latency = Histogram::<u64>::new(3)?;
    for worker in workers {
        let (granted, waited) = worker.await??;
        numbers.extend(granted);
        latency.add(waited)?;
    }
    let seconds = started.elapsed().as_secs_f64();

    let granted = numbers.len() as u64;
    numbers.sort_unstable();
    numbers.dedup();
    let settle_started = Instant::now();
    backend.settle(fixture::SETTLE_MAX).await?;
    let settle_seconds = settle_started.elapsed().as_secs_f64();
    backend.close().await?;
    let audit_ok = tokio::task::spawn_blocking(move || qiang_audit::audit(&path))
        .await??
        .ok;
    Ok(Measured {
        granted,
        seconds,
        per_second: granted as f64 / seconds,
        duplicates: granted - numbers.len() as u64,
        oversold: granted.saturating_sub(u64::from(args.shares)),
        p50_us: latency.value_at_quantile(0.5),
        p99_us: latency.value_at_quantile(0.99),
        workers: args.workers,
        in_flight: args.in_flight,
        settle_seconds,
        audit_ok,
    })
}

/// Claims for one new user after another, with `waiting` claims in flight, until the red packet is empty. Returns the
/// numbers of the grants, and the latencies in µs.
async fn work(
    engine: Arc<dyn Engine>,
    campaign: CampaignId,
    worker: u32,
    waiting: usize,
) -> anyhow::Result<(Vec<u32>, Histogram<u64>)> {
    let mut numbers = Vec::new();
    let mut latency = Histogram::new(3)?;
    let mut tickets: VecDeque<(Instant, PendingReply<Claimed>)> = VecDeque::with_capacity(waiting);
    let mut users = 0_u64;
    let mut empty = waiting == 0;
    loop {
        while !empty && tickets.len() < waiting {
            users += 1;
            let user = format!("u{worker}-{users}");
            let claim = fixture::claim(campaign, CampaignKind::RedPacket, &user)?;
            tickets.push_back((Instant::now(), engine.claim(claim)));
        }
        let Some((asked, ticket)) = tickets.pop_front() else {
            return Ok((numbers, latency));
        };
        match ticket.await?.outcome {
            Outcome::Granted(grant) => numbers.push(grant.number),
            Outcome::SoldOut { .. } => empty = true,
            other => bail!("unexpected outcome of a new user's claim: {}", other.name()),
        }
        latency.record(asked.elapsed().as_micros() as u64)?;
    }
}
