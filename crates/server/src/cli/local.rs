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

use super::token;
use crate::{
    config::{Config, EngineKind, Secret},
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
}

impl Local {
    /// Starts it on the embedded engine; with `noop_route`, the request that does nothing is offered too.
    pub(crate) async fn start(noop_route: bool) -> anyhow::Result<Self> {
        let mut config = Config::defaults()?;
        config.server.noop_route = noop_route;
        Self::start_with(config).await
    }

    /// Starts it on Redis, where it has keys of its own until it stops.
    pub(crate) async fn start_on_redis(url: &str) -> anyhow::Result<Self> {
        let mut config = Config::defaults()?;
        config.engine.kind = EngineKind::Redis;
        url.clone_into(&mut config.redis.urls);
        config.redis.prefix = format!("qiang-demo-{:016x}", rand::random::<u64>());
        Self::start_with(config).await
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
        self.backend.erase().await
    }
}

fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("qiang.db")
}
