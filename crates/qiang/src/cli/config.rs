//! `qiang config`: checks a configuration, and shows its values and their sources.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use qiang::{config::ConfigSource, run};

use crate::backend::BackendArgs;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report errors of the configuration: file and line, variable or flag, and valid values. Starts nothing.
    ///
    /// Exits 0 if `qiang serve` would accept it, and 2 if not. The command reads key files, but connects to no servers
    /// or databases.
    #[command(after_help = "Example: qiang config check --config /etc/qiang.toml")]
    Check {
        #[command(flatten)]
        backend: BackendArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show every key, its value and its source. Secrets are hidden.
    #[command(after_help = "Example: qiang config show --changed --config /etc/qiang.toml")]
    Show {
        #[command(flatten)]
        backend: BackendArgs,
        /// Only keys that differ from the defaults.
        #[arg(long)]
        changed: bool,
        /// Print one JSON object per line.
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
                if *changed && setting.source == ConfigSource::Default {
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
