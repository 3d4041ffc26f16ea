//! Connections to Redis 7 / Valkey: finds and dials servers, follows leadership terms of partitions, and calls scripts.
//! A call is carried out once, even if it is sent several times. This crate does not know campaigns.
//!
//! Modules import only modules before them: identity, options, keys, info, script, replicas, replies; error, reply;
//! partition, dialer; directory, call; call_connection; confirmations, checks, connections; presence. `keys.rs`
//! documents every key of an installation.

mod call;
mod call_connection;
mod checks;
mod confirmations;
mod connections;
mod dialer;
mod directory;
mod error;
mod identity;
mod info;
mod keys;
mod lanes;
mod log_ends;
mod memory;
mod options;
mod partition;
mod presence;
mod replicas;
mod replies;
mod reply;
mod script;

pub use self::{
    error::ConnectError,
    identity::{Identity, foreign},
    keys::PARTITIONS_MAX,
    log_ends::log_ends,
    memory::MemoryUse,
    options::{RedisOptions, Topology, WaitFor},
    partition::PartitionHealth,
    presence::new_epoch,
};

pub(crate) use self::{
    call::{Arguments, ScriptCall},
    call_connection::{CallConnection, ConnectionContext},
    checks::{check_servers, check_set_up},
    connections::RedisConnections,
    directory::Directory,
    error::{
        is_out_of_memory, is_wrong_type, log_unavailable, memory_full, unavailable, unreadable,
    },
    keys::{KeySpace, fnv1a, home_of, part_of},
    partition::PartitionHandle,
    presence::RESUME,
    replicas::replicas_have,
    reply::ScriptReply,
    script::{AT_MAXMEMORY, FENCE, Script, eval, eval_at_maxmemory, head_in_term},
};

#[cfg(test)]
pub(crate) use self::{keys::SCRIPT_KEYS, script::HEAD};
