//! The rule `equal`.
//!
//! Every share is the floor of the mean. The remaining units are fewer than the shares. They go, one each, to shares
//! that a shuffle chooses. Without remaining units nothing is drawn.

use super::rng::Stream;

/// `count` shares that differ by at most 1 and add up to `total`. Requires the checks of
/// [`Split::new`](super::Split::new).
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
