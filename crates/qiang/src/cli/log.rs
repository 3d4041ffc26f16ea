//! `qiang log`: moves old entries of an embedded engine's log into archive files.

use std::{path::PathBuf, process::ExitCode};

use qiang::{
    NodeConfig,
    archive::{self, ArchiveReport, LogStretch, Month},
};

use crate::block_on;

/// The log of an embedded engine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LogCommand {
    Archive(ArchiveArgs),
}

/// Move past months of an embedded engine's log into archive files, one per month. Stop the node first. If
/// `engine.archive_dir` is set, a node does the same automatically.
///
/// Users never need these files. `qiang audit` reads them beside the engine's file, and compares each with the digest
/// in that file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang log archive --data qiang.db --to archives --before 2026-10")]
pub(crate) struct ArchiveArgs {
    /// The engine's file, instead of `engine.data`.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// An existing folder for the archives, instead of `engine.archive_dir`.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Archive only months before this one. Default: all past months (UTC).
    #[arg(long, value_name = "YYYY-MM")]
    before: Option<Month>,
    /// Print the months that can be archived, without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Configuration file that overrides the defaults; its [engine] section is used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(command: &LogCommand) -> anyhow::Result<ExitCode> {
    match command {
        LogCommand::Archive(args) => archive(args),
    }
}

fn archive(args: &ArchiveArgs) -> anyhow::Result<ExitCode> {
    let text = |path: &PathBuf| path.display().to_string();
    let flags = [
        ("engine.data", args.data.as_ref().map(text)),
        ("engine.archive_dir", args.to.as_ref().map(text)),
    ];
    let given = flags.into_iter();
    let overrides: Vec<_> = given
        .filter_map(|(key, value)| Some((key, value?)))
        .collect();
    let config = NodeConfig::load(args.config.as_deref(), &overrides)?;
    let report = block_on(archive::archive(&config, args.before, args.dry_run))?;
    match args.json {
        true => println!("{}", json(&report)),
        false => print(&report, args.dry_run),
    }
    Ok(ExitCode::SUCCESS)
}

fn json(report: &ArchiveReport) -> serde_json::Value {
    let stretch = |stretch: &LogStretch| {
        serde_json::json!({
            "month": stretch.month.to_string(),
            "first": stretch.first,
            "last": stretch.last,
            "entries": stretch.entries(),
        })
    };
    let archived = report.archived.iter().map(|archive| {
        let mut object = stretch(&archive.stretch);
        object["file"] = archive.file.clone().into();
        object["bytes"] = archive.bytes.into();
        object["sha256"] = archive.sha256.clone().into();
        object
    });
    let archived: Vec<_> = archived.collect();
    let left: Vec<_> = report.left.iter().map(stretch).collect();
    serde_json::json!({ "archived": archived, "left": left })
}

fn print(report: &ArchiveReport, dry: bool) {
    for archive in &report.archived {
        let (stretch, file, bytes) = (archive.stretch, &archive.file, archive.bytes);
        println!("{stretch} moved to {file}, {bytes} bytes");
        println!("  sha256 {}", archive.sha256);
    }
    for stretch in &report.left {
        println!("{stretch} can be archived");
    }
    match (report.archived.is_empty(), report.left.is_empty(), dry) {
        (true, true, _) => println!("no month to archive"),
        (false, _, _) => println!("new entries reuse their space in the file"),
        _ => {}
    }
}
