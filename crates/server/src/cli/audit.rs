//! `qiang audit`: proves a ledger file's invariants again from its rows.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use crate::audit;

/// Something is broken.
const BROKEN: u8 = 1;
/// There was nothing to audit, or it could not be read to the end.
const NOT_READ: u8 = 2;

/// Prove every invariant again from the rows of a ledger file: nothing sold twice, nothing lost, every balance
/// explained. Takes an embedded engine's file, with its log, and a ledger alone, of which it can prove less. Only
/// reads; works beside a running server and on what a killed one left.
///
/// Exits 0 when every check holds, 1 when one is broken, and 2 when the file cannot be opened
/// or read.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// The ledger file.
    #[arg(long, value_name = "FILE", default_value = "qiang.db")]
    db: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    let report = match audit::audit(&args.db) {
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
