//! Node or worker: a process of `qiang`, and the proxies on its connections.

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

/// Key that signs tokens.
pub(crate) const SECRET: &str = "a-secret-for-fault-runs-of-32-bytes-at-least";
/// Default minimum supply of campaigns that are spread over all partitions.
pub(crate) const SHARD_SUPPLY_MIN: u32 = 2_000;
/// Time limit of a check. A node that does not accept in this time is not up.
const ACCEPT_MAX: Duration = Duration::from_secs(1);

/// Role of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Serves users.
    Node,
    /// Serves users and settles.
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

/// Addresses of the servers that all programs share.
#[derive(Debug, Clone)]
pub(crate) struct Addresses {
    /// URL of the ledger's database, and the address in it.
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
    /// Proxy for users.
    pub(crate) http: FaultProxy,
    pub(crate) ledger: FaultProxy,
    pub(crate) rabbit: Option<FaultProxy>,
    /// Proxies to the servers, with Sentinels, which name the primary.
    pub(crate) servers: Vec<FaultProxy>,
    /// Proxies to the Sentinels.
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
            (
                "QIANG__REDIS__SHARD_SUPPLY_MIN",
                setup.shard_supply_min.to_string(),
            ),
            (
                "QIANG__LEDGER__URL",
                moved(&addresses.ledger, addresses.ledger_addr, ledger.addr()),
            ),
            (
                "QIANG__SETTLEMENT__IN_PROCESS",
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

    /// Address for users.
    pub(crate) fn front(&self) -> SocketAddr {
        self.http.addr()
    }

    /// All its proxies to Redis.
    pub(crate) fn redis_links(&self) -> impl Iterator<Item = &FaultProxy> {
        self.servers.iter().chain(&self.sentinels)
    }
}

/// Replicas that must have a grant of level `replica`: all of a primary. So whichever is promoted has the grant.
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
        // All users are one program with one address.
        command.envs(qiang_testkit::NO_LIMITS);
        command
    };
    let is_up = |at: &Resources| TcpStream::connect_timeout(&at.addr(), ACCEPT_MAX).is_ok();
    ServerProcess::builder(command).ready(is_up).start()
}

/// Settings common to all programs. Times are shorter than usual, so that many faults fit in a run.
fn fixed() -> [(&'static str, String); 12] {
    [
        ("QIANG__AUTH__HS256_SECRET", SECRET.to_owned()),
        // Tokens never expire, because the clocks of the nodes that check them jump.
        ("QIANG__AUTH__LIFETIME_S_MAX", "0".to_owned()),
        ("QIANG__REDIS__PREFIX", PREFIX.to_owned()),
        ("QIANG__REDIS__PARTITIONS", PARTITIONS.to_string()),
        ("QIANG__REDIS__SHARDS_MAX", PARTITIONS.to_string()),
        ("QIANG__REDIS__REPLICA_TIMEOUT_MS", "300".to_owned()),
        ("QIANG__REDIS__CALL_TIMEOUT_MS", "1000".to_owned()),
        ("QIANG__REDIS__CLAIM_TIMEOUT_MS", "4000".to_owned()),
        ("QIANG__SETTLEMENT__LEASE_MS", "2000".to_owned()),
        ("QIANG__LEDGER__ACQUIRE_TIMEOUT_MS", "2000".to_owned()),
        ("QIANG__LIMITS__BUYER_RETURN_MS", "3600000".to_owned()),
        ("QIANG__LOG__LEVEL", "info".to_owned()),
    ]
}
