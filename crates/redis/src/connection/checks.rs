//! Checks of the servers' settings at the start of a node: Redis must not evict grants, and should keep them over a
//! restart.
//!
//! `INFO` has all settings that are needed, even where `CONFIG` is forbidden. A server that becomes the primary later
//! is checked when a connection to it opens, see `directory.rs`.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use qiang_core::event::PartitionId;
use redis::RedisError;

use crate::connection::{
    call_connection::ConnectionContext, error::ConnectError, info::ServerInfo,
};

/// Checks every primary that has a partition. Skips a primary that does not answer: connections to it are checked
/// later.
///
/// # Errors
/// If a server may evict keys.
pub(crate) async fn check_servers(context: &ConnectionContext) -> Result<(), ConnectError> {
    let partitions = (0..context.options.partitions).map(PartitionId);
    let asked = partitions.map(|partition| context.directory.info(partition));
    let asked = join_all(asked).await;
    let mut known = BTreeSet::new();
    for info in asked.iter().flatten() {
        if known.insert(info.field("run_id")) {
            check(info)?;
        }
    }
    Ok(())
}

/// Checks that every partition has a state in Redis. Skips a partition whose primary does not answer.
///
/// # Errors
/// If a partition has no state.
pub(crate) async fn check_set_up(context: &ConnectionContext) -> Result<(), ConnectError> {
    for partition in (0..context.options.partitions).map(PartitionId) {
        let Ok(mut connection) = context.directory.connect(partition).await else {
            continue;
        };
        let mut command = redis::cmd("EXISTS");
        command.arg(context.keys.partition(partition));
        let exists: Result<i64, RedisError> = command.query_async(&mut connection).await;
        if exists.is_ok_and(|count| count == 0) {
            return Err(ConnectError::Empty {
                partition: partition.0,
                prefix: context.options.prefix.clone(),
            });
        }
    }
    Ok(())
}

/// # Errors
/// If the server may evict keys.
fn check(info: &ServerInfo) -> Result<(), ConnectError> {
    let port = info.field("tcp_port");
    if let Some(policy) = info.eviction() {
        return Err(ConnectError::Evicts {
            port: port.to_owned(),
            policy: policy.to_owned(),
        });
    }
    if info.field("aof_enabled") == "0" && info.field("connected_slaves") == "0" {
        tracing::warn!(
            port,
            "a restart of this Redis loses grants, and stops its partitions: set `appendonly yes` or add replicas"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_policy_is_refused_by_name() {
        let info = |policy: &str| ServerInfo::new(format!("maxmemory_policy:{policy}\r\n"));
        assert!(check(&info("noeviction")).is_ok());
        assert!(check(&ServerInfo::new(String::new())).is_ok());
        let refused = check(&info("allkeys-lru")).unwrap_err().to_string();
        assert!(
            refused.contains("maxmemory-policy") && refused.contains("allkeys-lru"),
            "{refused}"
        );
    }
}
