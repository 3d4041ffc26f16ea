//! A node in a process of its own, so that its processor time and memory are measured apart from its clients'.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use qiang::{
    NodeConfig,
    local::{LocalServers, LocalService, UserTokens},
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::fixture::SETTLE_MAX;

/// Answer to a command on the standard input of a node.
const DONE: &str = "done";
/// Command that waits for settlement.
const SETTLE: &str = "settle";

/// Serve until standard input ends. It has commands, one per line: `settle`.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// URL of Redis. Without it, the embedded engine.
    #[arg(long)]
    redis: Option<String>,
    /// URL of the database server for the ledger on Redis.
    #[arg(long)]
    ledger: Option<String>,
    /// Key of the configuration, as key=value.
    #[arg(long)]
    key: Vec<String>,
}

/// First line of a node: its address, secret and places.
#[derive(Debug, Serialize, Deserialize)]
struct Introduction {
    addr: SocketAddr,
    secret: String,
    /// File of engine and ledger, or of the ledger.
    file: PathBuf,
    /// URL of the ledger's database, if it is in one.
    ledger_url: Option<String>,
}

/// Servers of a node, and keys of its configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeSetup {
    pub(crate) redis: Option<String>,
    pub(crate) ledger: Option<String>,
    pub(crate) keys: Vec<(&'static str, String)>,
}

/// A running node. It ends when its input ends, so at the latest with this process.
pub(crate) struct NodeProcess {
    process: Child,
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    pub(crate) addr: SocketAddr,
    pub(crate) tokens: UserTokens,
    pub(crate) file: PathBuf,
    /// URL of the ledger's database, if it is in one.
    pub(crate) ledger_url: Option<String>,
}

impl NodeProcess {
    /// Starts a node, and waits until it serves.
    pub(crate) async fn start(setup: &NodeSetup) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("node")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (flag, value) in [("--redis", &setup.redis), ("--ledger", &setup.ledger)] {
            if let Some(value) = value {
                command.args([flag, value]);
            }
        }
        for (key, value) in &setup.keys {
            command.arg("--key").arg(format!("{key}={value}"));
        }
        let mut process = command.spawn()?;
        let input = process
            .stdin
            .take()
            .context("the node has no standard input")?;
        let output = process
            .stdout
            .take()
            .context("the node has no standard output")?;
        let mut output = BufReader::new(output);
        let (line, output) = spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| (line, output))
        })
        .await??;
        let it: Introduction = serde_json::from_str(&line).context("the node did not start")?;
        Ok(Self {
            process,
            pipes: Some((input, output)),
            addr: it.addr,
            tokens: UserTokens::from_secret(&it.secret)?,
            file: it.file,
            ledger_url: it.ledger_url,
        })
    }

    /// Its process, as in `/proc`.
    pub(crate) fn pid(&self) -> String {
        self.process.id().to_string()
    }

    /// The value of an `Authorization` header.
    pub(crate) fn bearer(&self, user: &str, scope: &str) -> anyhow::Result<HeaderValue> {
        Ok(HeaderValue::try_from(self.tokens.bearer(user, scope)?)?)
    }

    /// Waits until everything granted so far is in the ledger's tables.
    pub(crate) async fn settle(&mut self) -> anyhow::Result<()> {
        let (mut input, mut output) = self.pipes.take().context("the node does not answer")?;
        let answered = spawn_blocking(move || {
            writeln!(input, "{SETTLE}")?;
            let mut line = String::new();
            output.read_line(&mut line)?;
            ensure!(line.trim_end() == DONE, "the node did not settle");
            Ok((input, output))
        });
        self.pipes = Some(answered.await??);
        Ok(())
    }

    /// Stops the node, and removes its data.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.pipes.take());
        let status = spawn_blocking(move || self.process.wait()).await??;
        ensure!(status.success(), "the node failed: {status}");
        Ok(())
    }
}

/// Main function of the node's process.
pub(crate) async fn serve(args: &NodeArgs) -> anyhow::Result<bool> {
    let keys = args.key.iter().map(|key| {
        let (key, value) = key.split_once('=').context("a key without a value")?;
        // The keys live as long as the process.
        Ok((&*key.to_owned().leak(), value.to_owned()))
    });
    let keys: Vec<(&'static str, String)> = keys.collect::<anyhow::Result<_>>()?;
    let local = match &args.redis {
        None => LocalService::start_from(NodeConfig::defaults_with(&keys)?).await?,
        Some(redis) => {
            let servers = LocalServers {
                redis,
                read_urls: "",
                ledger: args.ledger.as_deref(),
                transport: "stream",
                rabbitmq: "",
            };
            LocalService::start_on_redis_with(&servers, &keys).await?
        }
    };
    let it = Introduction {
        addr: local.addr(),
        secret: local.secret().to_owned(),
        file: local.database(),
        ledger_url: local.ledger_url().map(str::to_owned),
    };
    println!("{}", serde_json::to_string(&it)?);
    loop {
        let line = spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin()
                .read_line(&mut line)
                .map(|read| (read, line))
        });
        match line.await?? {
            (0, _) => break,
            (_, line) if line.trim_end() == SETTLE => local.settle(SETTLE_MAX).await?,
            (_, line) => anyhow::bail!("unknown command {line}"),
        }
        println!("{DONE}");
    }
    local.stop().await?;
    Ok(true)
}
