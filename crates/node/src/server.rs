//! A node that serves: the backend and the API on it, which stop together.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use qiang_control::{drafts::DraftOpener, host::Host};
use tokio::net::TcpListener;

use crate::{backend::Backend, config::Config};

/// Starts nodes.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on `listener`, on the current runtime. `config.server.listen` and `config.engine` are the
    /// caller's business and not looked at.
    ///
    /// # Errors
    /// When there is no key to check tokens with, or a draft cannot be opened.
    pub async fn start(
        config: Config,
        backend: Backend,
        listener: TcpListener,
    ) -> anyhow::Result<Running> {
        let close_timeout = Duration::from_millis(config.server.drain_timeout_ms);
        let ports = backend.ports.clone();
        let opener = DraftOpener::new(Arc::clone(&ports.ledger), Arc::clone(&ports.engine));
        let drafts = opener.open_all().await.context("open the drafts")?;
        if drafts > 0 {
            tracing::info!(drafts, "opened the campaigns that were drafts");
        }
        let api = qiang_api::Server::start(config.api(), ports, listener)?;
        let upkeep = Host::new("upkeep");
        upkeep.start("drafts", DraftOpener::SCHEDULE, opener);
        Ok(Running {
            api,
            upkeep,
            backend,
            close_timeout,
        })
    }
}

/// A running node. Dropped, it serves until its runtime ends.
pub struct Running {
    api: qiang_api::Running,
    upkeep: Host,
    backend: Backend,
    close_timeout: Duration,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.api.addr()
    }

    /// Stops accepting, answers what is in flight, and closes the engine; each of the two may take
    /// `server.drain_timeout_ms`.
    ///
    /// # Errors
    /// When a task of the node has panicked, or the engine does not close.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        let close = async {
            self.upkeep.abort();
            // The engine answers everything that it has accepted before it closes.
            tokio::time::timeout(self.close_timeout, self.backend.close())
                .await
                .context("the engine did not close in time")?
        };
        self.api.shutdown(close).await
    }
}
