//! `qiang capacity`: computes machines and sizes for a peak.

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use qiang::{
    capacity::{AofPolicy, CapacityDemand, CapacityPlan, LedgerStore},
    config::EngineKind,
};

use crate::usage;

/// Compute nodes, Redis, memory and ledger for a peak, with the source of each coefficient.
///
/// Asks no server. Coefficients are of the machine of docs/RESULTS.md: measure yours with `qiang-bench`, because
/// another kind of core may do twice as much, or half.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: qiang capacity --buyers-per-second 50000 --payments 500 --watchers 100000 --replicas 1 --tls"
)]
pub(crate) struct CapacityArgs {
    /// Claims per second at the peak.
    #[arg(long, value_name = "N", value_parser = count())]
    buyers_per_second: u64,
    /// Units for sale at the peak; further claims are refused. Default: each claim is granted.
    #[arg(long, value_name = "UNITS", value_parser = count())]
    stock: Option<u64>,
    /// Payments reported per second.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count())]
    payments: u64,
    /// Sessions of browsers that begin per second.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count())]
    sign_ins: u64,
    /// Open streams of campaign events: pages that show a campaign.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count())]
    watchers: u64,
    /// Connections of users at a time, without streams. Default: one per claim of a second.
    #[arg(long, value_name = "N", value_parser = count())]
    users: Option<u64>,
    /// New connections per second. Default: one per claim of a second.
    #[arg(long, value_name = "N", value_parser = count())]
    new_connections: Option<u64>,
    /// Nodes terminate TLS. Without it, a proxy does.
    #[arg(long)]
    tls: bool,
    /// Engine of the set-up: embedded or redis.
    #[arg(long, value_name = "KIND", default_value = "redis", value_parser = named(&ENGINES, engine_name))]
    engine: EngineKind,
    /// Replicas of each Redis primary. If there are any, grants wait for one.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
    replicas: u64,
    /// Append-only file of Redis, by its `appendfsync`: no file, everysec or always.
    #[arg(long, value_name = "POLICY", default_value = "no", value_parser = named(&AofPolicy::ALL, AofPolicy::name))]
    aof: AofPolicy,
    /// Store of the ledger on Redis: postgres, mariadb or file.
    #[arg(long, value_name = "KIND", default_value = "postgres",
        value_parser = named(&LedgerStore::ALL, LedgerStore::name))]
    ledger: LedgerStore,
    /// Orders per day, for disk and memory.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = count())]
    orders_per_day: u64,
    /// Cores of a node's machine.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    cores_per_node: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Longest line of a formula, roughly.
const LINE_CHARS_MAX: usize = 96;

const ENGINES: [EngineKind; 2] = [EngineKind::Embedded, EngineKind::Redis];

fn engine_name(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Embedded => "embedded",
        EngineKind::Redis => "redis",
    }
}

/// Parser of counts, up to a number that sums of them cannot exceed a double's exact range with.
fn count() -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(..=1_000_000_000_000)
}

/// Parser of values by their names.
fn named<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|value| name(*value)));
    // The parser admits these names alone.
    names.try_map(move |given| {
        let found = values.iter().find(|value| name(**value) == given);
        found.copied().ok_or_else(|| usage("no such value"))
    })
}

impl CapacityArgs {
    fn demand(&self) -> CapacityDemand {
        CapacityDemand {
            engine: self.engine,
            buyers_per_second: self.buyers_per_second,
            stock: self.stock,
            payments_per_second: self.payments,
            sign_ins_per_second: self.sign_ins,
            watchers: self.watchers,
            users: self.users.unwrap_or(self.buyers_per_second),
            new_connections_per_second: self.new_connections.unwrap_or(self.buyers_per_second),
            tls: self.tls,
            replicas: self.replicas,
            aof: self.aof,
            ledger: self.ledger,
            orders_per_day: self.orders_per_day,
            cores_per_node: self.cores_per_node,
        }
    }
}

pub(crate) fn run(args: &CapacityArgs) -> anyhow::Result<ExitCode> {
    let plan = CapacityPlan::new(args.demand());
    if args.json {
        println!("{}", serde_json::to_string(&plan)?);
        return Ok(ExitCode::SUCCESS);
    }
    for need in &plan.needs {
        println!("{:<18}{:>12}  {}", need.name, need.shown(), need.unit);
        for line in wrapped(&need.formula) {
            println!("    {line}");
        }
    }
    println!("\ncoefficients");
    for it in &plan.coefficients {
        println!("{:<22}{:>11}  {}", it.name, it.value, it.unit);
        println!("    {}", it.source_line());
    }
    println!();
    for warning in &plan.warnings {
        println!("{warning}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A formula in lines, broken before a plus.
fn wrapped(formula: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for term in formula.split(" + ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + term.chars().count() < LINE_CHARS_MAX => {
                *line += &format!(" + {term}");
            }
            Some(_) => lines.push(format!("+ {term}")),
            None => lines.push(term.to_owned()),
        }
    }
    lines
}
