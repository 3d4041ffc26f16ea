//! How the servers are set up, looked at once when a node starts: grants must not be evicted, and should survive a
//! restart. `INFO` says all of it, also where `CONFIG` is forbidden.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use qiang_core::event::PartitionId;
use redis::RedisError;

use crate::{call_connection::ConnectionContext, error::ConnectError};

/// Looks at every primary that has a partition. One that does not answer is left out: whoever uses it will see.
///
/// # Errors
/// When a server may evict keys.
pub(crate) async fn check_servers(context: &ConnectionContext) -> Result<(), ConnectError> {
    let partitions = (0..context.options.partitions).map(PartitionId);
    let asked = join_all(partitions.map(|partition| info_of(context, partition))).await;
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

/// What the primary that has a partition says of itself.
async fn info_of(context: &ConnectionContext, partition: PartitionId) -> Option<Info> {
    let mut connection = context.directory.connect(partition).await.ok()?;
    let info: Result<String, RedisError> = redis::cmd("INFO").query_async(&mut connection).await;
    let warn = |error: &RedisError| {
        tracing::warn!(
            partition = partition.0,
            %error,
            "how Redis is set up cannot be checked"
        );
    };
    info.inspect_err(warn).ok().map(Info)
}

/// # Errors
/// When the server may evict keys.
fn check(info: &Info) -> Result<(), ConnectError> {
    let (policy, port) = (info.field("maxmemory_policy"), info.field("tcp_port"));
    if !policy.is_empty() && policy != "noeviction" {
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

/// The reply to `INFO`: lines of `field:value`.
struct Info(String);

impl Info {
    /// A field's value; empty if there is no such field.
    fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or("").trim()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_policy_is_refused_by_name() {
        let info = |policy: &str| {
            Info(format!(
                "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n"
            ))
        };
        assert!(check(&info("noeviction")).is_ok());
        assert!(check(&Info(String::new())).is_ok());
        let refused = check(&info("allkeys-lru")).unwrap_err().to_string();
        assert!(
            refused.contains("maxmemory-policy") && refused.contains("allkeys-lru"),
            "{refused}"
        );
    }
}
