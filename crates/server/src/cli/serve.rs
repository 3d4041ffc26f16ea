//! `qiang serve`: the service in the foreground, until SIGTERM or SIGINT.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::EnvFilter;

use super::{UsageError, backend::BackendArgs, token};
use crate::{
    config::{Config, DEFAULTS, LogConfig, LogFormat, Secret},
    serve::{Backend, Running, Server},
};

/// How long the token of `--dev` holds.
const DEV_TOKEN_S: i64 = 12 * 3_600;

/// How to serve. Whatever is not a flag here is configuration: see `--print-config`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Listen here instead of at `server.listen`.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Try it out: make a secret that lasts as long as the process, and print a token. Only on a loopback address.
    #[arg(long)]
    dev: bool,
    /// Print the annotated default configuration, and do nothing else.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if args.print_config {
        std::io::stdout().write_all(DEFAULTS.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut overrides = args.backend.overrides();
    overrides.extend(
        args.listen
            .as_ref()
            .map(|listen| ("server.listen", listen.clone())),
    );
    let mut config = args.backend.load(&overrides)?;
    log_to_stderr(&config.log)?;
    let token = if args.dev {
        Some(make_development_key(&mut config)?)
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(config, token.as_deref()));
    // A commit that hangs must not keep the process: what it would have kept was not acknowledged.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config, token: Option<&str>) -> anyhow::Result<()> {
    // The handlers stand before the service does: a signal during the start is not lost.
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let running = start(config).await?;
    if let Some(token) = token {
        print_first_steps(&running, token);
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping: answering what is in flight");
    running.shutdown().await?;
    tracing::info!("stopped");
    Ok(())
}

async fn start(config: Config) -> anyhow::Result<Running> {
    crate::http::check_key(&config.auth)?;
    let listen = config.server.listen;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("listen on {listen}"))?;
    let backend = Backend::open(&config).await?;
    Server::start(config, backend, listener).await
}

/// Makes a secret for this process alone, and a token by it.
fn make_development_key(config: &mut Config) -> anyhow::Result<String> {
    if !config.server.listen.ip().is_loopback() {
        let text = format!(
            "--dev is for a loopback address such as 127.0.0.1:8080, not {}",
            config.server.listen
        );
        return Err(UsageError::new(text).into());
    }
    let secret = hex::encode(rand::random::<[u8; 32]>());
    let token = token::for_development(&secret, "alice", DEV_TOKEN_S)?;
    let auth = &mut config.auth;
    auth.hs256_secret = Secret::new(secret);
    auth.hs256_secret_file = PathBuf::new();
    auth.public_key_file = PathBuf::new();
    auth.issuer.clear();
    auth.audience.clear();
    Ok(token)
}

/// On standard output, where logs do not go.
fn print_first_steps(running: &Running, token: &str) {
    let addr = running.addr();
    let text = format!(
        "Qiang serves on http://{addr} for development; the documentation is at http://{addr}/docs\n\n\
         TOKEN={token}\n\
         curl -sX POST http://{addr}/v1/accounts/alice/deposits -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"amount\":100000,\"currency\":\"CNY\"}}'\n\
         curl -sX POST http://{addr}/v1/red-packets -H \"Authorization: Bearer $TOKEN\" \\\n  \
         -H 'Content-Type: application/json' -d '{{\"title\":\"恭喜发财\",\"total\":{{\"amount\":10000,\
         \"currency\":\"CNY\"}},\"shares\":10,\"split\":{{\"rule\":\"double_average\"}}}}'\n\
         curl -sX POST http://{addr}/v1/red-packets/ID/claims -H \"Authorization: Bearer $TOKEN\"\n"
    );
    // The service is for the network: that nobody reads what it prints is no reason to end.
    drop(std::io::stdout().write_all(text.as_bytes()));
}

pub(super) fn log_to_stderr(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| UsageError::new(format!("log.level is not valid: {error}")))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
