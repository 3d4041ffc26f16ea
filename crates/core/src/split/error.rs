//! Reasons why a split is refused.

use thiserror::Error;

use super::SHARES_MAX;

/// Reason why a split is refused, in the order of the checks. Amounts are in minor units.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SplitError {
    /// There must be at least one share.
    #[error("a split needs at least 1 share")]
    CountZero,
    /// More shares than [`SHARES_MAX`].
    #[error("{count} shares are more than the {SHARES_MAX} that one split may have")]
    CountAboveMax {
        /// Requested shares.
        count: u32,
    },
    /// There must be money to split.
    #[error("the total must be at least 1 minor unit, not {total}")]
    TotalNotPositive {
        /// Requested total.
        total: i64,
    },
    /// No share may be empty.
    #[error("the smallest share must be at least 1 minor unit, not {min}")]
    MinNotPositive {
        /// Requested smallest share.
        min: i64,
    },
    /// The bounds exclude each other.
    #[error("the smallest share {min} is above the largest share {max}")]
    MinAboveMax {
        /// Requested smallest share.
        min: i64,
        /// Requested largest share.
        max: i64,
    },
    /// The total is less than `count` smallest shares.
    #[error("a total of {total} is too little for {count} shares of at least {min}")]
    TotalBelowMin {
        /// Requested total.
        total: i64,
        /// Requested shares.
        count: u32,
        /// Requested smallest share (1 if the rule has no such bound).
        min: i64,
    },
    /// The total is more than `count` largest shares.
    #[error("a total of {total} is too much for {count} shares of at most {max}")]
    TotalAboveMax {
        /// Requested total.
        total: i64,
        /// Requested shares.
        count: u32,
        /// Requested largest share.
        max: i64,
    },
}
