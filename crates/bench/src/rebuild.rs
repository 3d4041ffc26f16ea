//! `qiang-bench rebuild`: time of a start with many grants in the file, time of the first claim after it, which reloads
//! the grants, and memory per grant.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Instant,
};

use anyhow::{Context as _, ensure};
use qiang_core::{
    campaign::{AckLevel, CampaignKind},
    ports::{Engine as _, ReconcileStore as _},
};
use qiang_embedded::{Embedded, EmbeddedOptions, SystemClock};
use serde::{Deserialize, Serialize};

use crate::{fixture, process::resident_bytes};

/// Measure a start with many grants in the file, the first claim after it, and the memory per grant.
#[derive(Debug, clap::Args)]
pub(crate) struct RebuildArgs {
    /// Grants in the file.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    grants: u32,
    /// Keep the data in this folder instead of a temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only open this file and measure it.
    #[arg(long, value_name = "FILE", hide = true)]
    open: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    grants: u64,
    start_seconds: f64,
    recall_seconds: f64,
    memory_bytes: u64,
    bytes_per_grant: f64,
    file_bytes: u64,
}

pub(crate) async fn run(args: &RebuildArgs) -> anyhow::Result<bool> {
    if let Some(file) = &args.open {
        println!("{}", serde_json::to_string(&open(file).await?)?);
        return Ok(true);
    }
    let (folder, _temporary) = fixture::folder(args.data.as_deref())?;
    let file = folder.join("qiang.db");
    fill(&file, args.grants).await?;
    // A separate process, because the memory of this one includes traces of the filling.
    let child = Command::new(std::env::current_exe()?)
        .args(["rebuild", "--open"])
        .arg(&file)
        .output()?;
    ensure!(
        child.status.success(),
        "reopening failed: {}",
        String::from_utf8_lossy(&child.stderr)
    );
    let measured: Measured =
        serde_json::from_slice(&child.stdout).context("cannot parse the output of reopening")?;
    ensure!(
        measured.grants == u64::from(args.grants),
        "the file has {} grants",
        measured.grants
    );
    if args.json {
        println!("{}", serde_json::to_string(&measured)?);
    } else {
        println!(
            "{} grants: started in {:.3} s, reloaded in {:.2} s; {:.0} bytes of memory and {:.0} of file per grant",
            measured.grants,
            measured.start_seconds,
            measured.recall_seconds,
            measured.bytes_per_grant,
            measured.file_bytes as f64 / measured.grants as f64,
        );
    }
    Ok(true)
}

async fn fill(file: &Path, grants: u32) -> anyhow::Result<()> {
    let backend = fixture::embedded(file)?;
    let (engine, ledger) = (&*backend.ports.engine, &*backend.ports.ledger);
    let campaign = fixture::red_packet(engine, Some(ledger), grants, AckLevel::Fsync).await?;
    fixture::claim_all(engine, campaign, CampaignKind::RedPacket, 0..grants).await?;
    backend.settle(fixture::SETTLE_MAX).await?;
    backend.close().await
}

async fn open(file: &Path) -> anyhow::Result<Measured> {
    let before = resident_bytes()?;
    let started = Instant::now();
    // The claim reloads the red packet, however large it is.
    let options = EmbeddedOptions {
        small_campaign_max: u64::MAX,
        ..EmbeddedOptions::default()
    };
    let embedded = Embedded::open_with(file, Arc::new(SystemClock), options)?;
    let start_seconds = started.elapsed().as_secs_f64();
    let live = embedded.live_campaigns(None, 1).await?;
    let campaign = live.first().context("the file has no live campaign")?.id;
    let claim = fixture::claim(campaign, CampaignKind::RedPacket, "late")?;
    let asked = Instant::now();
    embedded.claim(claim).await?;
    let recall_seconds = asked.elapsed().as_secs_f64();
    let memory_bytes = resident_bytes()?.saturating_sub(before);
    // Besides the grants, the log has one entry: the opening of the red packet.
    let grants = embedded.positions().0.saturating_sub(1);
    embedded.close();
    Ok(Measured {
        grants,
        start_seconds,
        recall_seconds,
        memory_bytes,
        bytes_per_grant: memory_bytes as f64 / grants as f64,
        file_bytes: std::fs::metadata(file)?.len(),
    })
}
