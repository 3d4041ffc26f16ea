//! The running API: on a listener, until it is stopped.

mod connections;
mod guard;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    app::{App, Ports},
    config::Config,
    metrics::Metrics,
    router::{document, router},
};

/// How often metrics are folded and inactive users forgotten.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Starts the API.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on `listener`, on the current runtime. `config.server.listen` is the caller's business and not
    /// looked at.
    ///
    /// # Errors
    /// When there is no key to check tokens with.
    pub fn start(config: Config, ports: Ports, listener: TcpListener) -> anyhow::Result<Running> {
        let addr = listener.local_addr()?;
        let metrics = Metrics::new(&document());
        let app = Arc::new(App::new(config, ports, metrics)?);
        let (stop, stopping) = watch::channel(false);
        let router = router(Arc::clone(&app));
        let upkeep = tokio::spawn(upkeep(Arc::clone(&app)));
        let accepting = tokio::spawn(connections::serve(app, router, listener, stopping));
        tracing::info!(%addr, "serving");
        Ok(Running {
            addr,
            stop,
            accepting,
            upkeep,
        })
    }
}

/// A running API. Dropped, it goes on until its runtime ends.
pub struct Running {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<connections::Leftover>,
    upkeep: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops accepting, answers what is in flight for at most `server.drain_timeout_ms`, and runs `close`, which closes
    /// the engine. Connections have a moment more to write what the closing engine answered.
    ///
    /// # Errors
    /// When a task of the API has panicked, or `close` fails.
    pub async fn shutdown(
        self,
        close: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let leftover = self.accepting.await.context("the accept loop failed")?;
        self.upkeep.abort();
        let closed = close.await;
        leftover.finish().await;
        closed
    }
}

/// Folds metrics and forgets inactive users.
async fn upkeep(app: Arc<App>) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let app = Arc::clone(&app);
        // A panic there is reported by its hook; the next round tries again.
        drop(tokio::task::spawn_blocking(move || app.upkeep()).await);
    }
}
