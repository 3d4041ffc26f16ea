//! The running service: engine and ledger wired to the HTTP API, on a listener, until it is told to stop.

mod backend;
mod connections;
mod distributed;
mod guard;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use qiang_control::{
    drafts::DraftOpener,
    host::{Host, Next, Reconciler, Schedule, Stuck},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use self::backend::{Backend, Gauges, TransportReport};
pub(crate) use self::distributed::{Books, settle_until};
use crate::{
    config::Config,
    http::{self, App},
};

/// How often metrics are folded and inactive users forgotten.
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
        let opener = DraftOpener::new(backend.ledger.clone(), backend.engine.clone());
        let drafts = opener.open_all().await.context("open the drafts")?;
        if drafts > 0 {
            tracing::info!(drafts, "opened the campaigns that were drafts");
        }
        let (stop, stopping) = watch::channel(false);
        let router = http::router(Arc::clone(&app));
        let upkeep = Host::new("upkeep");
        upkeep.start("drafts", DraftOpener::SCHEDULE, opener);
        let schedule = Schedule::every(UPKEEP_EVERY);
        upkeep.start("metrics", schedule, Upkeep(Arc::clone(&app)));
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
    upkeep: Host,
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

/// Folds metrics and forgets inactive users.
struct Upkeep(Arc<App>);

impl Reconciler for Upkeep {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let app = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || app.upkeep()).await;
        done.map(|()| Next::Wait)
            .map_err(|panicked| Stuck::Failing(panicked.to_string()))
    }
}
