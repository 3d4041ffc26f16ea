//! What can go wrong with Redis.

use qiang_core::ports::EngineError;

/// Why the engine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A URL or a number is not usable.
    #[error("{0}")]
    Options(String),
    /// Redis did not answer, or refused.
    #[error("Redis cannot be used")]
    Redis(#[source] redis::RedisError),
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
    /// The same, where it may have happened after all.
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
