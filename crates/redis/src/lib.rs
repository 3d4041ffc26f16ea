//! Engine and event log on Redis 7 / Valkey: standalone, Sentinel and Cluster.
//!
//! A partition's state and its log lie under one hash tag, and one Lua script decides a whole batch of claims: checks,
//! grants and log entries are one atomic step, and Redis pays by the batch. Claims that arrive while a call is under
//! way are combined into the next one. See `keys.rs` for what is kept where, and `lua/` for the scripts.

mod batcher;
mod call_connection;
mod claims;
mod clock;
mod commands;
mod context;
mod dialer;
mod directory;
mod engine;
mod error;
mod gate;
mod keys;
mod log;
mod meta;
#[cfg(all(test, feature = "servers"))]
mod model;
mod node;
mod open;
mod options;
mod orders;
mod partition;
mod partitions;
mod record;
mod reply;
mod scripts;
mod tally;
mod tasks;
mod transfer;
mod transport;

pub use self::{
    engine::{QUEUED_MAX, RedisEngine},
    error::ConnectError,
    keys::PARTITIONS_MAX,
    options::{Options, Topology, WaitFor},
    transport::{
        LEASE, RedisTransport, TransportKind, TransportOptions, WORKER_BYTES_MAX, remove_transports,
    },
};
