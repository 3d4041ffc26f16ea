//! The running service: engine and ledger wired to the HTTP API, on a listener, until it is told to stop.

mod backend;
mod connections;
mod distributed;
mod guard;
mod watched;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use self::backend::{Backend, Gauges, TransportReport};
pub(crate) use self::distributed::{Books, settle_until};
use crate::{
    config::Config,
    http::{self, App},
};

/// How often metrics are folded and quiet users forgotten.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Starts services.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on `listener`, on the current runtime. `config.server.listen` and `config.engine` are the
    /// caller's business and not looked at.
    ///
    /// # Errors
    /// When there is no key for tokens, or campaigns that wait to be taken up cannot be.
    pub async fn start(
        config: Config,
        backend: Backend,
        listener: TcpListener,
    ) -> anyhow::Result<Running> {
        let addr = listener.local_addr()?;
        let close_timeout = Duration::from_millis(config.server.drain_timeout_ms);
        let app = Arc::new(App::new(config, backend.clone())?);
        let drafts = app
            .open_drafts()
            .await
            .context("take up the campaigns that wait for an engine")?;
        if drafts > 0 {
            tracing::info!(drafts, "took up campaigns that were waiting");
        }
        let (stop, stopping) = watch::channel(false);
        let router = http::router(Arc::clone(&app));
        let upkeep = tokio::spawn(upkeep(Arc::clone(&app)));
        let accepting = tokio::spawn(connections::serve(app, router, listener, stopping));
        tracing::info!(%addr, "serving");
        Ok(Running {
            addr,
            stop,
            accepting,
            upkeep,
            backend,
            close_timeout,
        })
    }
}

/// A running service. Dropped, it goes on until its runtime ends.
pub struct Running {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<connections::Leftover>,
    upkeep: JoinHandle<()>,
    backend: Backend,
    close_timeout: Duration,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops accepting, answers what is in flight, and closes the engine; each of the two may take
    /// `server.drain_timeout_ms`.
    ///
    /// # Errors
    /// When a task of the service has panicked, or the engine does not close.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let leftover = self.accepting.await.context("the accept loop failed")?;
        self.upkeep.abort();
        let backend = self.backend;
        // The engine answers everything that it has accepted before it closes.
        let closed = tokio::time::timeout(self.close_timeout, backend.close()).await;
        leftover.finish().await;
        closed.context("the engine did not close in time")?
    }
}

async fn upkeep(app: Arc<App>) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let app = Arc::clone(&app);
        // A panic there is reported by its hook; the next round tries again.
        let upkeep = Arc::clone(&app);
        drop(tokio::task::spawn_blocking(move || upkeep.upkeep()).await);
        // A request that was cut off between its campaign's funding and its opening has left a draft.
        if let Err(error) = app.open_drafts().await {
            tracing::debug!(%error, "campaigns that wait for an engine could not be taken up");
        }
    }
}
