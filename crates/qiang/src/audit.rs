//! `qiang audit`: proves a ledger's invariants again from its rows.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use qiang_audit::{EnginePlace, LedgerPlace, Report, Topology};
use qiang_node::config::{Config, Secret, TopologyKind};

use crate::block_on;

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
    /// Hold the ledger against the engine on this Redis, too: the server, the Sentinels, or some nodes of the Cluster,
    /// with commas between, as in `redis.urls`. It is only read. What else [redis] says is taken from the
    /// configuration, as `serve` takes it.
    #[arg(long, value_name = "URLS", value_parser = secret)]
    redis: Option<Secret>,
    /// Read this configuration file over the defaults, for [redis].
    #[arg(long, value_name = "FILE", requires = "redis")]
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
    let engine = engine(args)?;
    block_on(async {
        match (&args.ledger, &engine) {
            (None, None) => qiang_audit::audit(&args.db),
            (Some(url), None) => qiang_audit::audit_ledger(url.expose()).await,
            (None, Some(engine)) => {
                qiang_audit::audit_beside(LedgerPlace::File(&args.db), engine).await
            }
            (Some(url), Some(engine)) => {
                qiang_audit::audit_beside(LedgerPlace::Database(url.expose()), engine).await
            }
        }
    })
}

fn engine(args: &AuditArgs) -> anyhow::Result<Option<EnginePlace>> {
    let Some(urls) = &args.redis else {
        return Ok(None);
    };
    let flags = [
        ("redis.urls", Some(urls.expose().to_owned())),
        ("redis.topology", args.topology.clone()),
        ("redis.master", args.master.clone()),
        ("redis.prefix", args.prefix.clone()),
    ];
    let given = flags.into_iter();
    let overrides: Vec<_> = given
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let config = Config::load(args.config.as_deref(), &overrides)?;
    let options = config.redis.options();
    Ok(Some(EnginePlace {
        urls: options.urls,
        topology: match config.redis.topology {
            TopologyKind::Standalone => Topology::Standalone,
            TopologyKind::Sentinel => Topology::Sentinel {
                master: config.redis.master,
            },
            TopologyKind::Cluster => Topology::Cluster,
        },
        username: options.username,
        password: options.password,
        database: options.database,
        prefix: options.prefix,
        partitions: args.partitions,
    }))
}

/// A URL may have a password in it.
fn secret(url: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(url))
}
