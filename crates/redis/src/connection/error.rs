//! Errors of Redis, their texts and classes.

use qiang_core::ports::{EngineError, LedgerError};
use redis::{ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value};

/// Reason why Redis grants nothing at `maxmemory`.
const OUT_OF_MEMORY: &str =
    "Redis has reached its maxmemory: it accepts claims again after settlement frees memory";

/// Error of starting the engine.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A URL or a number is invalid.
    #[error("{0}")]
    Options(String),
    /// Redis did not answer, or refused.
    #[error("Redis cannot be used")]
    Redis(#[source] RedisError),
    /// A server may evict keys, and every key is a grant.
    #[error(
        "the Redis on port {port} may evict keys, and with them grants: set `maxmemory-policy noeviction` there, not \
        `{policy}`"
    )]
    Evicts {
        /// The server's own port.
        port: String,
        /// Its eviction policy.
        policy: String,
    },
    /// Redis was set up with another number of partitions.
    #[error(
        "this Redis was set up with {found} partitions, but {configured} are configured: the number cannot be changed \
        later"
    )]
    Partitions {
        /// As stored in Redis.
        found: u16,
        /// As configured.
        configured: u16,
    },
    /// Redis' clock is earlier than the newest date of a partition.
    #[error(
        "the clock of Redis is {behind_s} s earlier than the newest entry of partition {partition}: set the clock of \
         its server right. If that entry is wrong, raise `engine.clock_behind_ms_max` for one start"
    )]
    ClockBehind {
        /// The partition.
        partition: u16,
        /// Difference in seconds.
        behind_s: i64,
    },
    /// Redis belongs to another installation's ledger.
    #[error("{0}")]
    Foreign(String),
    /// Redis has no state of a partition, and the ledger has no entries.
    #[error(
        "this Redis has no partition {partition} under the prefix `{prefix}`, and the ledger has no entries: no node \
        has used both together"
    )]
    Empty {
        /// The first missing partition.
        partition: u16,
        /// The installation's prefix.
        prefix: String,
    },
}

/// Error of a call that decided nothing.
pub(crate) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::unavailable(reason)
}

/// Error of a reply that does not have the agreed form. Nothing is known about the call.
#[must_use]
pub(crate) fn unreadable() -> EngineError {
    unavailable("cannot read a reply of Redis")
}

/// Error of a log that cannot be read now.
pub(crate) fn log_unavailable(error: RedisError) -> LedgerError {
    LedgerError::unavailable(no_answer(&error))
}

/// Text for the operator of a command that failed.
#[must_use]
pub(crate) fn no_answer(error: &RedisError) -> String {
    if is_out_of_memory(error) {
        return OUT_OF_MEMORY.to_owned();
    }
    format!("Redis does not answer: {error}")
}

/// Text for the operator of a script that failed.
pub(crate) fn refused(script: &str, error: &RedisError) -> String {
    if is_out_of_memory(error) {
        return OUT_OF_MEMORY.to_owned();
    }
    format!("{script}: {error}")
}

/// Whether Redis has reached its `maxmemory` and refuses commands that may need memory.
pub(crate) fn is_out_of_memory(error: &RedisError) -> bool {
    error.code() == Some("OOM")
}

/// Whether an error proves that a script wrote nothing.
///
/// Redis gives these errors when a script is called or at its first write, and never later. Any other error may have
/// come after a write.
pub(crate) fn is_before_writes(error: &RedisError) -> bool {
    let is_before = match error.kind() {
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::NoScript
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::CrossSlot
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
        ),
        _ => false,
    };
    is_before
        || matches!(
            error.code(),
            Some("OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" | "NOAUTH")
        )
}

/// Whether the server does not know `EVALSHA`, or refuses it to this user. Errors inside a script do not name it.
pub(crate) fn is_no_evalsha(error: &RedisError) -> bool {
    error.detail().is_some_and(|detail| {
        let detail = detail.to_ascii_lowercase();
        let is_refused = ["unknown command", "no permissions"];
        detail.contains("'evalsha'") && is_refused.iter().any(|words| detail.contains(words))
    })
}

/// Whether a key has another type than the command expects.
pub(crate) fn is_wrong_type(error: &EngineError) -> bool {
    match error {
        EngineError::Unavailable { reason } => reason.contains("WRONGTYPE"),
        _ => false,
    }
}

/// Reason of an error that says that Redis is at its `maxmemory`; `None` for other errors.
pub(crate) fn memory_full(error: &EngineError) -> Option<&str> {
    match error {
        EngineError::Unavailable { reason } | EngineError::Uncertain { reason } => {
            (reason == OUT_OF_MEMORY).then_some(reason)
        }
        _ => None,
    }
}

/// Whether a retry may succeed: a lost connection, a failover, a server that is starting or busy with a script.
pub(crate) fn is_transient(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io
        | ErrorKind::Parse
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
        ),
        _ => {
            error.is_io_error()
                || error.is_timeout()
                || matches!(
                    error.code(),
                    Some("UNBLOCKED" | "MISCONF" | "NOREPLICAS" | "BUSY")
                )
        }
    }
}

/// Error of a call without a decision. `uncertain` if the call may still have been carried out.
pub(crate) fn failure(reason: String, uncertain: bool) -> EngineError {
    if uncertain {
        EngineError::Uncertain { reason }
    } else {
        unavailable(reason)
    }
}

/// Converts an answer to its type.
pub(crate) fn read<T: FromRedisValue>(answer: Value) -> Result<T, EngineError> {
    let answer = answer.extract_error();
    let answer = answer.and_then(|answer| Ok(redis::from_redis_value(answer)?));
    answer.map_err(|error| unavailable(no_answer(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_evalsha_is_recognised() {
        let is_without = |line: &str| {
            let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            let answer = answer.and_then(redis::Value::extract_error);
            is_no_evalsha(&answer.expect_err("an error reply"))
        };
        for without in [
            "ERR unknown command 'EVALSHA', with args beginning with: '5d0f' '1' 'key' ",
            "NOPERM this user has no permissions to run the 'evalsha' command",
            "NOPERM User ann has no permissions to run the 'evalsha' command",
        ] {
            assert!(is_without(without), "{without}");
        }
        for with in [
            "NOSCRIPT No matching script. Please use EVAL.",
            "NOPERM this user has no permissions to run the 'info' command",
            "ERR The user executing the script can't run this command or subcommand script: 5d0f, on @user_script:51.",
            "ERR Unknown Redis command called from script script: 5d0f, on @user_script:51.",
        ] {
            assert!(!is_without(with), "{with}");
        }
    }

    /// Error texts are those of Redis 7 and Valkey.
    #[test]
    fn only_some_refusals_say_that_nothing_was_written() {
        let error = |line: &str| {
            let answer = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
            let answer = answer.and_then(redis::Value::extract_error);
            answer.expect_err("an error reply")
        };
        let at = "script: 5d0f, on @user_script:51.";
        for before in [
            "NOSCRIPT No matching script.",
            "LOADING Redis is loading the dataset in memory",
            "MOVED 12 127.0.0.1:1",
            "READONLY You can't write against a read only replica.",
            &format!("OOM command not allowed when used memory > 'maxmemory'. {at}"),
            &format!("MISCONF Redis is configured to save RDB snapshots {at}"),
            &format!("NOREPLICAS Not enough good replicas to write. {at}"),
            "BUSY Redis is busy running a script.",
        ] {
            assert!(is_before_writes(&error(before)), "{before}");
        }
        for unknown in [
            &format!("WRONGTYPE Operation against a key holding the wrong kind of value {at}"),
            &format!("ERR user_script:51: attempt to concatenate a nil value {at}"),
            &format!("NOPERM User default has no permissions to run the 'xadd' command {at}"),
            &format!("ERR value is not an integer or out of range {at}"),
        ] {
            assert!(!is_before_writes(&error(unknown)), "{unknown}");
        }
    }
}
