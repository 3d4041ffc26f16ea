//! The running service: engine and ledger wired to the HTTP API, on a listener, until it is told to stop.

mod connections;
mod guard;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use qiang_core::{
    event::Seq,
    ports::{Clock, Engine, EventLog, Ledger},
};
use qiang_embedded::{Embedded, SystemClock};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    config::{Config, EngineKind},
    http::{self, App},
};

/// How often metrics are folded and quiet users forgotten.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// What operators watch of an engine, beside the ports.
pub trait Gauges: Send + Sync + 'static {
    /// Claims and commands that wait.
    fn queued(&self) -> usize;
    /// The last committed log entry, and the last settled one.
    fn positions(&self) -> (Seq, Seq);
    /// Why settlement is stuck, if it is.
    fn stuck(&self) -> Option<String>;
    /// Why nothing is granted at the moment, if that is so.
    fn stopped(&self) -> Option<String>;
}

impl Gauges for Embedded {
    fn queued(&self) -> usize {
        self.queued()
    }

    fn positions(&self) -> (Seq, Seq) {
        self.positions()
    }

    fn stuck(&self) -> Option<String> {
        self.stuck()
    }

    fn stopped(&self) -> Option<String> {
        self.stopped()
    }
}

/// What the API stands on.
#[derive(Clone)]
pub struct Backend {
    /// Decides claims.
    pub engine: Arc<dyn Engine>,
    /// The books.
    pub ledger: Arc<dyn Ledger>,
    /// What the books follow from.
    pub log: Arc<dyn EventLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What operators watch.
    pub gauges: Arc<dyn Gauges>,
    close: Arc<dyn Fn() + Send + Sync>,
}

impl Backend {
    /// Opens the engine that the configuration names.
    ///
    /// # Errors
    /// When its file cannot be used.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        match config.engine.kind {
            EngineKind::Embedded => {
                let clock = Arc::new(SystemClock);
                let path = &config.engine.data;
                let embedded = Embedded::open(path, clock.clone());
                let embedded = embedded.with_context(|| format!("open {}", path.display()))?;
                Ok(Self::embedded(embedded, clock))
            }
        }
    }

    /// The embedded engine, which is its own ledger and log.
    #[must_use]
    pub fn embedded(embedded: Embedded, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(embedded.clone());
        Self {
            engine: shared.clone(),
            ledger: shared.clone(),
            log: shared.clone(),
            gauges: shared,
            clock,
            close: Arc::new(move || embedded.close()),
        }
    }

    /// Answers everything that was accepted and stops the engine. Blocks meanwhile. Again does nothing.
    pub fn close(&self) {
        (self.close)();
    }
}

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
        let closing = tokio::task::spawn_blocking(move || backend.close());
        let closed = tokio::time::timeout(self.close_timeout, closing).await;
        leftover.finish().await;
        closed
            .context("the engine did not close in time")?
            .context("the engine failed while closing")
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
