//! What the processes `qiang serve` and `qiang worker` do, from their configuration until SIGTERM or SIGINT.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use qiang_api::{Admin, Role, Scope, TokenIssuer, UsageError, check_key, config::Secret};
use qiang_core::{id::UserId, ports::Clock as _};
use qiang_embedded::SystemClock;
use tokio::runtime::{Builder, Runtime};

use crate::{
    backend::Backend,
    close::Close as _,
    config::{AuthConfig, Config, EngineKind},
    distributed,
    logging::Logging,
    machine::connections_that_fit,
    server::Server,
    signals::{Request, Signals, Stop},
    starting::{self, Socket, Sockets},
};

/// How long the token of a development key is valid.
const DEV_TOKEN_S: i64 = 12 * 3_600;

/// Serves until the process is asked to stop. `load` reads the configuration, at the start and again at SIGHUP; SIGUSR1
/// has all reconcilers run.
/// `on_start` is called with the address once it serves.
///
/// # Errors
/// When something that the configuration names cannot be used, or the node does not stop properly.
pub fn serve(
    load: impl Fn() -> anyhow::Result<Config>,
    on_start: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let mut config = load()?;
    let logging = Logging::start(&config.log)?;
    config.server.connections_max = connections_that_fit(config.server.connections_max);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        // The handlers stand before the service does: a signal during the start is not lost.
        let mut signals = Signals::register()?;
        check_key(&config.auth)?;
        let sockets = Sockets::bind(&config).await?;
        let open = async || Backend::open(&config).await;
        let opened = starting::open(&config.server, Some(&sockets), &mut signals, open).await?;
        let Some(backend) = opened else {
            return Ok(());
        };
        let drain_delay = Duration::from_millis(config.server.drain_delay_ms);
        let listeners = sockets.listeners()?;
        // The service closes them when it stops, and then nobody listens any more.
        drop(sockets);
        let running = Server::start(config, backend, listeners).await?;
        on_start(running.addr());
        let obey = |request| match request {
            Request::Reload => {
                let set_auth = |auth: &_| running.reload_auth(auth);
                reload(&load, &logging, "[auth] and log.level", set_auth);
            }
            Request::Reconcile => {
                tracing::info!("SIGUSR1: all reconcilers run");
                running.reconcile();
            }
        };
        let stop = signals.stop(obey).await;
        running.drain();
        if stop == Stop::Terminate && !drain_delay.is_zero() {
            tracing::info!(
                "stopping: not ready any more, and serving on for server.drain_delay_ms"
            );
            signals.stop_or(drain_delay).await;
        }
        tracing::info!("stopping: answering what is in flight");
        running.shutdown().await?;
        tracing::info!("stopped");
        Ok(())
    });
    // A commit that hangs must not keep the process: what it would have kept was not acknowledged.
    runtime.shutdown_background();
    served
}

/// Looks at what [`serve`] finds out at its start: the keys of tokens, the level of the log.
///
/// # Errors
/// When one of these cannot be used.
pub fn check(config: &Config) -> anyhow::Result<()> {
    Logging::check(&config.log)?;
    check_key(&config.auth)
}

/// Settles without serving claims until the process is asked to stop. `load` reads the configuration, at the start and
/// again at SIGHUP.
///
/// # Errors
/// When something that the configuration names cannot be used, or does not close properly.
pub fn settle(load: impl Fn() -> anyhow::Result<Config>) -> anyhow::Result<()> {
    let config = load()?;
    if config.engine.kind == EngineKind::Embedded {
        let line = "the embedded engine settles by itself; a worker is for `--engine redis`";
        return Err(UsageError::new(line).into());
    }
    let logging = Logging::start(&config.log)?;
    runtime()?.block_on(async {
        let mut signals = Signals::register()?;
        let sockets = match config.worker.listen {
            Some(listen) => Some(Sockets {
                public: Socket::bind(listen, "worker.listen").await?,
                admin: Admin::Shared,
            }),
            None => None,
        };
        let open = async || distributed::settle(&config, Arc::new(SystemClock)).await;
        let opened = starting::open(&config.server, sockets.as_ref(), &mut signals, open).await?;
        let Some(worker) = opened else {
            return Ok(());
        };
        let serve = |sockets: Sockets| {
            let (config, listeners) = (config.server.clone(), sockets.listeners()?);
            let gauges = worker.clone();
            qiang_api::Server::start_operation(config, Role::Worker, gauges, listeners)
        };
        let running = sockets.map(serve).transpose()?;
        tracing::info!("settling");
        let obey = |request| match request {
            Request::Reload => reload(&load, &logging, "log.level", |_| Ok(())),
            Request::Reconcile => {
                tracing::info!("SIGUSR1: all reconcilers run");
                worker.wake();
            }
        };
        signals.stop(obey).await;
        tracing::info!("stopping");
        match running {
            Some(running) => {
                running.drain();
                running.shutdown(worker.close()).await
            }
            None => worker.close().await,
        }
    })
}

/// Reads the configuration again and puts what can change at run time in place of what was: the keys of tokens, the
/// level of the log. (The listener's certificates will belong here once it speaks TLS.) If one of these cannot be used,
/// all stay as they are. `what` names what the process has of it.
fn reload(
    load: &impl Fn() -> anyhow::Result<Config>,
    logging: &Logging,
    what: &str,
    set_auth: impl Fn(&AuthConfig) -> anyhow::Result<()>,
) {
    let reload = || {
        let config = load()?;
        Logging::check(&config.log)?;
        set_auth(&config.auth)?;
        logging.reload(&config.log)
    };
    match reload() {
        Ok(()) => tracing::warn!(what, "SIGHUP: read the configuration again"),
        Err(error) => tracing::error!(
            reason = format!("{error:#}"),
            "SIGHUP: the configuration cannot be used, and everything stays as it was"
        ),
    }
}

/// Makes a secret for this process alone, and a token with every scope by it.
///
/// # Errors
/// When the configuration listens where others can connect.
pub fn make_development_key(config: &mut Config, user: &UserId) -> anyhow::Result<String> {
    let listen = config.server.listen;
    if !listen.ip().is_loopback() {
        let text = format!("--dev is for a loopback address such as 127.0.0.1:8080, not {listen}");
        return Err(UsageError::new(text).into());
    }
    let secret = hex::encode(rand::random::<[u8; 32]>());
    let scope = Scope::ALL.map(Scope::name).join(" ");
    let issuer = TokenIssuer::from_secret(secret.as_bytes())?;
    config.auth.use_secret(Secret::new(secret));
    config.pages.development = true;
    issuer.issue(user, &scope, SystemClock.now(), DEV_TOKEN_S)
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}
