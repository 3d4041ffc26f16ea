//! `qiang split`: splits a total, shows the distribution, and checks a published split.

mod binding;
mod draw;
mod params;
mod svg;
mod verify;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Exit code for refused input and for output that cannot be written. Code 1 means that a split does not verify.
const EXIT_REFUSED: u8 = 2;

/// Split a red packet into shares and show how they are distributed.
///
/// All amounts are whole minor units of the currency: 10000 is 100.00 yuan. The same seed gives the same shares
/// everywhere. With --id and --currency the commitment is printed too. Publish it when the red packet opens, and the
/// seed when it is closed. Then everyone can check the split with `qiang split verify`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example: qiang split --total 10000 --count 10 --rule double_average"
)]
pub(crate) struct SplitArgs {
    #[command(subcommand)]
    command: Option<SplitCommand>,
    #[command(flatten)]
    params: Option<params::ParamArgs>,
    #[command(flatten)]
    draw: draw::DrawArgs,
}

#[derive(Debug, clap::Subcommand)]
enum SplitCommand {
    Verify(verify::VerifyArgs),
}

/// Runs the subcommand.
///
/// If input is wrong or output cannot be written, prints one line on standard error and exits with 2.
pub(crate) fn run(args: SplitArgs) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match (args.command, args.params) {
        (Some(SplitCommand::Verify(args)), _) => verify::run(&args, &mut out),
        (None, Some(params)) => draw::run(&params, &args.draw, &mut out),
        // The parser of the command line requires these already.
        (None, None) => Err(anyhow::anyhow!("give --total, --count and --rule")),
    };
    let done = done.and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    Ok(done.unwrap_or_else(|error| {
        if !is_broken_pipe(&error) {
            eprintln!("qiang split: {error:#}");
        }
        ExitCode::from(EXIT_REFUSED)
    }))
}

/// Whether the reader of standard output has gone, as `head` does. Then a message has no reader either.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
