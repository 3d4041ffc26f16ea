//! `qiang audit`: proves the invariants of a ledger from its rows.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use qiang::config::{EngineKind, NodeConfig, Secret};
use qiang_audit::{AuditFindings, EnginePlace, LedgerPlace};

use crate::{backend::REDIS, block_on, secrets::refuse as refuse_password, usage};

const EXAMPLES: &str = "\
Examples:
  qiang audit                            the ledger that the configuration and the environment name
  qiang audit --db /backups/qiang.db     a file
  qiang audit --redis --config q.toml    a configured ledger beside the configured engine on Redis";
/// Places for a URL with a password.
const LEDGER: &str = "QIANG__LEDGER__URL, or into the file of --config as `ledger.url`, and give --ledger without a \
    value";
const BROKEN: u8 = 1;
/// Exit code if the ledger cannot be opened or read.
const NOT_READ: u8 = 2;

/// Prove every invariant from the rows of a ledger: nothing sold twice, nothing lost, every balance explained. Reads an
/// embedded engine's file with its log, or a ledger alone in a file or a database. A ledger alone proves less. The
/// command changes nothing, and works beside running servers and after a crash.
///
/// A ledger in a database is first copied, as of one moment, into a temporary file in the folder TMPDIR.
///
/// With an engine on Redis, entries in flight from its log to the ledger are counted, and are not errors.
///
/// Exits 0 if every check passes, 1 if one fails, and 2 if the ledger cannot be opened or read.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The ledger file, instead of the configured ledger.
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The ledger in a database: the configured one, or postgres://USER@HOST:PORT/DATABASE, mysql:// or mariadb://. Put
    /// a URL with a password into QIANG__LEDGER__URL, and give --ledger without a value. Default, without --db: the
    /// ledger of the configured engine.
    #[arg(long, value_name = "URL", value_parser = secret, num_args = 0..=1, default_missing_value = "",
        conflicts_with = "db")]
    ledger: Option<Secret>,
    /// Folder with the log archives that `qiang log archive` wrote. Default: the folder of the file, and the folder
    /// where they were written.
    #[arg(long, value_name = "DIR", conflicts_with = "ledger")]
    archives: Option<PathBuf>,
    /// Compare the ledger with the engine on Redis, too: the configured one, or the one at these URLs. They name the
    /// server, the Sentinels or some nodes of the Cluster, separated by commas as in `redis.urls`. Redis is only read.
    /// Other settings of [redis] come from the configuration, as for `serve`. Put a password into
    /// QIANG__REDIS__PASSWORD.
    #[arg(long, value_name = "URLS", value_parser = secret, num_args = 0..=1, default_missing_value = "")]
    redis: Option<Secret>,
    /// Configuration file that overrides the defaults. It names the ledger unless --db or --ledger does, and has the
    /// section [redis].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Topology at those URLs, instead of `redis.topology`: standalone, sentinel or cluster.
    #[arg(long, value_name = "KIND", requires = "redis")]
    topology: Option<String>,
    /// Name of the primary at the Sentinels, instead of `redis.master`.
    #[arg(long, value_name = "NAME", requires = "redis")]
    master: Option<String>,
    /// Prefix of the engine's keys, instead of `redis.prefix`.
    #[arg(long, value_name = "PREFIX", requires = "redis")]
    prefix: Option<String>,
    /// Number of the engine's partitions, instead of the number that the engine reports.
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

fn report(args: &AuditArgs) -> anyhow::Result<AuditFindings> {
    let ledger_url = args.ledger.as_ref().map(Secret::expose);
    let redis_urls = args.redis.as_ref().map(Secret::expose);
    refuse_password("--ledger", ledger_url, LEDGER)?;
    refuse_password("--redis", redis_urls, REDIS)?;
    let engine = engine(args)?;
    let (file, url) = ledger(args)?;
    block_on(async {
        match (&url, &engine) {
            (None, None) => qiang_audit::audit_with(&file, args.archives.as_deref()),
            (Some(url), None) => qiang_audit::audit_ledger(url.expose()).await,
            (None, Some(engine)) => {
                qiang_audit::audit_beside(LedgerPlace::File(&file), engine).await
            }
            (Some(url), Some(engine)) => {
                qiang_audit::audit_beside(LedgerPlace::Database(url.expose()), engine).await
            }
        }
    })
}

/// Ledger file, or database URL, from the flags or else the configuration.
fn ledger(args: &AuditArgs) -> anyhow::Result<(PathBuf, Option<Secret>)> {
    let config = NodeConfig::load(args.config.as_deref(), &[])?;
    let configured = config.ledger.url().map(Secret::new);
    let url = match &args.ledger {
        Some(url) if url.is_empty() => {
            let line = "--ledger without a value: `ledger.url` names no database";
            Some(configured.ok_or_else(|| usage(line))?)
        }
        Some(url) => Some(url.clone()),
        None if args.db.is_some() => None,
        None => configured.filter(|_| config.engine.kind == EngineKind::Redis),
    };
    let file = args.db.clone().unwrap_or(config.engine.data);
    Ok((file, url))
}

fn engine(args: &AuditArgs) -> anyhow::Result<Option<EnginePlace>> {
    let Some(urls) = &args.redis else {
        return Ok(None);
    };
    let urls = Some(urls.expose()).filter(|urls| !urls.is_empty());
    let flags = [
        ("redis.urls", urls.map(str::to_owned)),
        ("redis.topology", args.topology.clone()),
        ("redis.master", args.master.clone()),
        ("redis.prefix", args.prefix.clone()),
    ];
    let given = flags.into_iter();
    let overrides: Vec<_> = given
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let config = NodeConfig::load(args.config.as_deref(), &overrides)?;
    Ok(Some(EnginePlace {
        partitions: args.partitions,
        ..qiang::engine_place(&config.redis)
    }))
}

/// Wraps a URL, since it may contain a password.
fn secret(url: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(url))
}
