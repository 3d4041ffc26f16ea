//! Acknowledgement levels.

use std::str::FromStr;

use crate::words::words;

/// How much a grant survives before it is acknowledged, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AckLevel {
    /// A crash of a service node.
    Memory,
    /// The loss of a primary, when the failover picks an acknowledging replica.
    Replica,
    /// kill -9 and power loss.
    Fsync,
    /// The loss of the engine altogether: the ledger has it.
    Ledger,
}

words!(AckLevel { Memory = "memory", Replica = "replica", Fsync = "fsync", Ledger = "ledger" });

/// A word that names no acknowledgement level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of memory, replica, fsync, ledger")]
pub struct UnknownAckLevel(String);

impl FromStr for AckLevel {
    type Err = UnknownAckLevel;
    fn from_str(word: &str) -> Result<Self, UnknownAckLevel> {
        Self::of_name(word).ok_or_else(|| UnknownAckLevel(word.to_owned()))
    }
}
