//! Commit and reveal: the proof that a split was settled before anybody claimed.
//!
//! A [`Commitment`] is the SHA-256 of these bytes, in this order; integers are big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 23 | `qiang/split/commitment` and a zero byte |
//! | 1 | [`SPLIT_VERSION`] |
//! | 1 | the rule: 1 `normal`, 2 `double_average`, 3 `equal`, 4 `lazy` |
//! | 8 | total, in minor units |
//! | 4 | count |
//! | 8 | min, or 0 where the rule has none |
//! | 8 | max, or 0 where the rule has none |
//! | 32 | the seed |
//!
//! Every field has a fixed length, so no two splits have the same bytes. The seed's 256 random bits hide themselves:
//! the parameters may be known to all.

use std::fmt;

use sha2::{Digest, Sha256};

use super::seed::hex_bytes;
use super::{SPLIT_VERSION, Seed, Split, SplitRule};

/// Keeps these hashes apart from all others that Qiang may ever publish.
const DOMAIN: &[u8; 23] = b"qiang/split/commitment\0";

/// What is published when a red packet opens: it binds the seed, the parameters and the version without telling the
/// seed. `Display` gives 64 lowercase hexadecimal digits, `FromStr` reads them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commitment([u8; 32]);

hex_bytes!(Commitment);

impl fmt::Debug for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commitment({self})")
    }
}

/// Commits to `split` under `seed`.
pub fn commit(seed: &Seed, split: &Split) -> Commitment {
    let (code, min, max): (u8, i64, i64) = match split.rule() {
        SplitRule::Normal { min, max } => (1, min, max),
        SplitRule::DoubleAverage { min } => (2, min, 0),
        SplitRule::Equal => (3, 0, 0),
        SplitRule::Lazy { min } => (4, min, 0),
    };
    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    hash.update([SPLIT_VERSION, code]);
    hash.update(split.total().to_be_bytes());
    hash.update(split.count().to_be_bytes());
    hash.update(min.to_be_bytes());
    hash.update(max.to_be_bytes());
    hash.update(seed.as_bytes());
    Commitment(hash.finalize().into())
}

/// Whether `commitment` is the one to `split` under the revealed `seed`. If so, [`Split::shares`] gives the shares
/// that were committed to.
pub fn verify(split: &Split, seed: &Seed, commitment: &Commitment) -> bool {
    commit(seed, split) == *commitment
}
