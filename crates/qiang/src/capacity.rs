//! Capacity model: machines, Redis, memory and ledger for a peak, from measured costs.
//!
//! The model is pure. Each figure of a plan names its coefficients, and each coefficient its measurement.

mod coefficients;
mod model;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::coefficients::{Coefficient, CoefficientSource};
use crate::config::EngineKind;

/// Persistence of Redis: `appendonly` and `appendfsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AofPolicy {
    /// No append-only file.
    #[default]
    No,
    /// A sync each second.
    EverySec,
    /// A sync before each reply.
    Always,
}

impl AofPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::No, Self::EverySec, Self::Always];

    /// Name as in `appendfsync`; `no` for no file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::EverySec => "everysec",
            Self::Always => "always",
        }
    }
}

/// Store of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerStore {
    /// PostgreSQL.
    #[default]
    Postgres,
    /// MySQL or MariaDB.
    MariaDb,
    /// A file of SQLite; the only one of the embedded engine.
    File,
}

impl LedgerStore {
    /// All stores.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::MariaDb, Self::File];

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::File => "file",
        }
    }
}

/// Peak to size for, and the set-up.
#[derive(Debug, Clone, Serialize)]
pub struct CapacityDemand {
    /// Engine of the set-up.
    #[serde(serialize_with = "engine_name")]
    pub engine: EngineKind,
    /// Claims per second at the peak.
    pub buyers_per_second: u64,
    /// Units for sale at the peak. `None`: each claim is granted.
    pub stock: Option<u64>,
    /// Payments reported per second.
    pub payments_per_second: u64,
    /// Sign-ins per second: sessions of browsers.
    pub sign_ins_per_second: u64,
    /// Open streams of campaign events.
    pub watchers: u64,
    /// Connections of users at a time, without streams.
    pub users: u64,
    /// New connections per second; they cost a handshake each if nodes terminate TLS.
    pub new_connections_per_second: u64,
    /// Whether nodes terminate TLS.
    pub tls: bool,
    /// Replicas of each Redis primary. If there are any, grants wait for one of them (`ack = replica`).
    pub replicas: u64,
    /// Persistence of Redis.
    pub aof: AofPolicy,
    /// Store of the ledger.
    pub ledger: LedgerStore,
    /// Orders per day.
    pub orders_per_day: u64,
    /// Cores of a node's machine.
    pub cores_per_node: u64,
}

fn engine_name<S: serde::Serializer>(engine: &EngineKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(match engine {
        EngineKind::Embedded => "embedded",
        EngineKind::Redis => "redis",
    })
}

/// A figure of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityNeed {
    /// Name, stable for programs.
    pub name: &'static str,
    /// Amount.
    pub value: f64,
    /// Unit of the amount.
    pub unit: &'static str,
    /// Computation, with the numbers in it.
    pub formula: String,
    /// Names of its coefficients.
    pub coefficients: Vec<&'static str>,
}

impl CapacityNeed {
    /// Amount for people: with commas, and with decimals if it is small.
    #[must_use]
    pub fn shown(&self) -> String {
        model::grouped(self.value)
    }
}

/// Machines and sizes for a demand.
#[derive(Debug, Clone, Serialize)]
pub struct CapacityPlan {
    /// The demand.
    pub demand: CapacityDemand,
    /// Figures.
    pub needs: Vec<CapacityNeed>,
    /// Coefficients of the figures.
    pub coefficients: Vec<Coefficient>,
    /// Limits that the demand exceeds, and parts that the model omits.
    pub warnings: Vec<String>,
}

impl CapacityPlan {
    /// Plan for a demand.
    #[must_use]
    pub fn new(demand: CapacityDemand) -> Self {
        model::plan(demand)
    }

    /// A figure by its name.
    #[must_use]
    pub fn need(&self, name: &str) -> Option<&CapacityNeed> {
        self.needs.iter().find(|need| need.name == name)
    }
}
