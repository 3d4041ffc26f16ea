//! `qiang migrate`: makes the ledger's tables in a database, or brings them up to date.

use std::process::ExitCode;

use qiang_node::UsageError;

use crate::{backend::BackendArgs, block_on};

/// Which database.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    backend: BackendArgs,
}

pub(crate) fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let config = args.backend.load(&args.backend.overrides())?;
    let Some(url) = config.ledger.url() else {
        let line = "no database: name it by --ledger postgres://… or mysql://…, or as `ledger.url`; \
                    files bring themselves up to date";
        return Err(UsageError::new(line).into());
    };
    let migrated = block_on(async { Ok(qiang_node::migrate(url).await?) })?;
    if migrated.from == migrated.to {
        println!("the schema is at version {} already", migrated.to);
    } else {
        println!(
            "the schema went from version {} to version {}",
            migrated.from, migrated.to
        );
    }
    Ok(ExitCode::SUCCESS)
}
