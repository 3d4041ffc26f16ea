//! What can go wrong with Redis.

use qiang_core::ports::{EngineError, LedgerError};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why a partition halts when Redis does not have its state.
pub(crate) const STATE_LOST: &str = "Redis has lost the state of this partition";

/// Why the engine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A URL or a number is not usable.
    #[error("{0}")]
    Options(String),
    /// Redis did not answer, or refused.
    #[error("Redis cannot be used")]
    Redis(#[source] RedisError),
    /// Redis was set up with another number of partitions.
    #[error(
        "this Redis was set up with {found} partitions and the configuration says {configured}: the number cannot be \
         changed later"
    )]
    Partitions {
        /// As stored in Redis.
        found: u16,
        /// As configured.
        configured: u16,
    },
}

/// Nothing was decided.
pub(crate) fn unavailable(reason: impl Into<String>) -> EngineError {
    let reason = reason.into();
    EngineError::Unavailable { reason }
}

pub(crate) fn unreadable() -> EngineError {
    unavailable("a reply of Redis cannot be read")
}

/// The log cannot be read now.
pub(crate) fn log_unavailable(error: &RedisError) -> LedgerError {
    let reason = no_answer(error);
    LedgerError::Unavailable { reason }
}

pub(crate) fn no_answer(error: &RedisError) -> String {
    format!("Redis does not answer: {error}")
}

/// Whether another attempt may succeed: a lost connection, a failover, a server that is starting.
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
                || matches!(error.code(), Some("UNBLOCKED" | "MISCONF" | "NOREPLICAS"))
        }
    }
}
