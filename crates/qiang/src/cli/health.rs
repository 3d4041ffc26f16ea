//! `qiang health`: asks a node or a worker whether it lives or is ready, for health checks of containers.

use std::{process::ExitCode, time::Duration};

use anyhow::Context as _;

/// Ask a node or a worker for /healthz or /readyz. Exits 0 if the answer is 200, otherwise 1.
///
/// For health checks of containers, whose image has no other program.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang health --ready --listen 127.0.0.1:8082")]
pub(crate) struct HealthArgs {
    /// Address of the operators' listener: `admin.listen` of a node, `worker.listen` of a worker. It speaks HTTP.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8082")]
    listen: String,
    /// Ask for /readyz: whether it can grant. Default: /healthz, whether the process answers.
    #[arg(long)]
    ready: bool,
    /// Give up after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let asked = qiang::health::ask(&args.listen, path, Duration::from_secs(args.timeout));
    let (status, body) =
        asked.with_context(|| format!("no answer of http://{}{path}", args.listen))?;
    match args.json {
        true => println!("{}", serde_json::json!({ "status": status, "body": body })),
        false => println!("{status} {}", body.trim()),
    }
    Ok(ExitCode::from(u8::from(status != 200)))
}
