//! `qiang doctor`: says what servers and machine lack for a configuration.

use std::process::ExitCode;

use qiang::doctor::{Finding, Severity, examine};

use crate::{backend::BackendArgs, block_on};

/// Examine configuration, machine, Redis, ledger and a running node. Prints one line per finding with its remedy.
///
/// Exits 0 if nothing is wrong, and 1 if something is. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang doctor --config /etc/qiang/qiang.toml")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print one JSON object per finding.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = match args.backend.load(&args.backend.overrides()) {
        Ok(config) => block_on(async { Ok(examine(&config).await) })?,
        Err(error) => vec![Finding::of_configuration(&error)],
    };
    print(&findings, args.json)?;
    let is_wrong = |finding: &Finding| finding.severity == Severity::Wrong;
    Ok(ExitCode::from(u8::from(findings.iter().any(is_wrong))))
}

/// Prints findings, or that nothing was found.
pub(crate) fn print(findings: &[Finding], json: bool) -> anyhow::Result<()> {
    for finding in findings {
        let Finding {
            severity,
            subject,
            text,
        } = finding;
        match (json, severity) {
            (true, _) => println!("{}", serde_json::to_string(finding)?),
            (false, Severity::Wrong) => println!("wrong: {subject}: {text}"),
            (false, Severity::Advice) => println!("advice: {subject}: {text}"),
        }
    }
    if findings.is_empty() && !json {
        println!("nothing is wrong");
    }
    Ok(())
}
