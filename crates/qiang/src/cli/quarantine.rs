//! `qiang quarantine`: lists, settles and discards quarantined entries.

mod drive;

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
};

use jiff::Timestamp as Calendar;
use qiang::{LedgerBackend, NodeConfig, SystemClock, UsageError};
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Ledger, QuarantinedEntry},
};
use serde::Serialize;

use self::drive::{discard, redrive, rehearse};
use crate::{backend::BackendArgs, block_on, operator::OperatorArgs};

const PAGE_MAX: u32 = 500;
/// Default and largest number of listed entries.
const LIST_DEFAULT: u32 = 100;
const LIST_MAX: u32 = 100_000;
/// A position after all others that databases can store.
const SEQ_MAX: Seq = i64::MAX as Seq;
/// Exit code if entries are left.
const LEFT: u8 = 1;

/// Entries in quarantine: the ledger refused them, or they wait for a refused entry.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List quarantined entries.
    #[command(after_help = "Example: qiang quarantine list --partition 3 --json")]
    List(QuarantineListArgs),
    /// Settle quarantined entries after you repaired the cause.
    #[command(after_help = "Example: qiang quarantine redrive 3 17 3 20 --as ann")]
    Redrive(RedriveArgs),
    /// Discard grants of sales that cannot be settled: their units are sold again.
    #[command(after_help = "Example: qiang quarantine discard 3 17 --as ann")]
    Discard(DiscardArgs),
}

/// List quarantined entries by partition and position.
///
/// Only one process can open a ledger in a file: stop its node first.
#[derive(Debug, clap::Args)]
pub(crate) struct QuarantineListArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Only entries of this partition.
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u16>,
    /// The largest number of entries.
    #[arg(long, value_name = "COUNT", default_value_t = LIST_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_MAX)))]
    limit: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Settle quarantined entries by partition and position. Entries that are refused again stay in quarantine, and so do
/// the entries that wait for them.
///
/// Only one process can open a ledger in a file: stop its node first. If the ledger is in a database, nodes and
/// workers may keep running.
///
/// Exits 0 if all requested entries are settled, and 1 if some are left.
#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// Settle all quarantined entries.
    #[arg(long, conflicts_with = "places", required_unless_present = "places")]
    all: bool,
    /// Settle these entries, each given by partition and position: `3 17 3 20`.
    #[arg(value_names = ["PARTITION", "SEQ"], num_args = 2..)]
    places: Vec<u64>,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print the entries that would be tried, without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Request that quarantined grants of sales are discarded, if the cause cannot be corrected. The buyer loses the
/// order, its units are sold again, and its payments become refunds due.
///
/// This command records the request. A running node executes it, or `qiang reconciler run discards`: the engine
/// restocks the units, and the entries that waited for the grant are settled. Only one process can open a ledger in a
/// file: stop its node first. If the ledger is in a database, nodes and workers may keep running.
///
/// Exits 0 if all requests are recorded, and 1 if some are left.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    backend: BackendArgs,
    /// The grants, each given by partition and position: `3 17 3 20`.
    #[arg(value_names = ["PARTITION", "SEQ"], num_args = 2.., required = true)]
    places: Vec<u64>,
    #[command(flatten)]
    operator: OperatorArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &QuarantineCommand) -> anyhow::Result<ExitCode> {
    let backend = match command {
        QuarantineCommand::List(args) => &args.backend,
        QuarantineCommand::Redrive(args) => &args.backend,
        QuarantineCommand::Discard(args) => &args.backend,
    };
    let config = backend.load(&backend.overrides())?;
    let asked = match command {
        QuarantineCommand::Redrive(args) if !args.all => Some(places(&args.places)?),
        QuarantineCommand::Discard(args) => Some(places(&args.places)?),
        _ => None,
    };
    block_on(async {
        let ledger_backend = open(&config).await?;
        let ledger = ledger_backend.ledger();
        let done = match command {
            QuarantineCommand::List(args) => list(&*ledger, args).await,
            QuarantineCommand::Redrive(args) if args.dry_run => {
                rehearse(&*ledger, asked, args.json).await
            }
            QuarantineCommand::Redrive(args) => match args.operator.operator(&config) {
                Ok(by) => redrive(&*ledger, asked, &by, args.json).await,
                Err(error) => Err(error),
            },
            QuarantineCommand::Discard(args) => match args.operator.operator(&config) {
                Ok(by) => discard(&*ledger, asked.unwrap_or_default(), &by, args.json).await,
                Err(error) => Err(error),
            },
        };
        let closed = ledger_backend.close().await;
        let done = done?;
        closed?;
        Ok(done)
    })
}

/// Opens the ledger as `qiang worker` does, or an embedded engine's ledger. Creates none.
async fn open(config: &NodeConfig) -> anyhow::Result<LedgerBackend> {
    if config.ledger.url().is_none() && !config.engine.data.is_file() {
        let line = format!(
            "no ledger: {} does not exist, and no database is configured; give --data FILE, or \
             --ledger postgres://… or mysql://…",
            config.engine.data.display()
        );
        return Err(UsageError::new(line).into());
    }
    LedgerBackend::open_any(config, Arc::new(SystemClock)).await
}

/// Positions that were given, each once, in order.
fn places(numbers: &[u64]) -> Result<BTreeSet<(PartitionId, Seq)>, UsageError> {
    let place = |pair: &[u64]| match pair {
        [partition, seq @ 1..=SEQ_MAX] => {
            let partition = u16::try_from(*partition).ok()?;
            Some((PartitionId(partition), *seq))
        }
        _ => None,
    };
    let places: Option<_> = numbers.chunks(2).map(place).collect();
    places.ok_or_else(|| {
        UsageError::new(
            "give each entry as two numbers, its partition (0 to 65535) and its position (from 1): \
             `qiang quarantine redrive 3 17`",
        )
    })
}

fn place_of(quarantined: &QuarantinedEntry) -> (PartitionId, Seq) {
    (quarantined.partition, quarantined.entry.seq)
}

/// A quarantined entry in the output.
#[derive(Debug, Serialize)]
struct QuarantineLine {
    partition: u16,
    seq: Seq,
    campaign: String,
    event: String,
    /// Time of the refusal; for a waiting entry, time of the decision.
    at: String,
    reason: String,
    waits_for: Option<Seq>,
    /// Whether its discard was requested.
    discard: bool,
}

impl QuarantineLine {
    fn from_quarantined(quarantined: &QuarantinedEntry) -> Self {
        let at = Calendar::from_millisecond(quarantined.at.as_millis());
        Self {
            partition: quarantined.partition.0,
            seq: quarantined.entry.seq,
            campaign: quarantined.entry.campaign.to_string(),
            event: quarantined.entry.event.to_string(),
            at: at.map_or_else(
                |_| quarantined.at.as_millis().to_string(),
                |at| at.to_string(),
            ),
            reason: quarantined.reason.clone(),
            waits_for: quarantined.waits_for,
            discard: quarantined.is_discarded,
        }
    }
}

#[derive(Debug, Serialize)]
struct QuarantineListing {
    #[serde(rename = "data")]
    entries: Vec<QuarantineLine>,
    /// Whether more entries than the limit exist.
    more: bool,
}

async fn list(ledger: &dyn Ledger, args: &QuarantineListArgs) -> anyhow::Result<ExitCode> {
    let mut after = match args.partition {
        None | Some(0) => None,
        Some(partition) => Some((PartitionId(partition - 1), SEQ_MAX)),
    };
    let wanted = args.limit as usize;
    let mut entries = Vec::new();
    loop {
        let page = ledger.list_quarantined(after, PAGE_MAX).await?;
        let is_asked_for =
            |row: &&QuarantinedEntry| args.partition.is_none_or(|only| only == row.partition.0);
        entries.extend(
            page.iter()
                .take_while(is_asked_for)
                .map(QuarantineLine::from_quarantined),
        );
        after = page.last().filter(is_asked_for).map(place_of);
        if after.is_none() || entries.len() > wanted {
            break;
        }
    }
    let more = entries.len() > wanted;
    entries.truncate(wanted);
    let listed = QuarantineListing { entries, more };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&listed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if listed.entries.is_empty() {
        writeln!(out, "nothing is quarantined")?;
        return Ok(ExitCode::SUCCESS);
    }
    let wide = |row: &QuarantineLine| row.event.chars().count();
    let width = listed.entries.iter().map(wide).max().unwrap_or(0).max(5);
    writeln!(
        out,
        "{:>9} {:>12}  {:<36}  {:<width$}  why",
        "partition", "entry", "campaign", "event"
    )?;
    for row in &listed.entries {
        let (partition, seq, campaign, event) = (row.partition, row.seq, &row.campaign, &row.event);
        let why = match row.waits_for {
            _ if row.discard => format!("is being discarded: {}", row.reason),
            Some(_) => row.reason.clone(),
            None => format!("refused {}: {}", row.at, row.reason),
        };
        writeln!(
            out,
            "{partition:>9} {seq:>12}  {campaign:<36}  {event:<width$}  {why}"
        )?;
    }
    if listed.more {
        writeln!(out, "more entries follow: raise --limit")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_named_by_partition_and_place() {
        let check = |numbers: &[u64], expected: Option<&[(u16, Seq)]>| {
            let found = places(numbers).ok();
            let expected = expected.map(|places| {
                let place = |(partition, seq): &(u16, Seq)| (PartitionId(*partition), *seq);
                places.iter().map(place).collect()
            });
            assert_eq!(found, expected, "{numbers:?}");
        };
        check(&[3, 17], Some(&[(3, 17)]));
        check(&[3, 20, 0, 5, 3, 17], Some(&[(0, 5), (3, 17), (3, 20)]));
        check(&[3, 17, 3, 17], Some(&[(3, 17)]));
        check(&[3, 17, 3], None);
        check(&[65_536, 1], None);
        check(&[3, 0], None);
        check(&[3, u64::MAX], None);
    }
}
