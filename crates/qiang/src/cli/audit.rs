//! `qiang audit`: proves a ledger's invariants again from its rows.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use qiang::config::{Config, EngineKind, Secret};
use qiang_audit::{EnginePlace, LedgerPlace, Report};

use crate::{backend::REDIS, block_on, secrets::refuse as refuse_password, usage};

const EXAMPLES: &str = "\
Examples:
  qiang audit                            the ledger that the configuration and the environment name
  qiang audit --db /backups/qiang.db     a file
  qiang audit --redis --config q.toml    a configured ledger beside the configured engine on Redis";
/// Where a URL with a password goes.
const LEDGER: &str = "QIANG__LEDGER__URL, or into the file of --config as `ledger.url`, and give --ledger without a \
    value";
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
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The ledger file, instead of the configured ledger.
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// The ledger in a database: the configured one, or postgres://USER@HOST:PORT/DATABASE, mysql:// or mariadb://. A
    /// URL with a password goes into QIANG__LEDGER__URL, for --ledger alone. Without this flag and --db it is the
    /// ledger of the configured engine.
    #[arg(long, value_name = "URL", value_parser = secret, num_args = 0..=1, default_missing_value = "",
        conflicts_with = "db")]
    ledger: Option<Secret>,
    /// Where the archives of the file's log are that `qiang archive` has made. Without it they are looked for beside
    /// the file, and where they were written.
    #[arg(long, value_name = "DIR", conflicts_with = "ledger")]
    archives: Option<PathBuf>,
    /// Hold the ledger against the engine on Redis, too: the configured one, or the server, the Sentinels, or some
    /// nodes of the Cluster that are named here, with commas between, as in `redis.urls`. It is only read. What else
    /// [redis] says is taken from the configuration, as `serve` takes it. A password goes into QIANG__REDIS__PASSWORD.
    #[arg(long, value_name = "URLS", value_parser = secret, num_args = 0..=1, default_missing_value = "")]
    redis: Option<Secret>,
    /// Read this configuration file over the defaults, for the ledger, where neither --db nor --ledger names it, and
    /// for [redis].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What is at those URLs, instead of `redis.topology`: standalone, sentinel or cluster.
    #[arg(long, value_name = "KIND", requires = "redis")]
    topology: Option<String>,
    /// The name that the Sentinels know the primary by, instead of `redis.master`.
    #[arg(long, value_name = "NAME", requires = "redis")]
    master: Option<String>,
    /// What the engine's keys begin with, instead of `redis.prefix`.
    #[arg(long, value_name = "PREFIX", requires = "redis")]
    prefix: Option<String>,
    /// How many partitions the engine has, instead of what it says.
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

/// The ledger's file, or its database: as the flags say, or the configuration.
fn ledger(args: &AuditArgs) -> anyhow::Result<(PathBuf, Option<Secret>)> {
    let config = Config::load(args.config.as_deref(), &[])?;
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
    let config = Config::load(args.config.as_deref(), &overrides)?;
    Ok(Some(EnginePlace {
        partitions: args.partitions,
        ..qiang::engine_place(&config.redis)
    }))
}

/// A URL may have a password in it.
fn secret(url: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(url))
}
