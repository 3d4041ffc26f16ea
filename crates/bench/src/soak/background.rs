//! Work beside the load of a soak: streams, checks, backups; and samples of memory and files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::header::HeaderValue;
use qiang::copies;
use qiang_client::load::client::LoadClient;
use serde::Serialize;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{MissedTickBehavior, interval_at},
};

use super::{SoakArgs, load::SoakLoad};
use crate::{http::Watchers, node_process::NodeProcess, process::resident_bytes_of};

/// Interval at which streams look for the next sale.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Memory and files at one moment.
#[derive(Debug, Serialize)]
pub(super) struct MemorySample {
    at: &'static str,
    node_bytes: u64,
    file_bytes: u64,
    wal_bytes: u64,
    redis_bytes: Option<u64>,
}

impl MemorySample {
    pub(super) async fn take(
        at: &'static str,
        args: &SoakArgs,
        node: &NodeProcess,
    ) -> anyhow::Result<Self> {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut wal = node.file.clone().into_os_string();
        wal.push("-wal");
        let redis_bytes = match &args.redis {
            None => None,
            Some(url) => Some(redis_resident_bytes(url).await?),
        };
        Ok(Self {
            at,
            node_bytes: resident_bytes_of(&node.pid())?,
            file_bytes: size(&node.file),
            wal_bytes: size(Path::new(&wal)),
            redis_bytes,
        })
    }

    pub(super) fn line(&self) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let redis = self
            .redis_bytes
            .map(|bytes| format!(", Redis {:.1} MB", mb(bytes)));
        format!(
            "{:<6} node {:.1} MB, file {:.1} MB, its write-ahead log {:.1} MB{}",
            self.at,
            mb(self.node_bytes),
            mb(self.file_bytes),
            mb(self.wal_bytes),
            redis.unwrap_or_default()
        )
    }
}

async fn redis_resident_bytes(url: &str) -> anyhow::Result<u64> {
    let mut info = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let text: String = redis::cmd("INFO")
        .arg("memory")
        .query_async(&mut info)
        .await?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("used_memory_rss:"));
    Ok(line.context("INFO lacks the memory")?.trim().parse()?)
}

/// Counts of the work, and its longest times.
#[derive(Debug, Default, Serialize)]
pub(super) struct BackgroundWork {
    /// Sales that streams watched.
    watched_sales: u64,
    /// Events that they received, at least.
    stream_reads_per_second: f64,
    /// Audits, or reconciliations of all partitions.
    checks: u64,
    check_seconds_max: f64,
    pub(super) failed_checks: u64,
    backups: u64,
    backup_seconds_max: f64,
    backup_bytes: u64,
}

impl BackgroundWork {
    pub(super) fn line(&self) -> String {
        format!(
            "{} sales watched, {:.0} stream reads/s; {} checks ({} failed, at most {:.2} s); {} backups (at most {:.2} \
             s, the last {:.1} MB)",
            self.watched_sales,
            self.stream_reads_per_second,
            self.checks,
            self.failed_checks,
            self.check_seconds_max,
            self.backups,
            self.backup_seconds_max,
            self.backup_bytes as f64 / 1e6
        )
    }
}

/// Running work.
pub(super) struct Background {
    ended: watch::Sender<bool>,
    streams: JoinHandle<anyhow::Result<(u64, f64)>>,
    checks: JoinHandle<anyhow::Result<BackgroundWork>>,
    backups: JoinHandle<anyhow::Result<(u64, f64, u64)>>,
}

impl Background {
    pub(super) async fn start(
        args: &SoakArgs,
        node: &NodeProcess,
        folder: PathBuf,
        load: Arc<SoakLoad>,
    ) -> anyhow::Result<Self> {
        let (ended, end) = watch::channel(false);
        let operator = node.bearer("bench", "admin")?;
        let streams = watch_sales(
            node.addr,
            operator.clone(),
            args.watchers,
            load,
            end.clone(),
        );
        let client = LoadClient::connect(node.addr).await?;
        let every = Duration::from_secs(args.check_every);
        let checks = check(client, operator, args.redis.is_some(), every, end.clone());
        let every = Duration::from_secs(args.backup_every);
        let file = node.ledger_url.is_none().then(|| node.file.clone());
        let backups = back_up(file, folder.join("backup.db"), every, end);
        Ok(Self {
            ended,
            streams: tokio::spawn(streams),
            checks: tokio::spawn(checks),
            backups: tokio::spawn(backups),
        })
    }

    /// Ends the work; each kind runs once more or ends what it does.
    pub(super) async fn stop(self) -> anyhow::Result<BackgroundWork> {
        self.ended.send_replace(true);
        let (watched_sales, stream_reads_per_second) = self.streams.await??;
        let (backups, backup_seconds_max, backup_bytes) = self.backups.await??;
        Ok(BackgroundWork {
            watched_sales,
            stream_reads_per_second,
            backups,
            backup_seconds_max,
            backup_bytes,
            ..self.checks.await??
        })
    }
}

/// Whether to run once more: `true` after the interval, `false` at the end.
async fn is_due(every: &mut tokio::time::Interval, end: &mut watch::Receiver<bool>) -> bool {
    tokio::select! {
        _ = every.tick() => true,
        _ = end.wait_for(|ended| *ended) => false,
    }
}

fn every(time: Duration) -> tokio::time::Interval {
    let mut interval = interval_at(tokio::time::Instant::now() + time, time);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Watches the current sale, and the next one when it is current. Returns the sales, and the reads per second.
async fn watch_sales(
    addr: std::net::SocketAddr,
    operator: HeaderValue,
    count: u32,
    load: Arc<SoakLoad>,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<(u64, f64)> {
    let (mut sales, mut reads) = (0, 0.0_f64);
    let mut look = every(LOOK_EVERY);
    loop {
        let sale = load.current();
        let watchers = Watchers::start(addr, &sale, &operator, count).await?;
        sales += 1;
        let mut goes_on = true;
        while goes_on && load.current() == sale {
            goes_on = is_due(&mut look, &mut end).await;
        }
        reads = reads.max(watchers.stop().await?.reads_per_second());
        if !goes_on {
            return Ok((sales, reads));
        }
    }
}

/// Audits the ledger, or compares each partition on Redis with it: at each interval, and once at the end.
async fn check(
    mut client: LoadClient,
    operator: HeaderValue,
    is_redis: bool,
    time: Duration,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<BackgroundWork> {
    let mut work = BackgroundWork::default();
    let mut interval = every(time);
    loop {
        let goes_on = is_due(&mut interval, &mut end).await;
        let begun = Instant::now();
        let ok = match is_redis {
            true => reconcile(&mut client, &operator).await?,
            false => audit(&mut client, &operator).await?,
        };
        work.checks += 1;
        work.failed_checks += u64::from(!ok);
        work.check_seconds_max = work.check_seconds_max.max(begun.elapsed().as_secs_f64());
        if !goes_on {
            return Ok(work);
        }
    }
}

/// Has the node audit its ledger.
async fn audit(client: &mut LoadClient, operator: &HeaderValue) -> anyhow::Result<bool> {
    let begun = client
        .post("/v1/audits", operator, Bytes::new())
        .await?
        .success()?;
    let id = begun["id"]
        .as_str()
        .context("an audit without an id")?
        .to_owned();
    loop {
        let audit = client
            .get(&format!("/v1/audits/{id}"), operator)
            .await?
            .success()?;
        match audit["status"].as_str() {
            Some("running") => tokio::time::sleep(LOOK_EVERY).await,
            status => return Ok(status == Some("ok")),
        }
    }
}

/// Has the node compare each partition with the ledger.
async fn reconcile(client: &mut LoadClient, operator: &HeaderValue) -> anyhow::Result<bool> {
    let listed = client.get("/v1/partitions", operator).await?.success()?;
    let partitions = listed["partitions"]
        .as_array()
        .context("no list of partitions")?;
    let mut ok = true;
    for partition in partitions {
        let path = format!("/v1/partitions/{}/reconcile", partition["partition"]);
        ok &= client
            .post(&path, operator, Bytes::new())
            .await?
            .status
            .is_success();
    }
    Ok(ok)
}

/// Copies the file at each interval, and once at the end. Returns the copies, the longest time, and the last size.
async fn back_up(
    file: Option<PathBuf>,
    to: PathBuf,
    time: Duration,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<(u64, f64, u64)> {
    let (mut copies_made, mut longest, mut bytes) = (0, 0.0_f64, 0);
    let mut interval = every(time);
    loop {
        let goes_on = is_due(&mut interval, &mut end).await;
        // A database is backed up by its own tools.
        if let Some(file) = file.clone() {
            let to = to.clone();
            let begun = Instant::now();
            let copied = spawn_blocking(move || {
                let copied = copies::back_up(&file, &to)?;
                std::fs::remove_file(&to)?;
                anyhow::Ok(copied.bytes)
            });
            bytes = copied.await??;
            copies_made += 1;
            longest = longest.max(begun.elapsed().as_secs_f64());
        }
        if !goes_on {
            return Ok((copies_made, longest, bytes));
        }
    }
}
