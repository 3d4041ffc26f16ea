//! `qiang completions` and `qiang man`: completion scripts and manual pages, generated from the command line.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use clap::CommandFactory as _;
use clap_complete::Shell;
use qiang::UsageError;

use crate::Cli;

/// Arguments of `qiang completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang completions bash > /etc/bash_completion.d/qiang")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Arguments of `qiang man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// An existing folder.
    folder: PathBuf,
}

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "qiang", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    if !args.folder.is_dir() {
        let line = format!("{} is not a folder", args.folder.display());
        return Err(UsageError::new(line).into());
    }
    clap_mangen::generate_to(Cli::command(), &args.folder)?;
    Ok(ExitCode::SUCCESS)
}
