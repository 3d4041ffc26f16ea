//! Engine and event log on Redis 7 / Valkey: standalone, Sentinel and Cluster.
//!
//! A partition's state and its log share one hash tag, and one Lua script decides a whole batch of claims: checks,
//! grants and log entries are one atomic step, and Redis pays per batch. Claims that arrive while a call is under way
//! are combined into the next one. `lua/` has the scripts.
//!
//! `connection` opens connections and follows leadership terms; it knows no campaigns. Modules import only those before them: scripts; meta, reply, record;
//! clock, partitions, ticking; waiting_lines; tally, transfer, kept, log_gap, snapshot; places, batcher, admission,
//! gate, recalls, openings, node; downtimes; damage, claims, orders, open, open_together, commands, offer, rebuild;
//! tasks, engine, log, repair, recall, retire, waiting.

mod admission;
mod batcher;
mod claims;
mod clock;
mod commands;
mod connection;
mod damage;
mod downtimes;
mod engine;
mod gate;
mod kept;
mod log;
mod log_gap;
mod meta;
#[cfg(all(test, feature = "servers"))]
mod model;
mod node;
mod offer;
mod open;
mod open_together;
mod openings;
mod orders;
mod partitions;
mod places;
mod rebuild;
mod recall;
mod recalls;
mod record;
mod repair;
mod reply;
mod retire;
mod scripts;
mod snapshot;
mod tally;
mod tasks;
mod terms;
mod ticking;
mod transfer;
mod transport;
mod unconfirmed;
mod unopened;
mod waiting;
mod waiting_lines;

pub use self::connection::{
    ConnectError, Identity, Options, PARTITIONS_MAX, PartitionState, Topology, WaitFor, foreign,
    new_epoch,
};

pub use self::{
    admission::BLOCK_LASTS,
    engine::RedisEngine,
    node::QUEUED_MAX,
    repair::Inspection,
    transport::{
        LEASE, RedisTransport, TransportKind, TransportOptions, WORKER_BYTES_MAX, remove_transports,
    },
};
