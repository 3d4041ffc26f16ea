//! Splits the money of a red packet into shares.
//!
//! A [`Split`] is a total in minor units, a count of shares and a [`SplitRule`]. With a [`Seed`] it gives its shares.
//! They are the same on every machine, and in every release with the same [`SPLIT_VERSION`]. The service publishes the
//! [`Commitment`] of [`commit`] before the red packet opens, and the seed after it is closed. So users can verify that
//! the amounts were fixed beforehand, and recompute them.
//!
//! Every rule guarantees that the shares add up to the total exactly, and that each is inside the rule's bounds. All
//! positions have the same expectation. All arithmetic uses integers, so nothing depends on a processor's floating
//! point. Time and memory are linear in the count.
//!
//! # Version 1
//! Random numbers are the ChaCha20 key stream under the seed, read as little-endian 64-bit words. It is Bernstein's
//! variant, with a 64-bit block counter from zero and a 64-bit nonce. Rules that draw all shares at once use nonce 0.
//! The lazy rule uses the number of the grant, from 1, as nonce. A draw below `n` is Lemire's method with rejection. A
//! shuffle is Fisher and Yates', from the last place down. Each rule's steps are described in its file. Any change to
//! this is a new version.

mod double_average;
mod equal;
mod error;
mod normal_rule;
mod proof;
mod rng;
mod rule;
mod seed;

pub use double_average::lazy_amount;
pub use error::SplitError;
pub use proof::{
    ClientSeed, Commitment, SeedOrigin, SeedParts, ServerSeed, ServerSeedHash, commit,
    server_seed_hash,
};
pub use rule::{RuleName, RulePartsError, SplitRule, UnknownRule};
pub use seed::{HexError, Seed};

use rng::Stream;

/// Version of the algorithms in this module. A [`Commitment`] covers it.
pub const SPLIT_VERSION: u8 = 1;

/// Maximum shares of one red packet. It limits memory (8 bytes per share), and keeps `count × max` far inside the
/// 128-bit intermediates.
pub const SHARES_MAX: u32 = 10_000_000;

/// A split that is known to be possible: at least one list of `count` shares inside the rule's bounds adds up to
/// `total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    total: i64,
    count: u32,
    rule: SplitRule,
}

impl Split {
    /// Checks that `total` minor units can be split into `count` shares by `rule`.
    ///
    /// # Errors
    /// Only impossible splits and counts above [`SHARES_MAX`] are refused. If several reasons apply, the first one in
    /// [`SplitError`] is returned.
    pub fn new(total: i64, count: u32, rule: SplitRule) -> Result<Self, SplitError> {
        let (min, max) = (rule.min(), rule.max());
        if count == 0 {
            return Err(SplitError::CountZero);
        }
        if count > SHARES_MAX {
            return Err(SplitError::CountAboveMax { count });
        }
        if total <= 0 {
            return Err(SplitError::TotalNotPositive { total });
        }
        if min <= 0 {
            return Err(SplitError::MinNotPositive { min });
        }
        if let Some(max) = max
            && min > max
        {
            return Err(SplitError::MinAboveMax { min, max });
        }
        if i128::from(total) < i128::from(count) * i128::from(min) {
            return Err(SplitError::TotalBelowMin { total, count, min });
        }
        if let Some(max) = max
            && i128::from(total) > i128::from(count) * i128::from(max)
        {
            return Err(SplitError::TotalAboveMax { total, count, max });
        }
        Ok(Self { total, count, rule })
    }

    /// Total, in minor units; at least 1.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Number of shares; from 1 to [`SHARES_MAX`].
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The rule.
    pub fn rule(&self) -> SplitRule {
        self.rule
    }

    /// Shares in minor units, in the order in which they are granted: `count` of them, which add up to `total`.
    ///
    /// For [`SplitRule::Lazy`] they are the results of [`lazy_amount`] for the first grant, the second, and so on.
    pub fn shares(&self, seed: &Seed) -> Vec<i64> {
        let mut stream = Stream::new(seed, 0);
        match self.rule {
            SplitRule::Normal { min, max } => {
                normal_rule::shares(&mut stream, self.total, self.count, min, max)
            }
            SplitRule::DoubleAverage { min } => {
                double_average::shares(&mut stream, self.total, self.count, min)
            }
            SplitRule::Equal => equal::shares(&mut stream, self.total, self.count),
            SplitRule::Lazy { min } => {
                double_average::lazy_shares(seed, self.total, self.count, min)
            }
        }
    }
}
