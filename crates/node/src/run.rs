//! What the processes `qiang serve` and `qiang worker` do, from their configuration until SIGTERM or SIGINT.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use qiang_api::{Scope, TokenIssuer, UsageError, check_key, config::Secret};
use qiang_core::{id::UserId, ports::Clock as _};
use qiang_embedded::SystemClock;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    signal::unix::{SignalKind, signal},
};

use crate::{
    backend::Backend,
    config::{Config, EngineKind},
    distributed,
    logging::log_to_stderr,
    server::Server,
};

/// How long the token of a development key is valid.
const DEV_TOKEN_S: i64 = 12 * 3_600;

/// Serves until the process is asked to stop. `on_start` is called with the address once it serves.
///
/// # Errors
/// When something that the configuration names cannot be used, or the node does not stop properly.
pub fn serve(config: Config, on_start: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    log_to_stderr(&config.log)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        // The handlers stand before the service does: a signal during the start is not lost.
        let stop = stop_signal()?;
        check_key(&config.auth)?;
        let listen = config.server.listen;
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("listen on {listen}"))?;
        let backend = Backend::open(&config).await?;
        let running = Server::start(config, backend, listener).await?;
        on_start(running.addr());
        stop.await;
        tracing::info!("stopping: answering what is in flight");
        running.shutdown().await?;
        tracing::info!("stopped");
        Ok(())
    });
    // A commit that hangs must not keep the process: what it would have kept was not acknowledged.
    runtime.shutdown_background();
    served
}

/// Settles without serving until the process is asked to stop.
///
/// # Errors
/// When something that the configuration names cannot be used, or does not close properly.
pub fn settle(config: &Config) -> anyhow::Result<()> {
    if config.engine.kind == EngineKind::Embedded {
        let line = "the embedded engine settles by itself; a worker is for `--engine redis`";
        return Err(UsageError::new(line).into());
    }
    log_to_stderr(&config.log)?;
    runtime()?.block_on(async {
        let stop = stop_signal()?;
        distributed::settle_until(config, Arc::new(SystemClock), stop).await
    })
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
    issuer.issue(user, &scope, SystemClock.now(), DEV_TOKEN_S)
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Registers handlers for SIGTERM and SIGINT, and returns what waits for the first of these.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
