//! `qiang migrate`: makes the ledger's tables in a database, or brings them up to date.

use std::process::ExitCode;

use qiang::{DATABASE_SCHEMA_VERSION as SCHEMA_VERSION, UsageError};

use crate::{backend::BackendArgs, block_on};

/// Which database.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang migrate --ledger postgres://qiang@db/qiang --dry-run")]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Say what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let Some(url) = config.ledger.url() else {
        let line = "no database: name it by --ledger postgres://… or mysql://…, or as `ledger.url`; \
                    files bring themselves up to date";
        return Err(UsageError::new(line).into());
    };
    let (from, to) = block_on(async {
        if args.dry_run {
            return Ok((qiang::schema_version(url).await?, SCHEMA_VERSION));
        }
        let migrated = qiang::migrate(url).await?;
        Ok((migrated.from, migrated.to))
    })?;
    if from > to {
        let line = format!(
            "the schema is at version {from}, and this program knows {to}: use a newer one"
        );
        return Err(anyhow::anyhow!(line));
    }
    let done = if args.dry_run { "would go" } else { "went" };
    match (args.json, from == to) {
        (true, _) => {
            let report = serde_json::json!({ "from": from, "to": to, "dry_run": args.dry_run });
            println!("{report}");
        }
        (false, true) => println!("the schema is at version {to} already"),
        (false, false) => println!("the schema {done} from version {from} to version {to}"),
    }
    Ok(ExitCode::SUCCESS)
}
