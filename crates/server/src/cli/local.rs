//! A service of one's own: started on a free loopback port, with its data in a temporary folder.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use hyper::header::HeaderValue;
use jsonwebtoken::EncodingKey;
use tokio::net::TcpListener;

use super::{scratch::Scratch, token};
use crate::{
    audit::{self, Report},
    config::{Config, Secret},
    serve::{Backend, Running, Server},
};

/// How long the crowd's tokens hold.
const TOKEN_S: i64 = 24 * 3_600;

/// Makes tokens for users.
#[derive(Clone)]
pub(crate) struct Minter(EncodingKey);

impl Minter {
    fn new(secret: &str) -> Self {
        Self(EncodingKey::from_secret(secret.as_bytes()))
    }

    /// By the HS256 secret in a file.
    pub(crate) fn from_file(path: &Path) -> anyhow::Result<Self> {
        let secret = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self::new(secret.trim()))
    }

    /// The value of an `Authorization` header.
    pub(crate) fn token(&self, user: &str, scope: &str) -> anyhow::Result<HeaderValue> {
        let token = token::mint(&self.0, user, scope, TOKEN_S)?;
        Ok(HeaderValue::from_str(&format!("Bearer {token}"))?)
    }
}

/// The service, and the folder that goes with it.
pub(crate) struct Local {
    running: Running,
    backend: Backend,
    minter: Minter,
    folder: tempfile::TempDir,
    scratch: Option<Scratch>,
}

/// Where a service of one's own on Redis has everything.
pub(crate) struct Place<'a> {
    pub(crate) redis: &'a str,
    /// A database server for the ledger; a file without one.
    pub(crate) ledger: Option<&'a str>,
    pub(crate) transport: &'a str,
    pub(crate) rabbitmq: &'a str,
}

impl Local {
    /// Starts it on the embedded engine; with `noop_route`, the request that does nothing is offered too.
    pub(crate) async fn start(noop_route: bool) -> anyhow::Result<Self> {
        let mut config = Config::defaults()?;
        config.server.noop_route = noop_route;
        Self::start_with(config).await
    }

    /// Starts it on Redis, where it has keys of its own until it stops.
    pub(crate) async fn start_on_redis(place: &Place<'_>) -> anyhow::Result<Self> {
        let name = format!("qiang-demo-{:016x}", rand::random::<u64>());
        let scratch = match place.ledger {
            Some(server) => Some(Scratch::make(server, &name.replace('-', "_")).await?),
            None => None,
        };
        let mut flags = vec![
            ("engine.kind", "redis".to_owned()),
            ("redis.urls", place.redis.to_owned()),
            ("redis.prefix", name),
            ("settlement.transport", place.transport.to_owned()),
            ("settlement.rabbitmq_url", place.rabbitmq.to_owned()),
        ];
        if let Some(scratch) = &scratch {
            qiang_ledger::migrate(scratch.url()).await?;
            flags.push(("ledger.url", scratch.url().to_owned()));
        }
        let mut local = Self::start_with(Config::defaults_with(&flags)?).await?;
        local.scratch = scratch;
        Ok(local)
    }

    async fn start_with(mut config: Config) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        config.engine.data = database(&folder);
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let minter = Minter::new(&secret);
        config.auth.hs256_secret = Secret::new(secret);
        // The crowd is one of ours: it may come with as many connections and shares as it likes.
        config.server.connections_max = u32::from(u16::MAX);
        config.limits.shares_max = qiang_core::split::SHARES_MAX;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let backend = Backend::open(&config).await?;
        let running = Server::start(config, backend.clone(), listener).await?;
        Ok(Self {
            running,
            backend,
            minter,
            folder,
            scratch: None,
        })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.running.addr()
    }

    pub(crate) fn minter(&self) -> Minter {
        self.minter.clone()
    }

    pub(crate) fn token(&self, user: &str, scope: &str) -> anyhow::Result<HeaderValue> {
        self.minter.token(user, scope)
    }

    /// The file that holds log and ledger.
    pub(crate) fn database(&self) -> PathBuf {
        database(&self.folder)
    }

    /// Proves the invariants from the ledger's rows.
    pub(crate) async fn audit(&self) -> anyhow::Result<Report> {
        if let Some(scratch) = &self.scratch {
            return audit::audit_ledger(scratch.url()).await;
        }
        let path = self.database();
        tokio::task::spawn_blocking(move || audit::audit(&path)).await?
    }

    /// Waits until everything granted so far is in the ledger's tables.
    pub(crate) async fn settle(&self, wait_max: Duration) -> anyhow::Result<()> {
        let settled = self.backend.settle(wait_max).await?;
        ensure!(
            settled,
            "the ledger did not catch up within {} s",
            wait_max.as_secs()
        );
        Ok(())
    }

    /// Serves until Ctrl-C.
    pub(crate) async fn serve_on(self) -> anyhow::Result<()> {
        tokio::signal::ctrl_c().await?;
        self.stop().await
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.running.shutdown().await?;
        self.backend.erase().await?;
        match self.scratch {
            Some(scratch) => scratch.drop_it().await,
            None => Ok(()),
        }
    }
}

fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("qiang.db")
}
