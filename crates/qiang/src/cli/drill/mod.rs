//! `qiang drill`: makes faults on a staging set-up while users buy, and prints what they saw.

mod crowd;
mod faults;
mod report;
mod verify;

use std::{
    collections::HashMap,
    net::SocketAddr,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use qiang::{
    NodeConfig, TokenIssuer, UsageError,
    config::{EngineKind, Secret},
};
use qiang_client::load::client::LoadClient;
use serde_json::json;

use self::{
    crowd::{Crowd, Seen, StagingSale, bearer},
    faults::{Fault, Targets},
    report::{DrillReport, FaultReport},
};
use crate::{backend::BackendArgs, block_on};

/// Maximum number of concurrent users.
const USERS_MAX: u64 = 100;
/// Units of the drill's sale: more than users can buy.
const STOCK: u32 = 10_000_000;
/// Time for which unpaid orders of the drill keep their units.
const HOLD_S: u32 = 3_600;
/// Time without a failure after which users count as served again.
const CALM: Duration = Duration::from_secs(2);
/// Maximum time until users are served again.
const RECOVERED_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Seconds for which users buy before the first fault.
const BEFORE: Duration = Duration::from_secs(3);
/// User of the drill's own requests.
const OPERATOR: &str = "drill";
const SCOPE: &str = "admin read:any campaigns:write campaigns:write:any";

const EXAMPLES: &str = "\
Examples:
  qiang drill --staging --config /etc/qiang/qiang.toml --node 127.0.0.1:8080 --node-pid 4711
  qiang drill --staging --faults ledger,pause --json";

/// Make faults on a staging set-up, one after the other, while users buy. Prints what they saw and how long each fault
/// took.
///
/// For the engine on Redis. It opens a sale of its own and refuses if another campaign is open. Each fault undoes what
/// it changed. At the end it compares each answered order with the ledger, and audits engine and ledger.
///
/// Its requests are signed with auth.hs256_secret. If the Redis user of the configuration may not run CLIENT, CONFIG
/// and SCRIPT, name another one by --redis-user, with its password in QIANG_DRILL_REDIS_PASSWORD.
///
/// Exits 0 if users were served again after each fault and nothing was lost, otherwise 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DrillArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Confirm that no users depend on this set-up. Required.
    #[arg(long)]
    staging: bool,
    /// Address of a node's API, by HTTP. May be repeated. Default: `server.listen`.
    #[arg(long = "node", value_name = "HOST:PORT")]
    nodes: Vec<SocketAddr>,
    /// Process of a node on this machine, which the fault `node` freezes.
    #[arg(long = "node-pid", value_name = "PID", value_parser = clap::value_parser!(i32).range(2..))]
    pids: Vec<i32>,
    /// Faults to make, with commas between: connections, scripts, pause, memory, ledger, node, failover, empty.
    /// Default: all that this set-up allows.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = fault)]
    faults: Vec<Fault>,
    /// Allow the fault `empty`: Redis loses all data, also that of other programs.
    #[arg(long)]
    allow_data_loss: bool,
    /// Redis user for the commands of faults.
    #[arg(long, value_name = "NAME")]
    redis_user: Option<String>,
    /// Concurrent users.
    #[arg(long, value_name = "COUNT", default_value_t = 8,
        value_parser = clap::value_parser!(u64).range(1..=USERS_MAX))]
    users: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn fault(name: &str) -> Result<Fault, String> {
    Fault::from_name(name).ok_or_else(|| {
        let all = Fault::ALL.map(Fault::name).join(", ");
        format!("`{name}` is not one of {all}")
    })
}

pub(crate) fn run(args: &DrillArgs) -> anyhow::Result<ExitCode> {
    if !args.staging {
        let line =
            "a drill makes faults: repeat with --staging where no users depend on the set-up";
        return Err(UsageError::new(line).into());
    }
    let config = args.backend.load(&args.backend.overrides())?;
    if config.engine.kind != EngineKind::Redis {
        let line = "a drill is for `--engine redis`: stop and start an embedded node by hand";
        return Err(UsageError::new(line).into());
    }
    let report = block_on(drill(args, &config))?;
    report::print(&report, args.json)?;
    Ok(ExitCode::from(u8::from(!report.ok)))
}

async fn drill(args: &DrillArgs, config: &NodeConfig) -> anyhow::Result<DrillReport> {
    let nodes = match args.nodes.is_empty() {
        true => vec![config.server.listen],
        false => args.nodes.clone(),
    };
    let targets = Targets {
        config,
        admin: admin(args)?,
        pids: args.pids.clone(),
        allow_data_loss: args.allow_data_loss,
    };
    for pid in &args.pids {
        check_is_node(*pid)?;
    }
    let shop = open(nodes, issuer(config)?).await?;
    if let Err(error) = targets.check_has(&shop.sale).await {
        close(&shop).await?;
        return Err(error);
    }
    let is_stopped = stop_flag()?;
    let crowd = Crowd::start(&shop, usize::try_from(args.users)?);
    let served = async {
        tokio::time::sleep(BEFORE).await;
        let before = crowd.take();
        if before.granted == 0 {
            bail!("no user could buy before the first fault: {before:?}");
        }
        let mut reports = Vec::new();
        for fault in chosen(args) {
            if is_stopped.load(Ordering::Relaxed) {
                break;
            }
            reports.push(one(fault, &targets, &crowd).await);
        }
        Ok(reports)
    };
    let served = served.await;
    let orders = crowd.stop().await;
    let verified = match &served {
        Ok(_) => Some(verify::verify(config, &shop, orders).await),
        Err(_) => None,
    };
    // The sale is closed in any case, and the report is shown in any case.
    if let Err(error) = close(&shop).await {
        eprintln!("{error:#}");
    }
    let faults = served?;
    let verdict = verified.context("not verified")??;
    let is_asked = |fault: &FaultReport| args.faults.is_empty() || fault.skipped.is_none();
    let is_complete = !is_stopped.load(Ordering::Relaxed) && faults.iter().all(is_asked);
    let sale = shop.sale.clone();
    Ok(DrillReport::new(sale, faults, verdict, is_complete))
}

/// Refuses a process that is no node.
fn check_is_node(pid: i32) -> anyhow::Result<()> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    match name.is_ok_and(|name| name.trim() == "qiang") {
        true => Ok(()),
        false => {
            let line = format!("--node-pid {pid}: this is no process of qiang on this machine");
            Err(UsageError::new(line).into())
        }
    }
}

fn chosen(args: &DrillArgs) -> Vec<Fault> {
    match args.faults.is_empty() {
        true => Fault::ALL.to_vec(),
        false => args.faults.clone(),
    }
}

/// Makes a fault, and waits until users are served again.
async fn one(fault: Fault, targets: &Targets<'_>, crowd: &Crowd) -> FaultReport {
    if let Some(reason) = fault.lacks(targets) {
        return FaultReport::skipped(fault, reason.to_owned());
    }
    drop(crowd.take());
    let begun = Instant::now();
    if let Err(error) = fault.make(targets).await {
        return FaultReport::refused(fault, format!("{error:#}"));
    }
    let made = Instant::now();
    let mut is_recovered = false;
    while made.elapsed() < RECOVERED_MAX && !is_recovered {
        tokio::time::sleep(LOOK_EVERY).await;
        let quiet_since = crowd.last_failure().unwrap_or(made).max(made);
        is_recovered = quiet_since.elapsed() >= CALM && crowd.granted() > 0;
    }
    let seen: Seen = crowd.take();
    FaultReport::made(fault, begun, is_recovered, seen)
}

/// A flag that is set by Ctrl-C. The process ends after the present fault, which undoes itself first.
fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    tokio::spawn(async move {
        interrupts.recv().await;
        eprintln!("stopping after this fault");
        set.store(true, Ordering::Relaxed);
    });
    Ok(flag)
}

/// Login for the commands of faults.
fn admin(args: &DrillArgs) -> anyhow::Result<Option<(String, String)>> {
    let Some(user) = &args.redis_user else {
        return Ok(None);
    };
    let password = std::env::var("QIANG_DRILL_REDIS_PASSWORD");
    let password = password.map_err(|_| {
        UsageError::new("--redis-user needs its password in QIANG_DRILL_REDIS_PASSWORD")
    })?;
    Ok(Some((user.clone(), password)))
}

/// Issuer of the tokens of the drill.
fn issuer(config: &NodeConfig) -> anyhow::Result<TokenIssuer> {
    let auth = &config.auth;
    let file = &auth.hs256_secret_file;
    let secret = match file.as_os_str().is_empty() {
        true => auth.hs256_secret.clone(),
        false => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("read {}", file.display()))?;
            Secret::new(text.trim())
        }
    };
    if secret.is_empty() {
        let line = "a drill signs tokens: set auth.hs256_secret or auth.hs256_secret_file on the staging set-up";
        return Err(UsageError::new(line).into());
    }
    let issuer = TokenIssuer::from_secret(secret.expose().as_bytes())?;
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    Ok(issuer.naming(named(&auth.issuer), named(&auth.audience)))
}

/// Opens the drill's sale, if no other campaign is open.
async fn open(nodes: Vec<SocketAddr>, issuer: TokenIssuer) -> anyhow::Result<StagingSale> {
    let token = bearer(&issuer, OPERATOR, SCOPE)?;
    let mut node = LoadClient::connect(nodes[0]).await?;
    for kind in ["sales", "red-packets"] {
        for phase in ["draft", "scheduled", "live", "paused"] {
            let path = format!("/v1/{kind}?all=true&phase={phase}&limit=1");
            let list = node.get(&path, &token).await?.success()?;
            if let Some(campaign) = list["data"].get(0) {
                bail!(
                    "campaign {} is {phase}: a drill runs where no other campaign is open",
                    campaign["id"].as_str().unwrap_or_default()
                );
            }
        }
    }
    let body = json!({
        "title": "drill",
        "stock": STOCK,
        "per_user_limit": 1,
        "unit_price": { "amount": 100, "currency": "CNY" },
        "hold_seconds": HOLD_S,
    });
    let sale = node.create("/v1/sales", &token, &body).await?;
    Ok(StagingSale {
        nodes: Arc::new(nodes),
        issuer: Arc::new(issuer),
        sale,
    })
}

/// Closes the drill's sale.
async fn close(shop: &StagingSale) -> anyhow::Result<()> {
    let token = bearer(&shop.issuer, OPERATOR, SCOPE)?;
    let mut node = LoadClient::connect(shop.nodes[0]).await?;
    let path = format!("/v1/campaigns/{}/close", shop.sale);
    let closed = node.post(&path, &token, Bytes::new()).await?;
    let closed = closed.success().map(drop);
    closed.with_context(|| format!("sale {} stays open", shop.sale))
}

/// Orders by user.
type Orders = HashMap<String, String>;
