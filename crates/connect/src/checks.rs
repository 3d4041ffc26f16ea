//! How the servers are set up, looked at when a node starts: grants must not be evicted, and should survive a restart.
//! `INFO` says all of it, also where `CONFIG` is forbidden. A server that becomes the primary later is looked at when
//! it is connected to, see `directory.rs`.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use qiang_core::event::PartitionId;
use redis::RedisError;

use crate::{call_connection::ConnectionContext, error::ConnectError, info::ServerInfo};

/// Looks at every primary that has a partition. One that does not answer is left out: whoever uses it will see.
///
/// # Errors
/// When a server may evict keys.
pub async fn check_servers(context: &ConnectionContext) -> Result<(), ConnectError> {
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

/// Looks whether every partition has a state in Redis. One that does not answer is left out: whoever uses it will see.
///
/// # Errors
/// When one has none.
pub async fn check_set_up(context: &ConnectionContext) -> Result<(), ConnectError> {
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
/// When the server may evict keys.
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
