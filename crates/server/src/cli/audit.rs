//! `qiang audit`: proves a ledger's invariants again from its rows.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use crate::{
    audit::{self, Report},
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
/// Exits 0 when every check holds, 1 when one is broken, and 2 when the ledger cannot be opened or read.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// The ledger file.
    #[arg(long, value_name = "FILE", default_value = "qiang.db")]
    db: PathBuf,
    /// The ledger in a database instead: postgres://USER:PASSWORD@HOST:PORT/DATABASE, or mysql:// or mariadb://.
    #[arg(long, value_name = "URL", value_parser = secret, conflicts_with = "db")]
    ledger: Option<Secret>,
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
    let Some(url) = &args.ledger else {
        return audit::audit(&args.db);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(audit::audit_ledger(url.expose()))
}

/// A URL may have a password in it.
fn secret(url: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(url))
}
