//! The `qiang` binary.

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Hands out scarce things to a crowd: red packets and flash sales.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Split(cli::split::SplitArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Split(args) => cli::split::run(args),
    }
}
