//! Acknowledgement levels.

use std::{fmt, str::FromStr};

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

impl AckLevel {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Replica => "replica",
            Self::Fsync => "fsync",
            Self::Ledger => "ledger",
        }
    }
}

impl fmt::Display for AckLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names nothing known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {expected}")]
pub struct WordError {
    /// The word that was given.
    pub word: String,
    /// The words that are known.
    pub expected: &'static str,
}

impl FromStr for AckLevel {
    type Err = WordError;
    fn from_str(word: &str) -> Result<Self, WordError> {
        [Self::Memory, Self::Replica, Self::Fsync, Self::Ledger]
            .into_iter()
            .find(|level| level.name() == word)
            .ok_or_else(|| WordError {
                word: word.to_owned(),
                expected: "memory, replica, fsync, ledger",
            })
    }
}
