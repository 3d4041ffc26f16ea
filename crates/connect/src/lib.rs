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
mod options;
mod partition;
mod presence;
mod replicas;
mod replies;
mod reply;
mod script;

pub use self::{
    call::{Arguments, Call},
    call_connection::{CallConnection, ConnectionContext},
    checks::{check_servers, check_set_up},
    connections::Connections,
    directory::Directory,
    error::{
        ConnectError, is_out_of_memory, is_transient, is_wrong_type, log_unavailable, memory_full,
        no_answer, unavailable, unreadable,
    },
    identity::{Identity, Mark, foreign},
    keys::{KeySpace, PARTITIONS_MAX, SCRIPT_KEYS, fnv1a, home_of, part_of},
    options::{Options, Topology, WaitFor},
    partition::{Partition, PartitionState},
    presence::{RESUME, new_epoch},
    replicas::replicas_have,
    replies::Unkept,
    reply::ScriptReply,
    script::{AT_MAXMEMORY, FENCE, HEAD, Script, eval, eval_at_maxmemory, head_in_term},
};
