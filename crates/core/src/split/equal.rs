//! The rule `equal`.
//!
//! Everybody gets the floor of the mean. The units left, fewer than there are shares, go one each to shares that a
//! shuffle chooses; nothing is drawn when none is left.

use super::rng::Stream;

/// `count` shares that differ by at most 1 and add up to `total`. Needs what [`Split::new`](super::Split::new)
/// checks.
pub(super) fn shares(stream: &mut Stream, total: i64, count: u32) -> Vec<i64> {
    let (floor, left) = (total / i64::from(count), total % i64::from(count));
    let mut shares = vec![floor; count as usize];
    if left > 0 {
        for share in &mut shares[..left as usize] {
            *share += 1;
        }
        stream.shuffle(&mut shares);
    }
    shares
}
