//! A node or a worker: a process of `qiang`, and the proxies by which it reaches others and is reached.

use std::{
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use qiang_testkit::{
    proxy::FaultProxy,
    servers::{Resources, ServerProcess},
};

use super::{
    Setup, blocking,
    redis::{RedisSite, ports},
    translate::Translator,
};
use crate::plan::{PARTITIONS, PREFIX, Topology};

/// What tokens are signed with.
pub(crate) const SECRET: &str = "a-secret-for-fault-runs-of-32-bytes-at-least";
/// Campaigns of this supply are spread over all partitions, where nothing else is said.
pub(crate) const SPREAD_FROM: u32 = 2_000;
/// A node that has not accepted by now is not up.
const ACCEPT_MAX: Duration = Duration::from_secs(1);

/// What a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves.
    Node,
    /// Serves and settles.
    SettlingNode,
    /// Settles.
    Worker,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Node | Self::SettlingNode => "node",
            Self::Worker => "worker",
        }
    }
}

/// Where the servers are that all programs share.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// The ledger's database as a URL, and its address in it.
    pub(crate) ledger: String,
    pub(crate) ledger_addr: SocketAddr,
    /// The same for RabbitMQ.
    pub(crate) rabbit: Option<(String, SocketAddr)>,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) role: Role,
    pub(crate) process: ServerProcess,
    /// What users connect to.
    pub(crate) http: FaultProxy,
    pub(crate) ledger: FaultProxy,
    pub(crate) rabbit: Option<FaultProxy>,
    /// To each server, where Sentinels say which one is the primary.
    pub(crate) servers: Vec<FaultProxy>,
    /// To each Sentinel.
    pub(crate) sentinels: Vec<FaultProxy>,
    _translators: Vec<Translator>,
}

impl Program {
    pub(crate) async fn start(
        role: Role,
        setup: &Setup,
        redis: &RedisSite,
        addresses: &Addresses,
    ) -> Result<Self> {
        let mut servers = Vec::new();
        let mut sentinels = Vec::new();
        let mut translators = Vec::new();
        if let RedisSite::Sentinel { set, .. } = redis {
            for server in set.servers() {
                servers.push(FaultProxy::start(server.addr()).await);
            }
            for sentinel in set.sentinels() {
                let ports = ports(redis, &servers);
                let translator = Translator::start(sentinel.addr(), ports).await?;
                sentinels.push(FaultProxy::start(translator.addr()).await);
                translators.push(translator);
            }
        }
        let ledger = FaultProxy::start(addresses.ledger_addr).await;
        let rabbit = match &addresses.rabbit {
            Some((_, addr)) => Some(FaultProxy::start(*addr).await),
            None => None,
        };
        let seeds = match redis {
            RedisSite::Sentinel { .. } => &sentinels,
            RedisSite::Standalone { announced, .. } | RedisSite::Cluster { announced, .. } => {
                announced
            }
        };
        let urls: Vec<String> = seeds
            .iter()
            .map(|proxy| format!("redis://{}", proxy.addr()))
            .collect();
        let moved = |url: &str, from: SocketAddr, to: SocketAddr| {
            url.replace(&from.to_string(), &to.to_string())
        };
        let mut env = vec![
            ("QIANG__REDIS__URLS", urls.join(",")),
            ("QIANG__REDIS__TOPOLOGY", setup.topology.to_string()),
            ("QIANG__REDIS__MASTER", "qiang".to_owned()),
            (
                "QIANG__REDIS__REPLICAS",
                replicas(setup.topology).to_string(),
            ),
            ("QIANG__REDIS__SPREAD_FROM", setup.spread_from.to_string()),
            (
                "QIANG__LEDGER__URL",
                moved(&addresses.ledger, addresses.ledger_addr, ledger.addr()),
            ),
            (
                "QIANG__SETTLEMENT__INSIDE",
                (role == Role::SettlingNode).to_string(),
            ),
        ];
        if let (Some((url, addr)), Some(proxy)) = (&addresses.rabbit, &rabbit) {
            let url = moved(url, *addr, proxy.addr());
            env.push(("QIANG__SETTLEMENT__RABBITMQ_URL", url));
            env.push(("QIANG__SETTLEMENT__TRANSPORT", "rabbitmq".to_owned()));
        }
        let process = blocking(|| launch(role, setup.qiang.clone(), env))
            .with_context(|| format!("start a {}", role.name()))?;
        let http = FaultProxy::start(process.addr()).await;
        Ok(Self {
            role,
            process,
            http,
            ledger,
            rabbit,
            servers,
            sentinels,
            _translators: translators,
        })
    }

    /// Where users connect to.
    pub(crate) fn front(&self) -> SocketAddr {
        self.http.addr()
    }

    /// All its links to Redis.
    pub(crate) fn redis_links(&self) -> impl Iterator<Item = &FaultProxy> {
        self.servers.iter().chain(&self.sentinels)
    }
}

/// How many replicas have a grant of that level: all that a primary has. Whichever is promoted then has it.
fn replicas(topology: Topology) -> u32 {
    match topology {
        Topology::Standalone => 0,
        Topology::Sentinel => 2,
        Topology::Cluster => 1,
    }
}

fn launch(role: Role, program: PathBuf, env: Vec<(&'static str, String)>) -> ServerProcess {
    let command = move |at: &Resources| {
        let mut command = Command::new(&program);
        command.arg(if role == Role::Worker {
            "worker"
        } else {
            "serve"
        });
        command.args(["--engine", "redis"]);
        let listen = match role {
            Role::Worker => "QIANG__WORKER__LISTEN",
            Role::Node | Role::SettlingNode => "QIANG__SERVER__LISTEN",
        };
        let listen = (listen, at.addr().to_string());
        command.envs(env.iter().cloned().chain([listen]));
        command.envs(fixed());
        // All users are one program, and come from one address.
        command.envs(qiang_testkit::NO_LIMITS);
        command
    };
    let is_up = |at: &Resources| TcpStream::connect_timeout(&at.addr(), ACCEPT_MAX).is_ok();
    ServerProcess::builder(command).ready(is_up).start()
}

/// What is the same for all programs. Times are shorter than usual, so that a run has room for many faults.
fn fixed() -> [(&'static str, String); 12] {
    [
        ("QIANG__AUTH__HS256_SECRET", SECRET.to_owned()),
        // Tokens hold for ever: clocks step under the nodes that judge them.
        ("QIANG__AUTH__LIFETIME_S_MAX", "0".to_owned()),
        ("QIANG__REDIS__PREFIX", PREFIX.to_owned()),
        ("QIANG__REDIS__PARTITIONS", PARTITIONS.to_string()),
        ("QIANG__REDIS__SPREAD_OVER", PARTITIONS.to_string()),
        ("QIANG__REDIS__REPLICA_TIMEOUT_MS", "300".to_owned()),
        ("QIANG__REDIS__CALL_TIMEOUT_MS", "1000".to_owned()),
        ("QIANG__REDIS__TRY_FOR_MS", "4000".to_owned()),
        ("QIANG__SETTLEMENT__LEASE_MS", "2000".to_owned()),
        ("QIANG__LEDGER__ACQUIRE_TIMEOUT_MS", "2000".to_owned()),
        ("QIANG__LIMITS__BUYER_RETURN_MS", "3600000".to_owned()),
        ("QIANG__LOG__LEVEL", "info".to_owned()),
    ]
}
