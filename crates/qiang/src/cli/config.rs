//! `qiang config`: whether a configuration is valid, and what is in effect and why.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use qiang::{config::Source, run};

use crate::backend::BackendArgs;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say what is wrong with the configuration: file and line, variable or flag, and the choices. Starts nothing.
    ///
    /// Exits 0 when `qiang serve` would take it, and 2 when it would not. Servers and databases that it names are not
    /// asked; the files of keys are read.
    #[command(after_help = "Example: qiang config check --config /etc/qiang.toml")]
    Check {
        #[command(flatten)]
        backend: BackendArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show every key, its value, and where that comes from. Secrets are hidden.
    #[command(after_help = "Example: qiang config show --changed --config /etc/qiang.toml")]
    Show {
        #[command(flatten)]
        backend: BackendArgs,
        /// Only what is not as by default.
        #[arg(long)]
        changed: bool,
        /// Print a JSON object a line.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn carry_out(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match command {
        ConfigCommand::Check { backend, json } => {
            run::check(&backend.load(&backend.overrides())?)?;
            match json {
                true => writeln!(out, "{{\"valid\":true}}")?,
                false => writeln!(out, "the configuration is valid")?,
            }
        }
        ConfigCommand::Show {
            backend,
            changed,
            json,
        } => {
            for setting in backend.explain()? {
                if *changed && setting.source == Source::Default {
                    continue;
                }
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&setting)?)?;
                    continue;
                }
                writeln!(
                    out,
                    "{} = {:?}  # {}",
                    setting.key, setting.value, setting.source
                )?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
