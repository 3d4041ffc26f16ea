//! `qiang shadow`: compares the decisions of an existing shop with those of Qiang.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use qiang::{
    UsageError,
    shadow::{DecisionMismatch, Shadow, ShadowEvent, ShadowReport, ShadowSale},
};
use qiang_client::NewSale;
use qiang_core::{
    campaign::Sale,
    id::{IdempotencyKey, UserId},
    money::Money,
    time::{Timestamp, Window},
};

use crate::{
    import,
    table::{self, RowReader, TableColumns, TableError, TableFile},
};

/// Defaults of a sale without these columns, as those of the service.
const LIMIT: u32 = 1;
const HOLD_SECONDS: u32 = 900;
/// Window of a sale without a start or an end: it has none. 9998-01-01T00:00:00Z.
const ENDS_AT_MS: i64 = 253_339_228_800_000;
/// Most differences that are printed as text.
const SHOWN_MAX: usize = 20;

/// Compare the decisions of an existing shop with those of Qiang, before anything is switched.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ShadowCommand {
    Report(ShadowReportArgs),
}

/// Decide a shop's log beside it, and print where the decisions differ. Nothing is sold, and no service is needed.
///
/// Exits 0 if all decisions are the same, and 1 if not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: qiang shadow report decisions.jsonl --sales sales.csv")]
pub(crate) struct ShadowReportArgs {
    /// The shop's log, ordered by time: .jsonl, .ndjson or .csv. Columns: at, and for claims sale, user, decision
    /// (granted or refused), and optionally quantity, key, order. Further events have event (paid, cancelled,
    /// returned, stock, closed) with order, or sale and stock.
    log: PathBuf,
    /// The shop's sales, with the columns of `qiang import sales`.
    #[arg(long, value_name = "FILE")]
    sales: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const COLUMNS: TableColumns = TableColumns {
    required: &["at"],
    optional: &[
        "event", "sale", "user", "quantity", "key", "order", "decision", "stock",
    ],
    ignored: &["reason"],
};

pub(crate) fn run(command: &ShadowCommand) -> anyhow::Result<ExitCode> {
    let ShadowCommand::Report(args) = command;
    let mut shadow = Shadow::new(sales(&args.sales, args.json)?).map_err(UsageError::new)?;
    let mut table = table::read(&args.log, &COLUMNS)?;
    let events = events(&mut table);
    table.refuse_errors(&args.log, args.json)?;
    for (line, at, event) in &events {
        if let Err(error) = shadow.apply(*line, *at, event) {
            table.errors.push(TableError::new(*line, "at", error));
            table.refuse_errors(&args.log, args.json)?;
        }
    }
    let report = shadow.into_report();
    match args.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => print(&report),
    }
    Ok(ExitCode::from(u8::from(!report.differences.is_empty())))
}

/// Sales of the file. Their windows may be over.
fn sales(file: &Path, json: bool) -> anyhow::Result<Vec<ShadowSale>> {
    let mut table = table::read(file, &import::SALE_COLUMNS)?;
    let rows = import::sale_rows(&mut table);
    table.refuse_errors(file, json)?;
    rows.into_iter()
        .map(|row| sale(row.id, &row.sale))
        .collect()
}

fn sale(id: String, new: &NewSale) -> anyhow::Result<ShadowSale> {
    let price = Money::new(
        new.unit_price.amount,
        new.unit_price.currency.as_str().parse()?,
    );
    let limit = new.per_user_limit.unwrap_or(LIMIT);
    let hold_ms = i64::from(new.hold_seconds.unwrap_or(HOLD_SECONDS)) * 1_000;
    let starts_at = new.starts_at.map_or(0, |at| at.as_millis());
    let ends_at = new.ends_at.map_or(ENDS_AT_MS, |at| at.as_millis());
    let window = Window::new(
        Timestamp::from_millis(starts_at),
        Timestamp::from_millis(ends_at),
    )?;
    Ok(ShadowSale {
        id,
        rules: Sale::new(new.stock, limit, price, hold_ms)?,
        window,
    })
}

/// Events of a table with their lines and times. Adds errors to the table.
fn events(table: &mut TableFile) -> Vec<(u64, Timestamp, ShadowEvent)> {
    let TableFile { rows, errors } = table;
    let events = rows.iter().filter_map(|row| {
        let mut row = RowReader::new(row, errors);
        let at: Option<qiang_client::Timestamp> = row.parsed("at");
        let (at, event) = at.zip(event(&mut row))?;
        Some((row.line(), Timestamp::from_millis(at.as_millis()), event))
    });
    events.collect()
}

fn event(row: &mut RowReader<'_, '_>) -> Option<ShadowEvent> {
    match row.text("event").unwrap_or("claim") {
        "claim" => claim(row),
        "paid" => Some(ShadowEvent::Paid {
            order: needed(row, "order")?,
        }),
        "cancelled" => Some(ShadowEvent::Cancelled {
            order: needed(row, "order")?,
        }),
        "returned" => Some(ShadowEvent::Returned {
            order: needed(row, "order")?,
        }),
        "stock" => Some(ShadowEvent::Stock {
            sale: needed(row, "sale")?,
            stock: needed(row, "stock")?
                .parse()
                .map_err(|error| row.error("stock", error))
                .ok()?,
        }),
        "closed" => Some(ShadowEvent::Closed {
            sale: needed(row, "sale")?,
        }),
        _ => {
            row.error(
                "event",
                "choose one of claim, paid, cancelled, returned, stock, closed",
            );
            None
        }
    }
}

fn claim(row: &mut RowReader<'_, '_>) -> Option<ShadowEvent> {
    let sale = needed(row, "sale");
    let user = needed(row, "user").and_then(|user| {
        let user = UserId::new(&user);
        user.map_err(|error| row.error("user", error)).ok()
    });
    let key = match row.text("key") {
        Some(key) => match IdempotencyKey::new(key) {
            Ok(key) => Some(key),
            Err(error) => {
                row.error("key", error);
                return None;
            }
        },
        None => None,
    };
    let quantity = match row.text("quantity") {
        Some(_) => row.parsed("quantity"),
        None => Some(1),
    };
    if quantity == Some(0) {
        row.error("quantity", "a claim is for at least 1 unit");
    }
    let is_granted = match needed(row, "decision")?.as_str() {
        "granted" => true,
        "refused" => false,
        _ => {
            row.error("decision", "choose one of granted, refused");
            return None;
        }
    };
    Some(ShadowEvent::Claim {
        sale: sale?,
        user: user?,
        quantity: quantity?,
        key,
        order: row.text("order").map(str::to_owned),
        is_granted,
    })
}

/// Text of a cell that this event must have.
fn needed(row: &mut RowReader<'_, '_>, column: &str) -> Option<String> {
    let text = row.text(column).map(str::to_owned);
    if text.is_none() {
        row.error(column, "is missing");
    }
    text
}

fn print(report: &ShadowReport) {
    let ShadowReport {
        claims,
        same,
        differences,
        unmatched_events,
        ..
    } = report;
    println!(
        "{claims} claims, {same} with the same decision, {} with another",
        differences.len()
    );
    if *unmatched_events > 0 {
        println!("{unmatched_events} events of orders or sales that are not known here");
    }
    for sale in &report.sales {
        println!(
            "{}: stock {}, {} claims, sold there {}, here {}",
            sale.sale, sale.stock, sale.claims, sale.sold_there, sale.sold_here
        );
        for (kind, count) in &sale.differences {
            println!("  {:<15} {count}", kind.name());
        }
    }
    for it in differences.iter().take(SHOWN_MAX) {
        let DecisionMismatch {
            line,
            kind,
            sale,
            user,
            quantity,
            outcome,
            remaining,
        } = it;
        println!(
            "line {line}: {}: {user} claimed {quantity} of {sale}; {outcome} here with {remaining} remaining",
            kind.name()
        );
    }
    if differences.len() > SHOWN_MAX {
        println!(
            "and {} further differences: --json prints all",
            differences.len() - SHOWN_MAX
        );
    }
}
