//! Installation under test: servers, proxies, two nodes and a worker, all real processes.

pub(crate) mod ledger;
pub(crate) mod program;
pub(crate) mod redis;
mod translate;

use std::{
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};
use qiang_testkit::servers::rabbitmq::RabbitMq;
use serde_json::Value;

use self::{
    ledger::{LedgerKind, LedgerSite},
    program::{Addresses, Program, Role},
    redis::RedisSite,
};
use crate::{clock::Clock, plan::Topology};

/// Time between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum time until a node serves after its start, for an unoptimised build on a busy machine.
const UP_MAX: Duration = Duration::from_secs(30);

/// Configuration of an installation.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    /// Whether RabbitMQ carries the entries.
    pub(crate) with_rabbit: bool,
    pub(crate) ledger: LedgerKind,
    /// Minimum supply of campaigns that are spread over all partitions.
    pub(crate) shard_supply_min: u32,
    /// The program `qiang`.
    pub(crate) qiang: PathBuf,
}

/// A running installation. Dropping the value ends all processes.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) setup: Setup,
    /// Two nodes, then the worker.
    pub(crate) programs: Vec<Program>,
    pub(crate) redis: RedisSite,
    pub(crate) ledger: LedgerSite,
    pub(crate) rabbit: Option<RabbitMq>,
    pub(crate) clock: Option<Clock>,
}

impl Installation {
    /// Starts everything, and waits until both nodes are ready.
    pub(crate) async fn start(setup: Setup, clock: Option<Clock>) -> Result<Self> {
        let redis = RedisSite::start(setup.topology).await?;
        let ledger = LedgerSite::start(setup.ledger)?;
        let rabbit = setup
            .with_rabbit
            .then(|| blocking(RabbitMq::start))
            .transpose()?;
        run(Command::new(&setup.qiang).args(["migrate", "--ledger", &ledger.url]))?;
        let addresses = Addresses {
            ledger: ledger.url.clone(),
            ledger_addr: ledger.addr(),
            rabbit: rabbit.as_ref().map(|rabbit| (rabbit.url(), rabbit.addr())),
        };
        let mut programs = Vec::new();
        for role in [Role::Node, Role::SettlingNode, Role::Worker] {
            programs.push(Program::start(role, &setup, &redis, &addresses).await?);
        }
        let installation = Self {
            setup,
            programs,
            redis,
            ledger,
            rabbit,
            clock,
        };
        installation.wait_until_ready().await?;
        Ok(installation)
    }

    /// Address of a node for users.
    pub(crate) fn node(&self, index: usize) -> SocketAddr {
        self.programs[index].front()
    }

    async fn wait_until_ready(&self) -> Result<()> {
        for index in 0..crate::plan::NODES {
            let since = Instant::now();
            while self.readiness(index).await.0 != 200 {
                if since.elapsed() > UP_MAX {
                    bail!(
                        "node {index} is not ready: {:?}",
                        self.readiness(index).await
                    );
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }

    /// Status and text of a node's `/readyz`; 0 if it does not answer.
    pub(crate) async fn readiness(&self, index: usize) -> (u16, String) {
        let ask = async {
            let mut client =
                qiang_client::load::client::LoadClient::connect(self.node(index)).await?;
            let token = hyper::header::HeaderValue::from_static("");
            client.get("/readyz", &token).await
        };
        match tokio::time::timeout(Duration::from_secs(3), ask).await {
            Ok(Ok(answer)) => (
                answer.status.as_u16(),
                String::from_utf8_lossy(&answer.body).into_owned(),
            ),
            Ok(Err(error)) => (0, format!("{error:#}")),
            Err(_) => (0, "no answer in 3 s".to_owned()),
        }
    }

    /// Runs a statement in the ledger and returns lines with `|` between the columns.
    pub(crate) fn sql(&self, statement: &str) -> Result<String> {
        self.ledger.sql(statement)
    }

    /// Units of a campaign that repairs have withheld, on all partitions.
    pub(crate) async fn withheld(&self, campaign: &str) -> Result<u32> {
        let mut units = 0;
        for partition in 0..crate::plan::PARTITIONS {
            let primary = self.redis.wait_for_primary(partition).await?;
            let key = self.redis.key(partition, &format!("c:{campaign}"));
            let reply = self.redis.servers()[primary].call(&["HGET", &key, "withheld"])?;
            units += reply.text().map_or(Ok(0), str::parse::<u32>)?;
        }
        Ok(units)
    }

    /// Output of `qiang audit` for ledger and engine.
    pub(crate) fn audit(&self) -> Result<Value> {
        let mut command = Command::new(&self.setup.qiang);
        command.args(["audit", "--json", "--prefix", crate::plan::PREFIX]);
        command.args(["--ledger", &self.ledger.url]);
        let urls = |servers: &[qiang_testkit::servers::redis::Server]| {
            let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
            urls.join(",")
        };
        match &self.redis {
            RedisSite::Standalone { server, .. } => {
                command.args(["--topology", "standalone", "--redis", &server.url()]);
            }
            RedisSite::Sentinel { set, .. } => {
                let urls = urls(set.sentinels());
                command.args(["--topology", "sentinel", "--master", set.master_name()]);
                command.args(["--redis", &urls]);
            }
            RedisSite::Cluster { cluster, .. } => {
                let urls = urls(cluster.nodes());
                command.args(["--topology", "cluster", "--redis", &urls]);
            }
        }
        let output = command.output().context("run qiang audit")?;
        serde_json::from_slice(&output.stdout).with_context(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("qiang audit ended with {}: {errors}", output.status)
        })
    }

    /// Writes the programs' logs to a folder.
    pub(crate) fn keep_logs(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        for (index, program) in self.programs.iter().enumerate() {
            let file = folder.join(format!("{}-{index}.log", program.role.name()));
            std::fs::write(file, program.process.output())?;
        }
        Ok(())
    }
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command) -> Result<String> {
    let output = blocking(|| command.output())?;
    let output = output.with_context(|| format!("run {:?}", command.get_program()))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {errors}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

/// Runs a synchronous fixture of a server. It panics if the server fails.
///
/// # Errors
/// The panic's text.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> Result<T> {
    let done = tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        anyhow!(text.unwrap_or_else(|| "a panic without text".to_owned()))
    })
}

/// Polls until a condition holds, for a bounded time.
pub(crate) async fn wait_until(
    what: &str,
    max: Duration,
    mut look: impl FnMut() -> bool,
) -> Result<()> {
    let since = Instant::now();
    while !look() {
        if since.elapsed() > max {
            bail!("waited {} s in vain for {what}", max.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
