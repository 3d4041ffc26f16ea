//! One running node: configuration, and the wiring of engine, ledger, transport and settlement to the HTTP API.

mod anonymous;
pub mod archive;
mod audit;
mod backend;
pub mod capacity;
mod close_component;
pub mod config;
pub mod control;
mod development_clock;
mod distributed;
pub mod doctor;
pub mod health;
mod ledger_ack;
pub mod local;
mod log_lines;
mod logging;
mod machine;
pub mod maintenance;
mod operator;
mod pages;
pub mod quickstart;
pub mod run;
pub mod scratch;
mod server;
pub mod shadow;
mod signals;
mod start_gauges;
mod transport_cleanup;

pub use qiang_api::{Admin, Build, Listeners, Scope, TokenIssuer, UsageError, document, id_at};
pub use qiang_embedded::{SystemClock, copies};
pub use qiang_ledger::{SCHEMA_VERSION as DATABASE_SCHEMA_VERSION, migrate, schema_version};
pub use qiang_redis::PartitionHealth;

pub use self::{
    anonymous::anonymous_routes,
    audit::engine_place,
    backend::Backend,
    config::NodeConfig,
    distributed::LedgerBackend,
    operator::Operator,
    server::{NodeStarter, RunningNode},
};

/// Newest schemas that this program reads and writes: kind of store, and version.
pub const SCHEMAS: [(&str, u32); 2] = [
    ("file", qiang_embedded::SCHEMA_VERSION),
    ("database", DATABASE_SCHEMA_VERSION),
];
