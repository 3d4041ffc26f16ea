//! `qiang audit`: proves a ledger's invariants again from its rows.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use crate::{
    audit::{self, EnginePlace, Of, Report},
    config::Secret,
};

/// Something is broken.
const BROKEN: u8 = 1;
/// There was nothing to audit, or it could not be read to the end.
const NOT_READ: u8 = 2;

/// Prove every invariant again from the rows of a ledger: nothing sold twice, nothing lost, every balance explained.
/// Takes an embedded engine's file, with its log, and a ledger alone, in a file or in a database, of which it can prove
/// less. Only reads; works beside running servers and on what a killed one left.
///
/// A ledger in a database is copied first, as of one moment, into a temporary file, whose folder TMPDIR names.
///
/// Beside an engine on Redis, what is in flight from its log into the ledger is understood, and counted.
///
/// Exits 0 when every check holds, 1 when one is broken, and 2 when the ledger cannot be opened or read.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// The ledger file.
    #[arg(long, value_name = "FILE", default_value = "qiang.db")]
    db: PathBuf,
    /// The ledger in a database instead: postgres://USER:PASSWORD@HOST:PORT/DATABASE, or mysql:// or mariadb://.
    #[arg(long, value_name = "URL", value_parser = secret, conflicts_with = "db")]
    ledger: Option<Secret>,
    /// Hold the ledger against the engine on this Redis, too: the server, or the primary. It is only read.
    #[arg(long, value_name = "URL", value_parser = secret)]
    redis: Option<Secret>,
    /// What the engine's keys begin with, as in [redis].
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "qiang",
        requires = "redis"
    )]
    prefix: String,
    /// How many partitions the engine has, as in [redis], instead of what it says.
    #[arg(long, value_name = "COUNT", requires = "redis")]
    partitions: Option<u16>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let report = match report(args) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("{error:#}");
            return Ok(ExitCode::from(NOT_READ));
        }
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        writeln!(out, "{report}")?;
    }
    Ok(if report.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(BROKEN)
    })
}

fn report(args: &AuditArgs) -> anyhow::Result<Report> {
    let engine = args.redis.clone().map(|url| EnginePlace {
        url,
        prefix: args.prefix.clone(),
        partitions: args.partitions,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match (&args.ledger, &engine) {
            (None, None) => audit::audit(&args.db),
            (Some(url), None) => audit::audit_ledger(url.expose()).await,
            (None, Some(engine)) => audit::audit_beside(Of::File(&args.db), engine).await,
            (Some(url), Some(engine)) => {
                audit::audit_beside(Of::Database(url.expose()), engine).await
            }
        }
    })
}

/// A URL may have a password in it.
fn secret(url: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(url))
}
