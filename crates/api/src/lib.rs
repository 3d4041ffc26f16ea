//! The HTTP API: routes, wire types, problems, authentication, and the accept loop. One file a resource.
//!
//! It knows engines and ledgers by the ports of `qiang-core` alone ([`Ports`]); a node wires the real ones to it.

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
mod resources;
mod router;
mod server;

pub use self::{
    app::{Ports, Webhooks, id_at},
    auth::{Scope, check_key, token::TokenIssuer},
    challenge::{Challenge, ChallengeError, ProofOfWork},
    config::{Config, UsageError},
    http::request_id::current_trace,
    observe::{
        gauges::{Disk, Gauges, PartitionReport, TransportReport},
        metrics::Build,
    },
    router::document,
    server::{Admin, Listeners, Role, Running, Server},
};
