//! Engine and event log on Redis 7 / Valkey: standalone, Sentinel and Cluster.
//!
//! A partition's state and its log share one hash tag, and one Lua script decides a whole batch of claims: checks,
//! grants and log entries are one atomic step, and Redis pays per batch. Claims that arrive while a call is under way
//! are combined into the next one. `keys.rs` documents every key; `lua/` has the scripts.
//!
//! Modules import only those before them: keys, scripts, options; partition; meta, reply, record; dialer, directory;
//! call_connection; checks, partitions, presence; tally, transfer, kept, snapshot; batcher, gate, node; claims, orders,
//! open, commands, offer, rebuild; tasks, engine, log, repair.

mod batcher;
mod call_connection;
mod checks;
mod claims;
mod clock;
mod commands;
mod dialer;
mod directory;
mod engine;
mod error;
mod gate;
mod info;
mod kept;
mod keys;
mod log;
mod meta;
#[cfg(all(test, feature = "servers"))]
mod model;
mod node;
mod offer;
mod open;
mod options;
mod orders;
mod partition;
mod partitions;
mod presence;
mod rebuild;
mod record;
mod repair;
mod replies;
mod reply;
mod scripts;
mod snapshot;
mod tally;
mod tasks;
mod terms;
mod transfer;
mod transport;

pub use self::{
    engine::RedisEngine,
    error::ConnectError,
    keys::PARTITIONS_MAX,
    node::QUEUED_MAX,
    options::{Options, Topology, WaitFor},
    partition::PartitionState,
    repair::Inspection,
    transport::{
        LEASE, RedisTransport, TransportKind, TransportOptions, WORKER_BYTES_MAX, remove_transports,
    },
};
