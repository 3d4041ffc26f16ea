//! Start of a node with all red packets live, in a separate process. The memory of the process that created them would
//! include traces of the creations.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use qiang::{Backend, NodeConfig, NodeStarter};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::CampaignsArgs;
use crate::process::{cpu_seconds, resident_bytes};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// Seconds until the node serves.
    pub(super) seconds: f64,
    cpu_seconds: f64,
    pub(super) live: Live,
}

/// Cost of keeping live red packets.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Live {
    memory_bytes: u64,
    /// Processor time without requests, in percent of a core.
    idle_percent: f64,
}

impl Live {
    /// Measures this process while it is idle. `memory_before` is its memory before there were red packets.
    pub(super) async fn watch(memory_before: u64, seconds: u32) -> anyhow::Result<Self> {
        // Background work has ended by then.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let memory_bytes = resident_bytes()?.saturating_sub(memory_before);
        let (watched, cpu_before) = (Instant::now(), cpu_seconds()?);
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        let idle = (cpu_seconds()? - cpu_before) / watched.elapsed().as_secs_f64();
        Ok(Self {
            memory_bytes,
            idle_percent: idle * 100.0,
        })
    }

    pub(super) fn print(&self, what: &str, packets: u32) {
        let bytes = self.memory_bytes as f64 / f64::from(packets);
        let idle = self.idle_percent;
        println!("{what}: {bytes:.0} bytes of memory per packet, idle {idle:.2} % of a core");
    }
}

pub(super) fn in_child(args: &CampaignsArgs, folder: &Path, prefix: &str) -> anyhow::Result<Start> {
    let mut child = Command::new(std::env::current_exe()?);
    child
        .args(["campaigns", "--start", prefix, "--data"])
        .arg(folder);
    child.args(["--idle", &args.idle.to_string()]);
    child.args(["--partitions", &args.partitions.to_string()]);
    if let Some(redis) = &args.redis {
        child.args(["--redis", redis]);
    }
    let output = child.output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the start failed: {complaint}");
    serde_json::from_slice(&output.stdout).context("cannot parse the output of the start")
}

/// Starts a node in this process, and measures it while it is idle.
pub(super) async fn measure(config: NodeConfig, idle_seconds: u32) -> anyhow::Result<Start> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let (memory_before, cpu_before) = (resident_bytes()?, cpu_seconds()?);
    let started = Instant::now();
    let backend = Backend::open(&config).await?;
    let running = NodeStarter::start(config, backend, listener).await?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_started = cpu_seconds()?;
    let live = Live::watch(memory_before, idle_seconds).await?;
    running.shutdown().await?;
    Ok(Start {
        seconds,
        cpu_seconds: cpu_started - cpu_before,
        live,
    })
}
