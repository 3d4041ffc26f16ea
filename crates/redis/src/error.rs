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

/// Why a call to a script gave no decision.
#[derive(Debug, Clone)]
pub(crate) enum CallError {
    /// Nothing is granted on this partition any more.
    Halted(String),
    /// It did not happen.
    Unavailable(String),
    /// It may have happened.
    Uncertain(String),
}

impl CallError {
    /// The same, for a call that an earlier attempt may have carried out.
    pub(crate) fn uncertain(self) -> Self {
        match self {
            Self::Halted(reason) | Self::Unavailable(reason) | Self::Uncertain(reason) => {
                Self::Uncertain(reason)
            }
        }
    }
}

impl From<CallError> for EngineError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Halted(reason) | CallError::Unavailable(reason) => {
                Self::Unavailable { reason }
            }
            CallError::Uncertain(reason) => Self::Uncertain { reason },
        }
    }
}

/// A server that gave no answer, for callers of the engine.
pub(crate) fn unavailable(error: &RedisError) -> EngineError {
    EngineError::Unavailable {
        reason: no_answer(error),
    }
}

/// A server that gave no answer, for settlement.
pub(crate) fn log_unavailable(error: &RedisError) -> LedgerError {
    LedgerError::Unavailable {
        reason: no_answer(error),
    }
}

pub(crate) fn unreadable() -> EngineError {
    EngineError::Unavailable {
        reason: "a reply of Redis cannot be read".to_owned(),
    }
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

fn no_answer(error: &RedisError) -> String {
    format!("Redis does not answer: {error}")
}
