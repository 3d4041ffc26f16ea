//! temp
use clap::Parser;
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
mod cli;
#[derive(Parser)]
enum C {
    #[command(subcommand)]
    Bench(cli::bench::Bench),
    Split(cli::split::SplitArgs),
}
fn main() -> anyhow::Result<std::process::ExitCode> {
    match C::parse() { C::Bench(b) => cli::bench::run(&b), C::Split(a) => cli::split::run(a) }
}
