//! Acknowledgement levels.

use std::str::FromStr;

use crate::string_enum::string_enum;

/// Failures that an acknowledged grant survives, weakest level first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AckLevel {
    /// Survives the crash of a service node.
    Memory,
    /// Survives the loss of a primary, if the failover picks an acknowledging replica.
    Replica,
    /// Survives kill -9 and power loss.
    Fsync,
    /// Survives the loss of the whole engine, because the ledger has the grant.
    Ledger,
}

string_enum!(AckLevel { Memory = "memory", Replica = "replica", Fsync = "fsync", Ledger = "ledger" });

/// A word that names no acknowledgement level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of memory, replica, fsync, ledger")]
pub struct UnknownAckLevel(String);

impl FromStr for AckLevel {
    type Err = UnknownAckLevel;
    fn from_str(word: &str) -> Result<Self, UnknownAckLevel> {
        Self::from_name(word).ok_or_else(|| UnknownAckLevel(word.to_owned()))
    }
}
