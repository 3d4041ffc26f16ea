//! How a red packet's money becomes shares.
//!
//! A [`Split`] is a total in minor units, a count of shares and a [`SplitRule`]; with a [`Seed`] it gives its shares,
//! the same ones on every machine and in every release that speaks the same [`SPLIT_VERSION`]. Whoever opens a red
//! packet publishes [`commit`]'s [`Commitment`] first and the seed once the packet is closed, so that anybody can
//! verify that the amounts were settled beforehand and recompute them.
//!
//! What holds for every rule: the shares add up to the total exactly, each is inside the rule's bounds, and no
//! position is better than another in expectation. All arithmetic is on integers, so nothing depends on a
//! processor's floating point. Work and memory are linear in the count.
//!
//! # Version 1
//! The random numbers are the ChaCha20 key stream under the seed (Bernstein's variant: 64-bit block counter from
//! zero, 64-bit nonce), read as little-endian 64-bit words. Nonce 0 serves the rules that settle all shares at
//! once; the lazy rule uses the number of the grant, from 1, as nonce. A draw below `n` is Lemire's method with
//! rejection and a shuffle is Fisher and Yates', from the last place down. Each rule's own steps are described in
//! its file. A change to any of this is a new version.

mod double_average;
mod equal;
mod error;
mod normal;
mod proof;
mod rng;
mod rule;
mod seed;

pub use double_average::lazy_amount;
pub use error::SplitError;
pub use proof::{Commitment, Entropy, Origin, Parts, Promise, Secret, commit, promise};
pub use rule::{RuleName, RulePartsError, SplitRule, UnknownRule};
pub use seed::{HexError, Seed};

use rng::Stream;

/// The version of the algorithms in this module; part of what a [`Commitment`] covers.
pub const SPLIT_VERSION: u8 = 1;

/// The most shares one red packet may have. It bounds memory (8 bytes a share) and keeps `count × max` far inside
/// the 128-bit intermediates.
pub const SHARES_MAX: u32 = 10_000_000;

/// A split that is known to be possible: there is at least one way to give `count` shares inside the rule's bounds
/// that add up to `total`.
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
    /// Exactly the impossible splits are refused, and counts above [`SHARES_MAX`]. Where several reasons apply, the
    /// one that comes first in [`SplitError`] is given.
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

    /// The money to split, in minor units; at least 1.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// How many shares; from 1 to [`SHARES_MAX`].
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The rule.
    pub fn rule(&self) -> SplitRule {
        self.rule
    }

    /// The shares in minor units, in the order in which they are granted: `count` of them, adding up to `total`.
    ///
    /// For [`SplitRule::Lazy`] they are what [`lazy_amount`] gives to the first grant, the second, and so on.
    pub fn shares(&self, seed: &Seed) -> Vec<i64> {
        let mut stream = Stream::new(seed, 0);
        match self.rule {
            SplitRule::Normal { min, max } => {
                normal::shares(&mut stream, self.total, self.count, min, max)
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
