//! temp
use clap::Parser;
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
mod cli {
    pub(crate) mod bench;
}
#[derive(Parser)]
enum C {
    #[command(subcommand)]
    Bench(cli::bench::Bench),
}
fn main() -> anyhow::Result<std::process::ExitCode> {
    let C::Bench(b) = C::parse();
    cli::bench::run(&b)
}
