//! Server of the API: from listening to shutdown.

mod admin;
mod connection_limits;
mod connections;
mod guard;
mod heads;
mod open;
mod panics;
mod parser;
mod preface;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use tls::Tls;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::Instant};

pub use self::admin::{Admin, Listeners};

use crate::{
    app::{App, Ports},
    auth::CurrentVerifier,
    config::{ApiConfig, AuthConfig, ServerConfig},
    idempotency::detached::Detached,
    observe::{
        gauges::Gauges,
        metrics::Metrics,
        readiness::Readiness,
        traces::{Exporting, Tracer},
    },
    protect::limits::Limits,
    resources::health::HealthState,
    router::{
        ListenerRoutes, admin_router, collected, operation_document, operation_router, router,
    },
};

/// Interval at which metrics are folded.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Kind of a process that serves only operators' routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A service that waits for its start: other requests are answered 503.
    Starting,
    /// A worker without other routes.
    Worker,
}

/// Server of the API.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Starts serving on these listeners, on the current runtime.
    ///
    /// A single listener also serves operators' routes, except profiles. `config.server.listen` is ignored: the
    /// caller has bound the listener. `surround` gets the router of the API and returns the one to serve publicly.
    ///
    /// # Errors
    /// If there is no key to check tokens with, or the certificate cannot be used.
    pub fn start(
        config: ApiConfig,
        ports: Ports,
        surround: impl FnOnce(Router) -> Router,
        listeners: impl Into<Listeners>,
    ) -> anyhow::Result<RunningServer> {
        let Listeners { public, admin } = listeners.into();
        let app = Arc::new(App::new(config, ports, Metrics::new(&collected()))?);
        let (upkeep, server) = (Arc::clone(&app), app.config.server.clone());
        let (metrics, readiness) = (Arc::clone(&app.metrics), Arc::clone(&app.readiness));
        let verifier = Some(Arc::clone(&app.verifier));
        let drain = Duration::from_millis(server.drain_timeout_ms);
        let detached = Some((Arc::clone(&app.detached), drain));
        let traces = Tracer::start(&app.config.traces, &metrics, &app.ports.clock)?;
        let (tracer, exporting) = traces.unzip();
        let own = PublicListener {
            limits: Some(Arc::clone(&app.limits)),
            tls: Tls::new(&server)?.map(Arc::new),
            tracer,
        };
        let admin = admin.map(|listener| (admin_router(&app), listener));
        let router = surround(router(app, admin.served())?);
        let upkeep = move || upkeep.upkeep();
        let parts = (metrics, readiness, verifier);
        let running = start(server, parts, own, (router, public), admin, upkeep)?;
        Ok(RunningServer {
            exporting,
            detached,
            ..running
        })
    }

    /// Starts serving `/healthz`, `/readyz` and `/metrics` only on these listeners, on the current runtime.
    ///
    /// # Errors
    /// If a listener cannot be used.
    pub fn start_operation(
        mut config: ServerConfig,
        role: Role,
        gauges: Arc<dyn Gauges>,
        listeners: impl Into<Listeners>,
    ) -> anyhow::Result<RunningServer> {
        let Listeners { public, admin } = listeners.into();
        if role == Role::Worker {
            config.request_timeout_ms = admin::request_timeout_ms(&config);
        }
        let operation = HealthState {
            metrics: Arc::new(Metrics::new(&operation_document())),
            readiness: Arc::default(),
            gauges,
            engine: None,
            waiting: None,
            webhooks: None,
        };
        let (metrics, readiness) = (operation.metrics.clone(), operation.readiness.clone());
        let routes = |served| operation_router(operation.clone(), role == Role::Starting, served);
        let admin = admin.map(|listener| (routes(ListenerRoutes::Operation), listener));
        let router = routes(match role {
            Role::Starting => admin.served(),
            // A worker's listener has no other clients.
            Role::Worker => ListenerRoutes::Operation,
        });
        let folded = Arc::clone(&metrics);
        let upkeep = move || folded.upkeep();
        let parts = (metrics, readiness, None);
        let own = PublicListener {
            tls: Tls::new(&config)?.map(Arc::new),
            ..PublicListener::default()
        };
        start(config, parts, own, (router, public), admin, upkeep)
    }
}

/// Parts of the public listener that the operators' listener lacks.
#[derive(Clone, Default)]
struct PublicListener {
    limits: Option<Arc<Limits>>,
    tls: Option<Arc<Tls>>,
    tracer: Option<Arc<Tracer>>,
}

fn start(
    config: ServerConfig,
    (metrics, readiness, verifier): (Arc<Metrics>, Arc<Readiness>, Option<Arc<CurrentVerifier>>),
    own: PublicListener,
    (router, listener): (Router, TcpListener),
    admin: Admin<(Router, TcpListener)>,
    upkeep: impl Fn() + Send + Sync + 'static,
) -> anyhow::Result<RunningServer> {
    let (certificate, shown) = (own.tls.clone(), Arc::clone(&metrics));
    let upkeep = move || {
        if let Some(tls) = &certificate {
            let failing = tls.refresh();
            shown.show_certificate(failing, tls.expires_at_s());
        }
        upkeep();
    };
    let admin = match admin {
        Admin::Apart((router, listener)) => {
            let (config, metrics) = (admin::config(&config), Arc::clone(&metrics));
            let listening =
                Listening::start(config, metrics, PublicListener::default(), router, listener)?;
            tracing::info!(addr = %listening.addr, "serving operators");
            if !listening.addr.ip().is_loopback() {
                tracing::warn!(
                    "admin.listen is not a loopback address; only operators' machines must reach it"
                );
            }
            Some(listening)
        }
        Admin::Shared | Admin::Nowhere => None,
    };
    let over_tls = own.tls.is_some();
    metrics.show_connections_max(config.connections_max);
    let public = Listening::start(config, metrics, own, router, listener)?;
    tracing::info!(addr = %public.addr, over_tls, "serving");
    Ok(RunningServer {
        public,
        admin,
        upkeep: tokio::spawn(repeat(Arc::new(upkeep))),
        following: verifier
            .clone()
            .map(|verifier| tokio::spawn(verifier.follow())),
        readiness,
        verifier,
        exporting: None,
        detached: None,
    })
}

/// A running listener.
struct Listening {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<connections::UnreadBytes>,
}

impl Listening {
    fn start(
        config: ServerConfig,
        metrics: Arc<Metrics>,
        public: PublicListener,
        router: Router,
        listener: TcpListener,
    ) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let accepting = connections::serve(config, metrics, public, router, listener, stopping);
        Ok(Self {
            addr,
            stop,
            accepting: tokio::spawn(accepting),
        })
    }

    /// Stops accepting, and answers requests in flight.
    async fn stop(self) -> anyhow::Result<connections::UnreadBytes> {
        self.stop.send_replace(true);
        self.accepting.await.context("the accept loop failed")
    }
}

/// A running API. If it is dropped, it runs until its runtime ends.
pub struct RunningServer {
    public: Listening,
    admin: Option<Listening>,
    upkeep: JoinHandle<()>,
    /// Task that fetches keys.
    following: Option<JoinHandle<()>>,
    readiness: Arc<Readiness>,
    /// Verifier of tokens.
    verifier: Option<Arc<CurrentVerifier>>,
    /// Task that sends spans.
    exporting: Option<Exporting>,
    /// Requests under idempotency keys, and the time that all requests have after the stop.
    detached: Option<(Arc<Detached>, Duration)>,
}

impl RunningServer {
    /// Address of the public listener.
    pub fn addr(&self) -> SocketAddr {
        self.public.addr
    }

    /// Address of the operators' listener, if there is one of its own.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|admin| admin.addr)
    }

    /// Makes `/readyz` report not ready from now on, while serving continues.
    pub fn drain(&self) {
        self.readiness.drain();
    }

    /// Checks tokens by these keys from now on. Requests whose token was checked before continue.
    ///
    /// # Errors
    /// If the keys cannot be used; the previous keys stay in use.
    pub fn reload_auth(&self, config: &AuthConfig) -> anyhow::Result<()> {
        match &self.verifier {
            Some(verifier) => verifier.reload(config),
            None => Ok(()),
        }
    }

    /// Stops accepting, and waits up to `server.drain_timeout_ms` for requests in flight. They include keyed requests
    /// after their client has disconnected. Then runs `close`, which closes the engine. After that, connections have
    /// a short time to write the engine's last answers.
    ///
    /// # Errors
    /// If a task of the API panicked, or `close` fails.
    pub async fn shutdown(
        self,
        close: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        // This ends the streams.
        self.readiness.drain();
        let begun = Instant::now();
        let leftover = self.public.stop().await?;
        // Stopped after the public listener, so that operators can watch its last answers.
        if let Some(admin) = self.admin {
            admin.stop().await?.finish().await;
        }
        self.upkeep.abort();
        if let Some(following) = self.following {
            following.abort();
        }
        if let Some((detached, drain)) = self.detached {
            detached.finish(begun + drain).await;
        }
        let closed = close.await;
        leftover.finish().await;
        if let Some(exporting) = self.exporting {
            exporting.finish().await;
        }
        closed
    }
}

/// Runs `upkeep` once a second.
async fn repeat(upkeep: Arc<impl Fn() + Send + Sync + 'static>) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let upkeep = Arc::clone(&upkeep);
        // The panic hook reports a panic; the next round tries again.
        drop(tokio::task::spawn_blocking(move || upkeep()).await);
    }
}
