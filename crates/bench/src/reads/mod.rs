//! `qiang-bench reads`: reads of a campaign's state through a node, through nginx in front of it and from replicas,
//! compared with a request that does nothing. It also measures how many of a crowd's reads pass nginx to the node.

mod nginx;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, ETAG, HeaderValue},
};
use qiang::local::{LocalServers, LocalService};
use qiang_client::load::client::LoadClient;
use serde::Serialize;
use serde_json::json;

use self::nginx::{ASSET, Nginx, PAGE};

/// Longer than nginx caches a state, so that a crowd's first read reaches the node.
const KEPT: Duration = Duration::from_millis(1_500);

/// Measure reads of a campaign's state through a node, nginx and replicas.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadsArgs {
    /// Redis of the node; its keys get a separate prefix and are removed. Without it, the node uses the embedded
    /// engine.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Read replicas of that Redis, separated by commas; they are measured as well.
    #[arg(long, value_name = "URLS", requires = "redis")]
    read_urls: Option<String>,
    /// Path of the program nginx; by default the installed one.
    #[arg(long, value_name = "FILE")]
    nginx: Option<PathBuf>,
    /// Connections.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    connections: u32,
    /// Seconds of each load.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=30))]
    seconds: u32,
    /// Requests of the crowd: four of five for the state, the others for the page and its asset.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Maximum percentage of the crowd's requests that may reach the node; more is exit code 1.
    #[arg(long, default_value_t = 1.0)]
    at_most: f64,
}

/// Result of the measurement, printed as JSON.
#[derive(Debug, Serialize)]
struct Measured {
    engine: &'static str,
    connections: u32,
    seconds: u32,
    /// Rate of requests that do nothing, on the node's own stack.
    noop_per_second: f64,
    node_per_second: f64,
    nginx_per_second: f64,
    /// Rate with counters from read replicas.
    replicas_per_second: Option<f64>,
    state_bytes: usize,
    crowd: Crowd,
    ok: bool,
}

/// Result of a crowd's reads.
#[derive(Debug, Serialize)]
struct Crowd {
    requests: u64,
    seconds: f64,
    per_second: f64,
    failed: u64,
    reached_node: u64,
    reached_node_percent: f64,
}

pub(crate) async fn run(args: &ReadsArgs) -> anyhow::Result<bool> {
    let node = start(args, None).await?;
    let measured = measure(args, &node).await;
    node.stop().await?;
    let mut measured = measured?;
    if let Some(urls) = &args.read_urls {
        let node = start(args, Some(urls)).await?;
        let rate = async {
            let state = open_sale(&node).await?;
            read(args, node.addr(), &state).await
        };
        let rate = rate.await;
        node.stop().await?;
        measured.replicas_per_second = Some(rate?);
    }
    println!("{}", serde_json::to_string(&measured)?);
    Ok(measured.ok)
}

async fn start(args: &ReadsArgs, read_urls: Option<&str>) -> anyhow::Result<LocalService> {
    let Some(redis) = &args.redis else {
        return LocalService::start(false).await;
    };
    let servers = LocalServers {
        redis,
        read_urls: read_urls.unwrap_or(""),
        ledger: None,
        transport: "stream",
        rabbitmq: "",
    };
    LocalService::start_on_redis(&servers).await
}

async fn measure(args: &ReadsArgs, node: &LocalService) -> anyhow::Result<Measured> {
    let state = open_sale(node).await?;
    let nginx = Nginx::start(args.nginx.as_deref(), node.addr())?;
    let state_bytes = check(&nginx, &state).await?;
    let noop_per_second = read(args, node.addr(), "/healthz").await?;
    let node_per_second = read(args, node.addr(), &state).await?;
    let nginx_per_second = read(args, nginx.addr, &state).await?;
    tokio::time::sleep(KEPT).await;
    let crowd = crowd(args, node, &nginx, &state).await?;
    Ok(Measured {
        engine: if args.redis.is_some() {
            "redis"
        } else {
            "embedded"
        },
        connections: args.connections,
        seconds: args.seconds,
        noop_per_second,
        node_per_second,
        nginx_per_second,
        replicas_per_second: None,
        state_bytes,
        ok: crowd.failed == 0 && crowd.reached_node_percent <= args.at_most,
        crowd,
    })
}

/// Opens a sale and returns the path of its state.
async fn open_sale(node: &LocalService) -> anyhow::Result<String> {
    let operator = HeaderValue::try_from(node.tokens().bearer("bench", "campaigns:write")?)?;
    let price = json!({ "amount": 100, "currency": "CNY" });
    let sale = json!({ "title": "bench", "stock": 100, "unit_price": price });
    let mut client = LoadClient::connect(node.addr()).await?;
    let id = client.create("/v1/sales", &operator, &sale).await?;
    Ok(format!("/v1/campaigns/{id}/state"))
}

/// Checks one answer of each kind and its cache headers. Returns the size of the state in bytes.
async fn check(nginx: &Nginx, state: &str) -> anyhow::Result<usize> {
    let mut client = LoadClient::connect(nginx.addr).await?;
    let body = client.get(state, &nobody()).await?;
    ensure!(body.success()?["now"].is_string(), "the state has no time");
    for (path, kept) in [
        (PAGE, "max-age=60"),
        (ASSET, "immutable"),
        (state, "s-maxage=1"),
    ] {
        let answer = client.get(path, &nobody()).await?;
        ensure!(answer.status == StatusCode::OK, "{path}: {}", answer.status);
        let caching = answer.headers.get(CACHE_CONTROL);
        let caching = caching.map_or("", |text| text.to_str().unwrap_or(""));
        ensure!(caching.contains(kept), "{path}: Cache-Control: {caching}");
        ensure!(answer.headers.contains_key(ETAG), "{path}: no ETag");
    }
    Ok(body.body.len())
}

/// Reads a path repeatedly over all connections. Returns the answers per second.
async fn read(args: &ReadsArgs, addr: SocketAddr, path: &str) -> anyhow::Result<f64> {
    let (started, lasts) = (Instant::now(), Duration::from_secs(u64::from(args.seconds)));
    let tasks: Vec<_> = (0..args.connections)
        .map(|_| {
            let path = path.to_owned();
            tokio::spawn(async move {
                let (mut client, mut answers) = (LoadClient::connect(addr).await?, 0_u64);
                while started.elapsed() < lasts {
                    let answer = client.get(&path, &nobody()).await?;
                    ensure!(answer.status == StatusCode::OK, "{path}: {}", answer.status);
                    answers += 1;
                }
                Ok(answers)
            })
        })
        .collect();
    let mut answers = 0;
    for task in tasks {
        answers += task.await??;
    }
    Ok(answers as f64 / started.elapsed().as_secs_f64())
}

/// Reads the page, its asset and the state through nginx, as a crowd does.
async fn crowd(
    args: &ReadsArgs,
    node: &LocalService,
    nginx: &Nginx,
    state: &str,
) -> anyhow::Result<Crowd> {
    let before = reads_of(node).await?;
    let (started, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..args.connections)
        .map(|_| {
            let (next, state) = (Arc::clone(&next), state.to_owned());
            let (addr, requests) = (nginx.addr, args.requests);
            tokio::spawn(async move {
                let (mut client, mut failed) = (LoadClient::connect(addr).await?, 0_u64);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= requests {
                        return anyhow::Ok(failed);
                    }
                    let path = match n % 10 {
                        0 => PAGE,
                        1 => ASSET,
                        _ => &state,
                    };
                    let answer = client.get(path, &nobody()).await?;
                    failed += u64::from(answer.status != StatusCode::OK);
                }
            })
        })
        .collect();
    let mut failed = 0;
    for task in tasks {
        failed += task.await??;
    }
    let seconds = started.elapsed().as_secs_f64();
    // The reads of the counter itself are not counted.
    let reached_node = reads_of(node).await? - before;
    Ok(Crowd {
        requests: args.requests,
        seconds,
        per_second: args.requests as f64 / seconds,
        failed,
        reached_node,
        reached_node_percent: 100.0 * reached_node as f64 / args.requests as f64,
    })
}

/// Number of requests that a node has answered, except those of `/metrics`.
async fn reads_of(node: &LocalService) -> anyhow::Result<u64> {
    let mut client = LoadClient::connect(node.addr()).await?;
    let answer = client.get("/metrics", &nobody()).await?;
    let text = std::str::from_utf8(&answer.body)?;
    let mut count = 0;
    for line in text.lines() {
        let is_count = line.starts_with("qiang_http_request_duration_seconds_count{");
        if is_count && !line.contains("route=\"/metrics\"") {
            let (_, value) = line.rsplit_once(' ').context("a metric has no value")?;
            count += value.parse::<u64>()?;
        }
    }
    Ok(count)
}

/// Empty token: no `Authorization` header.
fn nobody() -> HeaderValue {
    HeaderValue::from_static("")
}
