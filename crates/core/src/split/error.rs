//! Why a split is refused.

use thiserror::Error;

use super::SHARES_MAX;

/// Why a split is refused, in the order in which the reasons are looked for. Amounts are in minor units.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SplitError {
    /// There must be at least one share.
    #[error("a split needs at least 1 share")]
    CountZero,
    /// More shares than [`SHARES_MAX`].
    #[error("{count} shares are more than the {SHARES_MAX} that one split may have")]
    CountAboveMax {
        /// The shares asked for.
        count: u32,
    },
    /// There must be money to split.
    #[error("the total must be at least 1 minor unit, not {total}")]
    TotalNotPositive {
        /// The total asked for.
        total: i64,
    },
    /// Nobody may get an empty share.
    #[error("the smallest share must be at least 1 minor unit, not {min}")]
    MinNotPositive {
        /// The smallest share asked for.
        min: i64,
    },
    /// The bounds exclude each other.
    #[error("the smallest share {min} is above the largest share {max}")]
    MinAboveMax {
        /// The smallest share asked for.
        min: i64,
        /// The largest share asked for.
        max: i64,
    },
    /// Not enough money to give everybody the smallest share.
    #[error("a total of {total} is too little for {count} shares of at least {min}")]
    TotalBelowMin {
        /// The total asked for.
        total: i64,
        /// The shares asked for.
        count: u32,
        /// The smallest share asked for (1 where the rule has no such bound).
        min: i64,
    },
    /// Money would be left when everybody had the largest share.
    #[error("a total of {total} is too much for {count} shares of at most {max}")]
    TotalAboveMax {
        /// The total asked for.
        total: i64,
        /// The shares asked for.
        count: u32,
        /// The largest share asked for.
        max: i64,
    },
}
