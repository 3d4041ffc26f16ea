//! The `qiang` binary.

use clap::Parser;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod audit;
mod cli;

#[derive(Parser)]
#[expect(clippy::large_enum_variant, reason = "there is one, once")]
enum Cli {
    Audit(cli::audit::AuditArgs),
    #[command(subcommand)]
    Bench(cli::bench::Bench),
    Split(cli::split::SplitArgs),
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    match Cli::parse() {
        Cli::Audit(args) => cli::audit::run(&args),
        Cli::Bench(bench) => cli::bench::run(&bench),
        Cli::Split(args) => cli::split::run(args),
    }
}
