//! The processes `qiang serve` and `qiang worker`, from reading the configuration to SIGTERM or SIGINT.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use qiang_api::{
    Admin, Role, Scope, TokenIssuer, UsageError, check_accounts, check_key, config::Secret,
};
use qiang_core::{id::UserId, ports::Clock as _, time::Timestamp};
use qiang_embedded::SystemClock;
use tokio::runtime::{Builder, Runtime};

use crate::{
    backend::Backend,
    close_component::CloseComponent as _,
    config::{AuthConfig, EffectiveValues, EngineKind, NodeConfig},
    development_clock, distributed,
    logging::Logging,
    machine::connections_that_fit,
    server::NodeStarter,
    signals::{SignalRequest, Signals, StopSignal},
    start_gauges::{self, Socket, Sockets},
};

/// Lifetime of a development token, in seconds.
const DEV_TOKEN_S: i64 = 12 * 3_600;

/// Serves until the process is asked to stop. Calls `load` to read the configuration at the start, and again at SIGHUP.
/// SIGUSR1 runs all reconcilers. Calls `on_start` with the address once the node serves.
///
/// # Errors
/// If a file, server or key that the configuration names cannot be used, or the node does not stop properly.
pub fn serve(
    load: impl Fn() -> anyhow::Result<NodeConfig>,
    on_start: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let mut config = load()?;
    let started_with = config.effective.clone();
    let logging = Logging::start(&config.log)?;
    config.server.connections_max = connections_that_fit(config.server.connections_max);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        // Handlers are registered before anything opens, so a signal during the start is not lost.
        let mut signals = Signals::register()?;
        check_key(&config.auth)?;
        check_accounts(&config.payments)?;
        let sockets = Sockets::bind(&config).await?;
        let open = async || Backend::open(&config).await;
        let opened = start_gauges::open(&config.server, Some(&sockets), &mut signals, open).await?;
        let Some(backend) = opened else {
            return Ok(());
        };
        let drain_delay = Duration::from_millis(config.server.drain_delay_ms);
        let listeners = sockets.listeners()?;
        // The service closes its listeners when it stops. These copies would keep the sockets open.
        drop(sockets);
        let running = NodeStarter::start(config, backend, listeners).await?;
        on_start(running.addr());
        let obey = |request| match request {
            SignalRequest::Reload => {
                let set_auth = |auth: &_| running.reload_auth(auth);
                let applied = ("[auth] and log.level", &started_with);
                reload(&load, &logging, applied, set_auth);
            }
            SignalRequest::Reconcile => {
                tracing::info!("SIGUSR1: all reconcilers run");
                running.reconcile();
            }
        };
        let stop = signals.stop(obey).await;
        running.drain();
        if stop == StopSignal::Terminate && !drain_delay.is_zero() {
            tracing::info!(
                "stopping: /readyz reports not ready; serving continues for server.drain_delay_ms"
            );
            signals.stop_or(drain_delay).await;
        }
        tracing::info!("stopping: answering what is in flight");
        running.shutdown().await?;
        tracing::info!("stopped");
        Ok(())
    });
    // A commit that hangs must not keep the process alive: its data was not acknowledged.
    runtime.shutdown_background();
    served
}

/// Checks the settings that only [`serve`] reads at its start: the keys of tokens, the accounts at payment services and
/// the level of the log.
///
/// # Errors
/// If one of them cannot be used.
pub fn check(config: &NodeConfig) -> anyhow::Result<()> {
    Logging::check(&config.log)?;
    check_key(&config.auth)?;
    check_accounts(&config.payments)
}

/// Settles without serving claims until the process is asked to stop. Calls `load` to read the configuration at the
/// start, and again at SIGHUP.
///
/// # Errors
/// If a file, server or key that the configuration names cannot be used, or does not close properly.
pub fn settle(load: impl Fn() -> anyhow::Result<NodeConfig>) -> anyhow::Result<()> {
    let config = load()?;
    if config.engine.kind == EngineKind::Embedded {
        let line = "the embedded engine settles its own log; a worker is for `--engine redis`";
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
        let opened =
            start_gauges::open(&config.server, sockets.as_ref(), &mut signals, open).await?;
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
            SignalRequest::Reload => {
                reload(
                    &load,
                    &logging,
                    ("log.level", &config.effective),
                    |_| Ok(()),
                );
            }
            SignalRequest::Reconcile => {
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

/// Reads the configuration again and applies the settings that can change at run time: the keys of tokens and the level
/// of the log. If one of them cannot be used, all keep their values. `what` names the settings that this process has.
/// Other keys that differ from those at the start are logged: they need a restart. The listener reads its own
/// certificate again when the file changes.
fn reload(
    load: &impl Fn() -> anyhow::Result<NodeConfig>,
    logging: &Logging,
    (what, started_with): (&str, &EffectiveValues),
    set_auth: impl Fn(&AuthConfig) -> anyhow::Result<()>,
) {
    let reload = || {
        let config = load()?;
        Logging::check(&config.log)?;
        set_auth(&config.auth)?;
        logging.reload(&config.log)?;
        Ok::<_, anyhow::Error>(config.effective)
    };
    match reload() {
        Ok(now) => {
            tracing::warn!(what, "SIGHUP: read the configuration again");
            let changed = now.changed_keys(started_with);
            let keys: Vec<_> = changed.filter(|key| !is_reloaded(key)).collect();
            if !keys.is_empty() {
                let keys = keys.join(", ");
                tracing::warn!(keys, "SIGHUP: changed keys need a restart");
            }
        }
        Err(error) => tracing::error!(
            reason = format!("{error:#}"),
            "SIGHUP: the configuration cannot be used, and everything stays as it was"
        ),
    }
}

/// Whether SIGHUP applies a key. A worker has no use for those of tokens.
fn is_reloaded(key: &str) -> bool {
    key == "log.level" || key.starts_with("auth.")
}

/// Makes a secret for this process alone, to sign [`development_token`]s with.
///
/// # Errors
/// If the configuration listens on an address that is not loopback.
pub fn make_development_key(config: &mut NodeConfig) -> anyhow::Result<()> {
    let listen = config.server.listen;
    if !listen.ip().is_loopback() {
        let text = format!("--dev is for a loopback address such as 127.0.0.1:8080, not {listen}");
        return Err(UsageError::new(text).into());
    }
    let secret = hex::encode(rand::random::<[u8; 32]>());
    config.auth.use_secret(Secret::new(secret));
    config.pages.development = true;
    Ok(())
}

/// Token of a user with every scope, signed with the secret of the configuration.
///
/// # Errors
/// If it cannot be signed, or the clock of the data cannot be read.
pub fn development_token(config: &NodeConfig, user: &UserId) -> anyhow::Result<String> {
    let scope = Scope::ALL.map(Scope::name).join(" ");
    let issuer = TokenIssuer::from_secret(config.auth.hs256_secret.expose().as_bytes())?;
    issuer.issue(user, &scope, development_time(config)?, DEV_TOKEN_S)
}

/// Whether a service for development may open its sample shop: on data of its own only.
#[must_use]
pub fn has_sample_shop(config: &NodeConfig) -> bool {
    let data = &config.engine.data;
    config.engine.kind == EngineKind::Embedded && development_clock::is_for_development(data)
}

/// Time of a service for development: its clock may have been moved.
///
/// # Errors
/// If the clock of the data cannot be read.
pub fn development_time(config: &NodeConfig) -> anyhow::Result<Timestamp> {
    let ahead_ms = match config.engine.kind {
        EngineKind::Embedded => development_clock::ahead_ms(&config.engine.data)?,
        EngineKind::Redis => 0,
    };
    Ok(SystemClock.now().plus_millis(ahead_ms))
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}
