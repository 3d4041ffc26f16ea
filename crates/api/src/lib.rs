//! The HTTP API: routes, wire types, problems, authentication, and the accept loop. One file a resource.
//!
//! It knows engines and ledgers by the ports of `qiang-core` alone ([`Ports`]); a node wires the real ones to it.

mod accounts;
mod actions;
mod app;
mod audience;
mod audit_runs;
mod audits;
mod auth;
mod auth_failure;
mod breaker;
mod callbacks;
mod campaign_cache;
mod campaigns;
mod challenge;
mod changes;
mod claims;
mod client_address;
pub mod config;
mod cors;
mod create;
mod detached;
mod document;
mod events;
mod extract;
mod failures;
mod figures;
mod fingerprint;
mod gauges;
mod health;
mod histories;
mod https;
mod invitation;
mod last_minutes;
mod limits;
mod lists;
mod members;
mod metrics;
mod money_room;
mod new_money;
mod no_body;
mod once;
mod open_streams;
mod order_body;
mod order_check;
mod orders;
mod pages;
mod paging;
mod partitions;
mod passphrase;
mod payment_reports;
mod payments;
mod payouts;
mod places;
mod problem;
mod profile;
mod promises;
mod quarantine;
mod readiness;
mod reconciliation;
mod red_packet_batch;
mod red_packets;
mod refusal;
mod request_id;
mod requirements;
mod response_headers;
mod router;
mod sale_changes;
mod sale_orders;
mod sales;
mod seal;
mod server;
mod session;
mod single_flight;
mod strict;
mod throttle;
mod tickets;
mod token;
mod traces;
mod under_way;
mod unknown_campaigns;
mod watched;
mod watched_file;
mod webhooks;
mod wire;

pub use self::{
    app::{Ports, Webhooks, id_at},
    auth::{Scope, check_key},
    challenge::{Challenge, ChallengeError, ProofOfWork},
    config::{Config, UsageError},
    gauges::{Disk, Gauges, PartitionReport, TransportReport},
    metrics::Build,
    request_id::current_trace,
    router::document,
    server::{Admin, Listeners, Role, Running, Server},
    token::TokenIssuer,
};
