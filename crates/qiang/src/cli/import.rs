//! `qiang import`: moves sales and opening balances of another system into a service.

mod balances;
mod record;
mod sales;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::bail;
use futures_util::{StreamExt as _, stream};
use qiang_client::{Error, Problem};
use serde::Serialize;

use self::record::ImportRecord;
pub(crate) use self::sales::{COLUMNS as SALE_COLUMNS, rows as sale_rows};
use crate::{
    service::{EXITS, Service, ServiceArgs, ask},
    table::{TableError, error_line},
};

/// Requests in flight.
const IN_FLIGHT: usize = 8;
/// Problems of the token, which refuse each further row.
const OF_THE_TOKEN: [&str; 2] = ["unauthenticated", "forbidden"];

/// Import sales and opening balances from a CSV file or JSON lines.
///
/// The whole file is checked first: each error names line and column, and nothing is changed. A repetition makes only
/// what is missing, because the keys of the requests follow from the file's ids.
#[derive(Debug, clap::Args)]
#[command(after_help = EXITS)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    command: ImportCommand,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ImportCommand {
    /// Import upcoming sales. Columns: id, title, stock, price, currency, and optionally starts_at, ends_at,
    /// per_user_limit, hold_seconds, seller, product_id, description, image_url, gallery, list_price, ack,
    /// admission_percent, payment_policy, payment_tolerance, waiting_room, requirements.
    #[command(after_help = "Example: qiang import sales sales.csv --dry-run")]
    Sales {
        /// The file: .csv, .jsonl or .ndjson.
        file: PathBuf,
        /// Check the file, and change nothing. No request is sent.
        #[arg(long)]
        dry_run: bool,
        /// File to which each made sale is added. Rows whose id it has are skipped, also after the keys of requests
        /// have expired (`limits.idempotency_key_ttl_ms`).
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
    },
    /// Import balances as deposits. Columns: user, amount, currency, and optionally reference.
    #[command(after_help = "Example: qiang import accounts balances.csv --dry-run")]
    Accounts {
        /// The file: .csv, .jsonl or .ndjson.
        file: PathBuf,
        /// Check the file, and change nothing. No request is sent.
        #[arg(long)]
        dry_run: bool,
    },
}

/// Result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ImportResult {
    Created,
    /// An earlier run made it.
    Present,
    Refused,
}

impl ImportResult {
    fn from_replay(is_replay: bool) -> Self {
        match is_replay {
            true => Self::Present,
            false => Self::Created,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Present => "present",
            Self::Refused => "refused",
        }
    }
}

/// Row after its request.
#[derive(Debug, Serialize)]
struct ImportedRow {
    line: u64,
    /// Id of the row in the file.
    id: String,
    result: ImportResult,
    /// Id of the object that was made, now or before.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<TableError>,
}

/// Counts of results.
#[derive(Debug, Default)]
struct ImportCounts {
    created: u64,
    present: u64,
    refused: u64,
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let json = args.service.is_json();
    match &args.command {
        ImportCommand::Sales {
            file,
            dry_run,
            record,
        } => {
            let rows = sales::read(file, json)?;
            if *dry_run {
                return Ok(checked(rows.len(), "sales", json));
            }
            ask(&args.service, async |service| {
                let record = ImportRecord::open(record.as_deref(), &service.url)?;
                let results = stream::iter(rows).map(|row| sales::create(row, &record, service));
                report(file, results.buffered(IN_FLIGHT), service).await
            })
        }
        ImportCommand::Accounts { file, dry_run } => {
            let rows = balances::read(file, json)?;
            if *dry_run {
                return Ok(checked(rows.len(), "balances", json));
            }
            ask(&args.service, async |service| {
                let results = stream::iter(rows).map(|row| balances::deposit(row, service));
                report(file, results.buffered(IN_FLIGHT), service).await
            })
        }
    }
}

/// Says that a file is right.
fn checked(rows: usize, what: &str, json: bool) -> ExitCode {
    match json {
        true => println!("{}", serde_json::json!({ "rows": rows, "errors": 0 })),
        false => println!("{rows} {what} without an error; nothing was changed"),
    }
    ExitCode::SUCCESS
}

/// Prints results as they arrive, and their counts.
async fn report(
    file: &Path,
    results: impl stream::Stream<Item = anyhow::Result<ImportedRow>>,
    service: &Service,
) -> anyhow::Result<()> {
    let mut results = std::pin::pin!(results);
    let mut counts = ImportCounts::default();
    while let Some(row) = results.next().await {
        let row = row?;
        *match row.result {
            ImportResult::Created => &mut counts.created,
            ImportResult::Present => &mut counts.present,
            ImportResult::Refused => &mut counts.refused,
        } += 1;
        service.print(&row, |row| line(file, row))?;
    }
    let ImportCounts {
        created,
        present,
        refused,
    } = counts;
    eprintln!("{created} created, {present} present already, {refused} refused");
    if refused > 0 {
        bail!("{refused} rows were refused; correct them and repeat the command");
    }
    Ok(())
}

fn line(file: &Path, row: &ImportedRow) -> String {
    let mut text = format!("{:<8}  {}", row.result.name(), row.id);
    if let Some(object) = &row.object {
        text += &format!("  {object}");
    }
    for error in &row.errors {
        text += &format!("\n  {}", error_line(file, error));
    }
    text
}

/// Result of a row that the service refused.
///
/// # Errors
/// The error itself, if it does not concern this row alone.
fn refused(line: u64, id: String, error: Error) -> anyhow::Result<ImportedRow> {
    match error {
        Error::Problem(problem) if !OF_THE_TOKEN.contains(&problem.kind()) => Ok(ImportedRow {
            line,
            id,
            result: ImportResult::Refused,
            object: None,
            errors: errors_of(line, &problem),
        }),
        other => Err(other.into()),
    }
}

/// Errors of a problem, with the columns of its fields.
fn errors_of(line: u64, problem: &Problem) -> Vec<TableError> {
    let of_fields = problem.errors.iter().map(|error| {
        let pointer = error.pointer.as_deref().unwrap_or_default();
        let field = pointer.trim_start_matches("#/").split('/').next();
        let column = match field.unwrap_or_default() {
            "unit_price" => "price",
            other => other,
        };
        TableError::new(line, column, &error.detail)
    });
    let mut errors: Vec<_> = of_fields.collect();
    if errors.is_empty() {
        errors.push(TableError::new(line, "", problem));
    }
    errors
}
