//! The running API: on a listener, until it is stopped.

mod connection_limits;
mod connections;
mod guard;
mod parser;
mod tls;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use tls::Tls;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    app::{App, Ports},
    auth::CurrentVerifier,
    config::{AuthConfig, Config, ServerConfig},
    gauges::Gauges,
    health::Operation,
    limits::Limits,
    metrics::Metrics,
    readiness::Readiness,
    router::{collected, operation_document, operation_router, router},
};

/// How often metrics are folded.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// What a process is that serves the routes for operators alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A service that waits for something before it starts: everything else is answered 503.
    Starting,
    /// A worker: there is nothing else.
    Worker,
}

/// Starts the API.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on `listener`, on the current runtime. `config.server.listen` is the caller's business and not
    /// looked at.
    ///
    /// # Errors
    /// When there is no key to check tokens with, or the certificate cannot be used.
    pub fn start(config: Config, ports: Ports, listener: TcpListener) -> anyhow::Result<Running> {
        let app = Arc::new(App::new(config, ports, Metrics::new(&collected()))?);
        let (upkeep, server) = (Arc::clone(&app), app.config.server.clone());
        let (metrics, readiness) = (Arc::clone(&app.metrics), Arc::clone(&app.readiness));
        let verifier = Some(Arc::clone(&app.verifier));
        let limits = Some(Arc::clone(&app.limits));
        let router = router(app)?;
        let upkeep = move || upkeep.upkeep();
        let parts = (metrics, readiness, verifier);
        start(server, parts, limits, router, listener, upkeep)
    }

    /// Starts serving `/healthz`, `/readyz` and `/metrics` alone on `listener`, on the current runtime.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn start_operation(
        config: ServerConfig,
        role: Role,
        gauges: Arc<dyn Gauges>,
        listener: TcpListener,
    ) -> anyhow::Result<Running> {
        let operation = Operation {
            metrics: Arc::new(Metrics::new(&operation_document())),
            readiness: Arc::default(),
            gauges,
            engine: None,
            waiting: None,
        };
        let (metrics, readiness) = (operation.metrics.clone(), operation.readiness.clone());
        let router = operation_router(operation, role == Role::Starting);
        let folded = Arc::clone(&metrics);
        let upkeep = move || folded.upkeep();
        let parts = (metrics, readiness, None);
        start(config, parts, None, router, listener, upkeep)
    }
}

fn start(
    config: ServerConfig,
    (metrics, readiness, verifier): (Arc<Metrics>, Arc<Readiness>, Option<Arc<CurrentVerifier>>),
    limits: Option<Arc<Limits>>,
    router: Router,
    listener: TcpListener,
    upkeep: impl Fn() + Send + Sync + 'static,
) -> anyhow::Result<Running> {
    let addr = listener.local_addr()?;
    let (stop, stopping) = watch::channel(false);
    let tls = Tls::new(&config)?.map(Arc::new);
    let (certificate, shown) = (tls.clone(), Arc::clone(&metrics));
    let upkeep = move || {
        if let Some(tls) = &certificate {
            shown.show_certificate(tls.refresh());
        }
        upkeep();
    };
    let over_tls = tls.is_some();
    let accepting = connections::serve(config, metrics, limits, tls, router, listener, stopping);
    tracing::info!(%addr, over_tls, "serving");
    Ok(Running {
        addr,
        stop,
        accepting: tokio::spawn(accepting),
        upkeep: tokio::spawn(repeat(Arc::new(upkeep))),
        readiness,
        verifier,
    })
}

/// A running API. Dropped, it goes on until its runtime ends.
pub struct Running {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<connections::Leftover>,
    upkeep: JoinHandle<()>,
    readiness: Arc<Readiness>,
    /// Where tokens are checked.
    verifier: Option<Arc<CurrentVerifier>>,
}

impl Running {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Says on `/readyz` from here on that it is not ready, and serves on.
    pub fn drain(&self) {
        self.readiness.drain();
    }

    /// Checks tokens by these keys from here on. Requests whose token was checked before go on.
    ///
    /// # Errors
    /// When the keys cannot be used; those before stay.
    pub fn reload_auth(&self, config: &AuthConfig) -> anyhow::Result<()> {
        match &self.verifier {
            Some(verifier) => verifier.reload(config),
            None => Ok(()),
        }
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
        // Streams end by it.
        self.readiness.drain();
        self.stop.send_replace(true);
        let leftover = self.accepting.await.context("the accept loop failed")?;
        self.upkeep.abort();
        let closed = close.await;
        leftover.finish().await;
        closed
    }
}

/// Folds metrics.
async fn repeat(upkeep: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let upkeep = Arc::clone(&upkeep);
        // A panic there is reported by its hook; the next round tries again.
        drop(tokio::task::spawn_blocking(move || upkeep()).await);
    }
}
