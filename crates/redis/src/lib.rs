//! Engine and event log on Redis 7 / Valkey: standalone, Sentinel and Cluster.
//!
//! A partition's state and its log share one hash tag. One Lua script decides a batch of claims: checks, grants and log
//! entries are one atomic step, and Redis has one call per batch. Claims that arrive during a call form the next one.
//! `lua/` contains the scripts.
//!
//! Folders, each of which imports only those before it:
//!
//! | folder | content |
//! |---|---|
//! | `connection` | connections, leadership terms, script calls; knows no campaigns |
//! | `protocol` | scripts, and what their replies and log records mean |
//! | `partitions` | all partitions, their clocks and gaps in their logs |
//! | `shards` | a campaign's slices: numbers, rows, transfers between them |
//! | `intake` | claims before a decision: gate, admission, batches; answers that the ledger does not have yet |
//! | `campaigns` | operations: opening, claims, orders, changes |
//! | `repair` | rebuilds partitions and campaigns after a loss |
//! | `eviction` | closed campaigns leave Redis and are reloaded on request |
//! | `transport` | streams and lists that carry entries to the ledger |
//!
//! `lua` has the scripts; each documents its keys, arguments and replies. `node.rs` is the state that tasks and handles
//! of a node share, `engine.rs` the handle.

mod campaigns;
mod connection;
mod downtimes;
mod engine;
mod eviction;
mod intake;
#[cfg(all(test, feature = "servers"))]
mod model;
mod node;
mod partition_runtime;
mod partitions;
mod protocol;
mod quarantined;
mod queues;
mod repair;
mod repair_offer;
mod shards;
mod tasks;
mod transport;
mod waiting_room;

pub use self::connection::{
    ConnectError, Identity, MemoryUse, PARTITIONS_MAX, PartitionHealth, RedisOptions, Topology,
    WaitFor, foreign, log_ends, new_epoch,
};

pub use self::{
    engine::RedisEngine,
    intake::admission::BLOCK_LASTS,
    node::QUEUED_MAX,
    repair::Inspection,
    transport::{
        LEASE, LogTransportKind, RedisTransport, TransportOptions, WORKER_BYTES_MAX,
        remove_transports,
    },
};
