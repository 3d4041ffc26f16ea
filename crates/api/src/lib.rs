//! HTTP API: routes, wire types, problems, authentication, and the accept loop. One file per resource.
//!
//! It uses engines and ledgers only through the ports of `qiang-core` ([`Ports`]); a node connects the real ones.

mod app;
mod audience;
mod auth;
mod cache;
mod challenge;
mod claims;
pub mod config;
mod document;
mod extract;
mod http;
mod idempotency;
mod observe;
mod protect;
mod providers;
mod resources;
mod router;
mod server;

pub use self::{
    app::{Ports, Webhooks, id_at},
    auth::{Scope, check_key, token::TokenIssuer},
    challenge::{ChallengeError, ProofOfWork, TicketChallenge},
    config::{ApiConfig, UsageError},
    http::request_id::current_trace,
    observe::{
        gauges::{Disk, Gauges, MemoryOfServer, PartitionReport, TransportReport},
        metrics::Build,
    },
    providers::check_accounts,
    router::document,
    server::{Admin, Listeners, Role, RunningServer, Server},
};
