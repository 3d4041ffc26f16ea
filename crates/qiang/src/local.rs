//! A node for a demonstration or a benchmark: in this process, on a free loopback port, with its data in a temporary
//! folder. It has no limits for users and addresses, because one program makes the whole load.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use qiang_api::{TokenIssuer, config::Secret};
use qiang_core::{id::UserId, ports::Clock as _};
use qiang_embedded::SystemClock;
use tokio::net::TcpListener;

use crate::{
    backend::Backend,
    config::{NodeConfig, TransportName},
    scratch::Scratch,
    server::{NodeStarter, RunningNode},
};

/// Lifetime of users' tokens, in seconds.
const TOKEN_S: i64 = 24 * 3_600;

/// Issues tokens for users of a service.
#[derive(Clone)]
pub struct UserTokens(TokenIssuer);

impl UserTokens {
    /// Issues tokens with the HS256 secret in a file.
    ///
    /// # Errors
    /// If the file cannot be read, or the secret is too short.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let secret = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::from_secret(secret.trim())
    }

    /// Issues tokens with this HS256 secret.
    ///
    /// # Errors
    /// If the secret is too short.
    pub fn from_secret(secret: &str) -> anyhow::Result<Self> {
        Ok(Self(TokenIssuer::from_secret(secret.as_bytes())?))
    }

    /// The value of an `Authorization` header.
    ///
    /// # Errors
    /// When the token cannot be signed.
    pub fn bearer(&self, user: &str, scope: &str) -> anyhow::Result<String> {
        let token = self
            .0
            .issue(&UserId::new(user)?, scope, SystemClock.now(), TOKEN_S)?;
        Ok(format!("Bearer {token}"))
    }
}

/// A running node with its own data and secrets.
pub struct LocalService {
    running: RunningNode,
    backend: Backend,
    tokens: UserTokens,
    secret: String,
    folder: tempfile::TempDir,
    scratch: Option<Scratch>,
}

/// The servers that a local node on Redis uses.
pub struct LocalServers<'a> {
    /// URLs of Redis.
    pub redis: &'a str,
    /// URLs of replicas that serve reads; empty if there are none.
    pub read_urls: &'a str,
    /// URL of a database server for the ledger. `None` keeps the ledger in a file.
    pub ledger: Option<&'a str>,
    /// Transport of entries to the ledger, by its name in the configuration.
    pub transport: &'a str,
    /// The URL of RabbitMQ, for that transport.
    pub rabbitmq: &'a str,
}

impl LocalService {
    /// Starts the node on the embedded engine. With `noop_route`, it also offers a request without effect.
    ///
    /// # Errors
    /// If the folder or the port cannot be used.
    pub async fn start(noop_route: bool) -> anyhow::Result<Self> {
        let mut config = NodeConfig::defaults()?;
        config.server.noop_route = noop_route;
        Self::start_from(config).await
    }

    /// Starts the node on Redis. Its keys and its database are new, and are removed when it stops.
    ///
    /// # Errors
    /// If a server cannot be used. That includes RabbitMQ, although a node could run without it.
    pub async fn start_on_redis(servers: &LocalServers<'_>) -> anyhow::Result<Self> {
        Self::start_on_redis_with(servers, &[]).await
    }

    /// Starts the node on Redis with these keys of the configuration.
    ///
    /// # Errors
    /// As for [`LocalService::start_on_redis`].
    pub async fn start_on_redis_with(
        servers: &LocalServers<'_>,
        keys: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        if servers.transport == TransportName::RabbitMq.name() {
            check_rabbitmq(servers.rabbitmq).await?;
        }
        let name = format!("qiang-demo-{:016x}", rand::random::<u64>());
        let scratch = match servers.ledger {
            Some(server) => Some(Scratch::make(server, &name.replace('-', "_")).await?),
            None => None,
        };
        let mut flags = vec![
            ("engine.kind", "redis".to_owned()),
            ("redis.urls", servers.redis.to_owned()),
            ("redis.prefix", name),
            ("redis.read_urls", servers.read_urls.to_owned()),
            ("settlement.transport", servers.transport.to_owned()),
            ("settlement.rabbitmq_url", servers.rabbitmq.to_owned()),
        ];
        if let Some(scratch) = &scratch {
            flags.push(("ledger.url", scratch.url().to_owned()));
        }
        flags.extend_from_slice(keys);
        let started = Self::start_from(NodeConfig::defaults_with(&flags)?).await;
        match started {
            Ok(local) => Ok(Self { scratch, ..local }),
            Err(error) => {
                if let Some(scratch) = scratch {
                    scratch.drop_database().await?;
                }
                Err(error)
            }
        }
    }

    /// Starts the node with this configuration, apart from data, secret, address and limits.
    ///
    /// # Errors
    /// If the folder, the port or a server cannot be used.
    pub async fn start_from(mut config: NodeConfig) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        config.engine.data = database(&folder);
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let tokens = UserTokens(TokenIssuer::from_secret(secret.as_bytes())?);
        config.auth.hs256_secret = Secret::new(secret.clone());
        // Users of this machine may sign in as anyone.
        config.pages.development = true;
        // One program makes the load from one address, so only the machine limits it.
        config.server.connections_max = u32::from(u16::MAX);
        config.limits.shares_max = qiang_core::split::SHARES_MAX;
        config.limits.disable_rate_limits();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let backend = Backend::open(&config).await?;
        // A service would wait for Redis. A demonstration must fail.
        for partition in backend.ports.log.partitions() {
            if let Err(error) = backend.ports.engine.probe(partition).await {
                backend.close().await?;
                return Err(error).context("nothing can be granted");
            }
        }
        let running = NodeStarter::start(config, backend.clone(), listener).await?;
        Ok(Self {
            running,
            backend,
            tokens,
            secret,
            folder,
            scratch: None,
        })
    }

    /// Address of the listener.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.running.addr()
    }

    /// Issuer of tokens for users of this node.
    #[must_use]
    pub fn tokens(&self) -> &UserTokens {
        &self.tokens
    }

    /// Secret that signs tokens for users of this node.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The file that holds log and ledger.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        database(&self.folder)
    }

    /// URL of the ledger's database; `None` if the ledger is in the file.
    #[must_use]
    pub fn ledger_url(&self) -> Option<&str> {
        self.scratch.as_ref().map(Scratch::url)
    }

    /// Waits until everything granted so far is in the ledger's tables.
    ///
    /// # Errors
    /// When that takes longer than `wait_max`.
    pub async fn settle(&self, wait_max: Duration) -> anyhow::Result<()> {
        self.backend.settle(wait_max).await
    }

    /// Serves until Ctrl-C.
    ///
    /// # Errors
    /// As for [`LocalService::stop`].
    pub async fn serve_on(self) -> anyhow::Result<()> {
        tokio::signal::ctrl_c().await?;
        self.stop().await
    }

    /// Stops the node, and removes its keys and its database.
    ///
    /// # Errors
    /// If the node does not stop, or a server does not answer.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.running.shutdown().await?;
        self.backend.erase().await?;
        match self.scratch {
            Some(scratch) => scratch.drop_database().await,
            None => Ok(()),
        }
    }
}

/// Checks RabbitMQ. A node would fall back to the log, but a demonstration must use the transport that was chosen.
#[cfg(feature = "rabbitmq")]
async fn check_rabbitmq(url: &str) -> anyhow::Result<()> {
    let checked =
        qiang_worker::broker::check(qiang_worker::broker::BrokerOptions::new(url, "demo")).await;
    checked.context(
        "RabbitMQ cannot be used: start it, name its URL with --rabbitmq, or choose another --transport",
    )
}

#[cfg(not(feature = "rabbitmq"))]
async fn check_rabbitmq(_url: &str) -> anyhow::Result<()> {
    Err(TransportName::without_rabbitmq().into())
}

fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("qiang.db")
}
