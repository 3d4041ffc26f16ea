//! `qiang migrate`: creates or updates the ledger's tables in a database.

use std::process::ExitCode;

use qiang::{DATABASE_SCHEMA_VERSION as SCHEMA_VERSION, UsageError};

use crate::{backend::BackendArgs, block_on};

/// Arguments of `qiang migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang migrate --ledger postgres://qiang@db/qiang --dry-run")]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Print the versions without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let Some(url) = config.ledger.url() else {
        let line = "no database: give --ledger postgres://… or mysql://…, or set `ledger.url`; \
                    files are updated when they are opened";
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
            "the schema is at version {from}, and this program supports {to}: use a newer program"
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
