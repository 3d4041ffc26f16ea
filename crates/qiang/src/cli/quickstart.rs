//! `qiang quickstart`: writes configuration, secrets and units, and says what is missing.

use std::{path::PathBuf, process::ExitCode};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use qiang::{
    NodeConfig,
    doctor::{Finding, examine},
    quickstart::{SetupKind, SetupPaths, write},
};

use crate::{block_on, doctor, usage};

/// Write configuration, secrets and systemd units of a set-up. Asks nothing, starts nothing, and overwrites nothing.
///
/// Then examines the machine and the servers like `qiang doctor`, and prints the next steps.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: qiang quickstart embedded --to /etc/qiang --units /etc/systemd/system"
)]
pub(crate) struct QuickstartArgs {
    /// Servers to run on.
    #[arg(value_name = "SETUP", value_parser = setup())]
    setup: SetupKind,
    /// Folder of configuration and secrets.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/qiang")]
    to: PathBuf,
    /// Folder of the units.
    #[arg(long, value_name = "FOLDER", default_value = "/etc/systemd/system")]
    units: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Parser of the names of set-ups.
fn setup() -> impl clap::builder::TypedValueParser<Value = SetupKind> {
    let names = PossibleValuesParser::new(SetupKind::ALL.map(SetupKind::name));
    // The parser admits these names alone.
    names.try_map(|name| {
        let found = SetupKind::ALL
            .into_iter()
            .find(|setup| setup.name() == name);
        found.ok_or_else(|| usage("no such set-up"))
    })
}

pub(crate) fn run(args: &QuickstartArgs) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe()?;
    let folder = std::path::absolute(&args.to)?;
    let units = std::path::absolute(&args.units)?;
    let paths = SetupPaths {
        folder: &folder,
        units: &units,
        program: &program,
    };
    let written = write(args.setup, &paths)?;
    let findings = match NodeConfig::load(Some(&folder.join("qiang.toml")), &written.keys) {
        Ok(config) => block_on(async { Ok(examine(&config).await) })?,
        Err(error) => vec![Finding::of_configuration(&error)],
    };
    if args.json {
        let object = serde_json::json!({
            "files": written.files, "findings": findings, "steps": written.steps,
        });
        println!("{object}");
        return Ok(ExitCode::SUCCESS);
    }
    for file in &written.files {
        println!("wrote {}", file.display());
    }
    println!();
    doctor::print(&findings, false)?;
    println!("\nnext steps:");
    for (number, step) in (1..).zip(&written.steps) {
        println!("{number}. {step}");
    }
    Ok(ExitCode::SUCCESS)
}
