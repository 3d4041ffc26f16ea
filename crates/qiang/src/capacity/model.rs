//! Equations of the capacity model.

use super::{
    AofPolicy, CapacityDemand, CapacityNeed, CapacityPlan, Coefficient, LedgerStore,
    coefficients::{self as c, CoefficientSource},
};
use crate::config::EngineKind;

/// Fewest nodes of a set-up that survives the loss of one.
const NODES_MIN: f64 = 2.0;
/// Share of the writer's time above which the embedded engine counts as full.
const WRITER_MAX: f64 = 0.9;

/// Collects figures and the coefficients that they use.
#[derive(Default)]
struct Sheet {
    needs: Vec<CapacityNeed>,
    used: Vec<Coefficient>,
    warnings: Vec<String>,
}

impl Sheet {
    fn add(
        &mut self,
        name: &'static str,
        value: f64,
        unit: &'static str,
        formula: String,
        coefficients: &[Coefficient],
    ) -> f64 {
        for coefficient in coefficients {
            if !self.used.contains(coefficient) {
                self.used.push(*coefficient);
            }
        }
        self.needs.push(CapacityNeed {
            name,
            value,
            unit,
            formula,
            coefficients: coefficients.iter().map(|it| it.name).collect(),
        });
        value
    }
}

/// A term of a sum: an amount, its coefficient, and a name for the formula.
type SumTerm = (f64, Coefficient, &'static str);

/// Sum of the terms that are not zero, with its formula and coefficients.
fn sum(terms: &[SumTerm]) -> (f64, String, Vec<Coefficient>) {
    let terms = terms.iter().filter(|(amount, ..)| *amount > 0.0);
    let (mut total, mut parts, mut used) = (0.0, Vec::new(), Vec::new());
    for (amount, coefficient, name) in terms {
        total += amount * coefficient.value;
        parts.push(format!(
            "{} {name} × {}",
            grouped(*amount),
            coefficient.value
        ));
        used.push(*coefficient);
    }
    (total, parts.join(" + "), used)
}

/// A number with commas between thousands, and decimals only if it is small.
pub(super) fn grouped(number: f64) -> String {
    let decimals = match number {
        n if n >= 100.0 || n.fract() == 0.0 => 0,
        n if n >= 1.0 => 1,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut digits = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            digits.push(',');
        }
        digits.push(digit);
    }
    digits + rest
}

pub(super) fn plan(demand: CapacityDemand) -> CapacityPlan {
    let mut sheet = Sheet::default();
    let claims = demand.buyers_per_second as f64;
    let granted = demand
        .stock
        .map_or(claims, |stock| claims.min(stock as f64));
    let cores = node_cores(&demand, granted, &mut sheet);
    nodes(&demand, cores, &mut sheet);
    match demand.engine {
        EngineKind::Embedded => writer(&demand, granted, &mut sheet),
        EngineKind::Redis => redis(&demand, granted, &mut sheet),
    }
    ledger(&demand, granted, &mut sheet);
    sheet.warnings.push(
        "not in the model: retries of users without an answer, and more than two cores per node"
            .to_owned(),
    );
    CapacityPlan {
        demand,
        needs: sheet.needs,
        coefficients: sheet.used,
        warnings: sheet.warnings,
    }
}

/// Cores that all nodes need together.
fn node_cores(demand: &CapacityDemand, granted: f64, sheet: &mut Sheet) -> f64 {
    let claims = demand.buyers_per_second as f64;
    let claim = match demand.engine {
        EngineKind::Embedded => c::EMBEDDED_CLAIM_US,
        EngineKind::Redis if demand.replicas > 0 => c::REPLICA_CLAIM_US,
        EngineKind::Redis => c::REDIS_CLAIM_US,
    };
    let payments = demand.payments_per_second as f64;
    let sign_ins = demand.sign_ins_per_second as f64;
    let over_tls = |amount: f64| if demand.tls { amount } else { 0.0 };
    let terms = [
        (granted, claim, "grants"),
        (claims - granted, c::REFUSAL_US, "refusals"),
        (payments, c::PAYMENT_US, "payments"),
        (sign_ins, c::SIGN_IN_US, "sign-ins"),
        (demand.watchers as f64, c::STREAM_US, "streams"),
        (
            over_tls(claims + payments + sign_ins),
            c::TLS_REQUEST_US,
            "requests over TLS",
        ),
        (
            over_tls(demand.new_connections_per_second as f64),
            c::TLS_HANDSHAKE_US,
            "handshakes",
        ),
    ];
    let (micros, formula, mut used) = sum(&terms);
    used.push(c::LOAD);
    let formula = format!("({formula}) µs/s ÷ {}", c::LOAD.value);
    let cores = micros / 1e6 / c::LOAD.value;
    sheet.add("node-cores", cores, "cores of all nodes", formula, &used)
}

/// Nodes, their connections and their memory.
fn nodes(demand: &CapacityDemand, cores: f64, sheet: &mut Sheet) {
    let per_node = demand.cores_per_node as f64;
    let (users, watchers) = (demand.users as f64, demand.watchers as f64);
    let formula = format!("{} users + {} streams", grouped(users), grouped(watchers));
    let connections = sheet.add(
        "connections",
        users + watchers,
        "connections of all nodes",
        formula,
        &[c::CONNECTIONS],
    );
    let candidates = [
        (
            (cores / per_node).ceil(),
            format!("{} cores ÷ {per_node} per node", grouped(cores)),
        ),
        (
            (connections / c::CONNECTIONS.value).ceil(),
            format!(
                "{} connections ÷ {}",
                grouped(connections),
                grouped(c::CONNECTIONS.value)
            ),
        ),
        (
            (watchers / c::STREAMS.value).ceil(),
            format!(
                "{} streams ÷ {}",
                grouped(watchers),
                grouped(c::STREAMS.value)
            ),
        ),
    ];
    let most = candidates.into_iter().fold(None, |most, next| match most {
        Some((nodes, _)) if nodes >= next.0 => most,
        _ => Some(next),
    });
    let (needed, formula) = most.unwrap_or_default();
    let used = [c::CONNECTIONS, c::STREAMS];
    let nodes = match demand.engine {
        EngineKind::Embedded => {
            if needed > 1.0 {
                sheet.warnings.push(format!(
                    "an embedded engine has one node, but this takes {needed}: {formula}. Choose --engine redis, a \
                     larger machine, or raise server.connections_max and server.watchers_max"
                ));
            }
            sheet.add("nodes", 1.0, "node", formula, &used)
        }
        EngineKind::Redis => {
            let formula = match needed < NODES_MIN {
                true => format!("{formula}; at least {NODES_MIN}, so that one may fail"),
                false => formula,
            };
            sheet.add("nodes", needed.max(NODES_MIN), "nodes", formula, &used)
        }
    };
    let mut terms = vec![
        (1.0, c::NODE_BYTES, "node"),
        (connections / nodes, c::STREAM_BYTES, "connections"),
    ];
    if demand.engine == EngineKind::Embedded {
        let orders = demand.stock.unwrap_or(demand.orders_per_day) as f64;
        terms.push((orders, c::EMBEDDED_GRANT_BYTES, "orders of live sales"));
    }
    let (bytes, formula, used) = sum(&terms);
    sheet.add(
        "node-memory",
        bytes / 1e6,
        "MB of each node",
        formula,
        &used,
    );
}

/// Load of the embedded writer, and the time of a commit at the peak.
fn writer(demand: &CapacityDemand, granted: f64, sheet: &mut Sheet) {
    let entries = granted + demand.payments_per_second as f64;
    let (grant, commit) = (c::WRITER_GRANT_US, c::COMMIT_US);
    let load = entries * grant.value / 1e6;
    let formula = format!("{} entries × {} µs", grouped(entries), grant.value);
    sheet.add(
        "writer-load",
        load,
        "of the writer's time, commits apart",
        formula,
        &[grant],
    );
    if load >= WRITER_MAX {
        sheet.warnings.push(format!(
            "one writer decides up to {} entries per second: choose --engine redis",
            grouped(WRITER_MAX * 1e6 / grant.value)
        ));
        return;
    }
    // The batch of `n` entries that arrive during a commit: T = F + g·n with n = T × rate.
    let formula = format!("{} µs ÷ (1 − {})", commit.value, grouped(load));
    sheet.add(
        "commit-time",
        commit.value / (1.0 - load) / 1e3,
        "ms per commit at the peak",
        formula,
        &[commit, grant],
    );
}

/// Redis: primaries, servers and memory.
fn redis(demand: &CapacityDemand, granted: f64, sheet: &mut Sheet) {
    let terms = [
        (granted, c::REDIS_GRANT_US, "grants"),
        (
            demand.payments_per_second as f64,
            c::REDIS_PAYMENT_US,
            "payments",
        ),
    ];
    let (mut micros, formula, mut used) = sum(&terms);
    let mut formula = format!("({formula}) µs/s");
    let aof = match demand.aof {
        AofPolicy::No => None,
        AofPolicy::EverySec => Some(c::AOF_EVERYSEC_FACTOR),
        AofPolicy::Always => Some(c::AOF_ALWAYS_FACTOR),
    };
    let replica = (demand.replicas > 0).then_some(c::REPLICA_FACTOR);
    for factor in aof.into_iter().chain(replica) {
        micros *= factor.value;
        formula += &format!(" × {}", factor.value);
        used.push(factor);
    }
    used.push(c::LOAD);
    formula += &format!(" ÷ {}", c::LOAD.value);
    let cores = micros / 1e6 / c::LOAD.value;
    let cores = sheet.add(
        "redis-cores",
        cores,
        "cores of all primaries",
        formula,
        &used,
    );
    let primaries = cores.ceil().max(1.0);
    sheet.add(
        "redis-primaries",
        primaries,
        "primaries, each with one core for its commands",
        format!("{} cores", grouped(cores)),
        &[],
    );
    sheet.add(
        "redis-servers",
        primaries * (1 + demand.replicas) as f64,
        "Redis processes",
        format!("{primaries} primaries × (1 + {} replicas)", demand.replicas),
        &[],
    );
    let live = demand.stock.unwrap_or(demand.orders_per_day) as f64;
    let terms = [
        (live, c::REDIS_GRANT_BYTES, "live orders"),
        (
            c::LAG_ENTRIES.value,
            c::REDIS_ENTRY_BYTES,
            "unsettled entries",
        ),
    ];
    let (bytes, formula, mut used) = sum(&terms);
    used.extend([c::LAG_ENTRIES, c::RETAIN_BYTES, c::REDIS_ROOM]);
    let bytes = (bytes + c::RETAIN_BYTES.value) * c::REDIS_ROOM.value;
    let formula = format!(
        "({formula} + {}) × {} ÷ {primaries} primaries",
        grouped(c::RETAIN_BYTES.value),
        c::REDIS_ROOM.value
    );
    sheet.add(
        "redis-memory",
        bytes / primaries / 1e6,
        "MB, as maxmemory of each server",
        formula,
        &used,
    );
}

/// Ledger: rows, lag, disk, and the network of all nodes.
fn ledger(demand: &CapacityDemand, granted: f64, sheet: &mut Sheet) {
    let rate = match (demand.engine, demand.ledger) {
        (EngineKind::Embedded, _) | (_, LedgerStore::File) => c::FILE_ORDERS,
        (_, LedgerStore::Postgres) => c::POSTGRES_ORDERS,
        (_, LedgerStore::MariaDb) => c::MARIADB_ORDERS,
    };
    let payments = demand.payments_per_second as f64;
    let entries = granted + payments;
    let formula = format!(
        "{} grants + {} payments",
        grouped(granted),
        grouped(payments)
    );
    sheet.add(
        "ledger-entries",
        entries,
        "entries per second at the peak",
        formula,
        &[],
    );
    let weighted = granted + payments * c::PAYMENT_ROWS.value;
    let load = weighted / rate.value;
    let formula = format!(
        "({} grants + {} payments × {}) ÷ {} per second",
        grouped(granted),
        grouped(payments),
        c::PAYMENT_ROWS.value,
        grouped(rate.value)
    );
    sheet.add(
        "ledger-load",
        load,
        "s of settlement per second of the peak",
        formula,
        &[rate, c::PAYMENT_ROWS],
    );
    if load > 1.0 {
        sheet.warnings.push(format!(
            "entries wait for the ledger: each second of the peak takes {} s of settlement. Balances and lists are \
             late for that time; grants are not",
            grouped(load)
        ));
    }
    let orders = demand.orders_per_day as f64;
    let (bytes, formula, used) = sum(&[(orders, c::PAID_ORDER_BYTES, "paid orders")]);
    sheet.add(
        "ledger-disk",
        bytes / 1e9,
        "GB of disk per day",
        formula,
        &used,
    );
    let requests = demand.buyers_per_second as f64 + payments + demand.sign_ins_per_second as f64;
    let (bytes, formula, used) = sum(&[(requests, c::REQUEST_BYTES, "requests")]);
    sheet.add(
        "network",
        bytes * 8.0 / 1e9,
        "Gbit/s of all nodes, in and out",
        formula,
        &used,
    );
}

impl Coefficient {
    /// Source as a text of one line.
    #[must_use]
    pub fn source_line(&self) -> String {
        match self.source {
            CoefficientSource::Measured {
                section,
                date,
                command,
                ..
            } => format!("measured {date}: RESULTS.md, {section}, `{command}`"),
            CoefficientSource::Configured { key } => format!("default of {key}"),
            CoefficientSource::Assumed { reason } => format!("assumed: {reason}"),
        }
    }
}
