//! `qiang backup` and `qiang restore`: copy and restore the file of an engine or a ledger.

use std::{path::PathBuf, process::ExitCode};

use qiang::{
    NodeConfig, UsageError,
    config::EngineKind,
    copies::{self, CopyReport, Restore},
};

/// Copy the file of an embedded engine, or of a ledger alone, as of one moment. The node may keep running: requests do
/// not wait for the copy.
///
/// The copy is one complete file: log and ledger end at the same entry. `qiang audit --db COPY` checks it. Back up a
/// ledger in PostgreSQL or MariaDB with the tools of the database.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang backup /backups/qiang.db --db /var/lib/qiang/qiang.db")]
pub(crate) struct BackupArgs {
    /// Path of the copy. It must not exist.
    #[arg(value_name = "COPY")]
    to: PathBuf,
    #[command(flatten)]
    file: FileArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Restore the file of an embedded engine, or of a ledger alone, from a backup. Stop its node first.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: qiang restore /backups/qiang.db --db /var/lib/qiang/qiang.db --replace"
)]
pub(crate) struct RestoreArgs {
    /// Path of the backup. The command does not change it.
    #[arg(value_name = "COPY")]
    from: PathBuf,
    #[command(flatten)]
    file: FileArgs,
    /// Replace an existing file. The old file is kept beside it, with the suffix `.replaced`.
    #[arg(long)]
    replace: bool,
    /// Accept a file that was not closed and whose write-ahead log (-wal) is missing. Changes in that log are lost.
    #[arg(long)]
    as_it_is: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The node's file, instead of the configured one.
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Configuration file that overrides the defaults; its `engine.data` is used.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl FileArgs {
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let config = NodeConfig::load(self.config.as_deref(), &[])?;
        let is_elsewhere = config.engine.kind == EngineKind::Redis;
        if config.ledger.url().is_some_and(|_| is_elsewhere) {
            let line = "the ledger is in a database: use pg_dump and pg_restore, or mariadb-dump and mariadb, as \
                        docs/operate/backup.md has them";
            return Err(UsageError::new(line).into());
        }
        Ok(config.engine.data)
    }
}

pub(crate) fn back_up(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let path = args.file.path()?;
    let copied = copies::back_up(&path, &args.to)?;
    print(&copied, args.json, &format!("{} has", args.to.display()));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let path = args.file.path()?;
    let how = Restore {
        replace: args.replace,
        as_it_is: args.as_it_is,
    };
    let copied = copies::restore(&args.from, &path, how)?;
    print(&copied, args.json, &format!("{} has", path.display()));
    Ok(ExitCode::SUCCESS)
}

fn print(copied: &CopyReport, json: bool, who: &str) {
    if json {
        let settled = copied.settled.iter();
        let settled = settled.map(|(partition, seq)| (partition.0.to_string(), (*seq).into()));
        let settled = serde_json::Map::from_iter(settled);
        let report = serde_json::json!({
            "head": copied.head, "settled": settled, "bytes": copied.bytes
        });
        println!("{report}");
        return;
    }
    let settled: u64 = copied.settled.iter().map(|(_, seq)| seq).sum();
    match copied.head {
        Some(head) => println!(
            "{who} {head} entries, of which {settled} are settled, in {} bytes",
            copied.bytes
        ),
        None => println!("{who} {settled} settled entries in {} bytes", copied.bytes),
    }
}
