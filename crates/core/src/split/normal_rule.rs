//! The rule `normal`.
//!
//! The idea: a coin chooses the side of the mean, weighted by the distance to the *other* bound, so that small and
//! large shares balance. Then a distance from the mean is drawn that is mostly short. The distance is the side's width
//! times `|u₁ + u₂ + u₃ + u₄ − 2| / 2`, the folded sum of four uniform numbers. Its distribution is close to a folded
//! normal one, but ends at the bound. With the mean in the middle, the bounds are √12 ≈ 3.5 standard deviations away.
//! With the mean off the middle, that alone would put nearly all shares on the near bound's side, with a cliff at the
//! mean. So three shares in four use only the width of the near bound, on either side with the same probability. One in
//! four uses the widths of both bounds: a bell around the mean with a tail to the far bound. In each case the
//! expectation is the mean, wherever it is between the bounds.
//!
//! The steps, with all roundings decided by chance so that expectations are exact:
//! 1. Bounds that the total does not allow are tightened. No share exceeds the rest if all others are smallest, and
//!    none is below the rest if all others are largest.
//! 2. A share's centre is the floor of the mean, or one more with the probability of the mean's fraction.
//! 3. With probability 3/4 both sides are as wide as the narrower one. Otherwise each reaches to its bound. The share
//!    is on the low side with probability `high width / (low width + high width)`.
//! 4. The share's distance from the centre is drawn and rounded as above.
//! 5. The sum now misses the total by chance alone, by about the square root of the count. Missing money is apportioned
//!    to the shares by their distance to the largest share. If there is too much, the money above the smallest shares
//!    is apportioned by each share's distance to the smallest share. This takes one exact pass, and no share leaves
//!    its bounds.
//! 6. The shares are shuffled, which removes the trace of the apportionment's rounding.

use super::rng::Stream;

/// `count` shares inside `min..=max` that add up to `total`. Requires the checks of [`Split::new`](super::Split::new).
pub(super) fn shares(stream: &mut Stream, total: i64, count: u32, min: i64, max: i64) -> Vec<i64> {
    let (min, max) = tighten(total, count, min, max);
    if min == max {
        return vec![min; count as usize];
    }
    let bell = ShareDistribution {
        floor: total / i64::from(count),
        fraction: (total % i64::from(count)) as u64,
        count: u64::from(count),
        min,
        max,
    };
    let mut shares: Vec<i64> = (0..count).map(|_| bell.draw(stream)).collect();
    settle(&mut shares, total, min, max);
    stream.shuffle(&mut shares);
    shares
}

/// Bounds that a share can actually reach. Within them, the others can still take the remaining money.
fn tighten(total: i64, count: u32, min: i64, max: i64) -> (i64, i64) {
    let (total, others) = (i128::from(total), i128::from(count - 1));
    let low = (total - others * i128::from(max)).max(i128::from(min));
    let high = (total - others * i128::from(min)).min(i128::from(max));
    // Both are in `min..=max`: a possible total makes `low` at most the mean and `high` at least the mean.
    (low as i64, high as i64)
}

/// Distribution of a single share. The mean is `floor + fraction / count`.
struct ShareDistribution {
    floor: i64,
    fraction: u64,
    count: u64,
    min: i64,
    max: i64,
}

impl ShareDistribution {
    fn draw(&self, stream: &mut Stream) -> i64 {
        let centre = self.floor + i64::from(stream.chance(self.fraction, self.count));
        let (mut below, mut above) = (centre.abs_diff(self.min), centre.abs_diff(self.max));
        if stream.chance(3, 4) {
            (below, above) = (below.min(above), below.min(above));
        }
        if stream.chance(above, below + above) {
            centre - distance(stream, below)
        } else {
            centre + distance(stream, above)
        }
    }
}

/// A distance in `0..=width`; `width` is below 2⁶³.
fn distance(stream: &mut Stream, width: u64) -> i64 {
    let sum: u128 = (0..4).map(|_| u128::from(stream.word() >> 1)).sum();
    // At most 2⁶⁴, which represents 1, so the product with the rounding word stays below 2¹²⁸.
    let folded = sum.abs_diff(1 << 64);
    let scaled = u128::from(width) * folded + u128::from(stream.word());
    (scaled >> 64) as i64
}

/// Adjusts the shares so that they add up to `total`.
fn settle(shares: &mut [i64], total: i64, min: i64, max: i64) {
    let sum: i128 = shares.iter().map(|share| i128::from(*share)).sum();
    let lacking = i128::from(total) - sum;
    if lacking > 0 {
        let room = shares.len() as i128 * i128::from(max) - sum;
        let mut apportion = ShareApportion::new(lacking as u64, room as u128);
        for share in shares {
            *share += apportion.part(share.abs_diff(max)) as i64;
        }
    } else if lacking < 0 {
        let least = shares.len() as i128 * i128::from(min);
        let mut apportion =
            ShareApportion::new((i128::from(total) - least) as u64, (sum - least) as u128);
        for share in shares {
            *share = min + apportion.part(share.abs_diff(min)) as i64;
        }
    }
}

/// Divides `amount` in proportion to weights with the sum `weights`, which is at least `amount`. Fractions are carried
/// from one part to the next. So the parts add up to `amount`, and none exceeds its weight.
struct ShareApportion {
    amount: u128,
    weights: u128,
    carry: u128,
}

impl ShareApportion {
    /// `amount` is below 2⁶³ and `weights` below 2⁸⁷, so that `part`'s product and carry fit.
    fn new(amount: u64, weights: u128) -> Self {
        debug_assert!(u128::from(amount) <= weights);
        Self {
            amount: u128::from(amount),
            weights,
            carry: 0,
        }
    }

    fn part(&mut self, weight: u64) -> u64 {
        let share = self.amount * u128::from(weight) + self.carry;
        self.carry = share % self.weights;
        (share / self.weights) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_tighten_to_what_the_total_allows() {
        assert_eq!(tighten(100, 10, 1, 50), (1, 50));
        assert_eq!(tighten(100, 10, 1, i64::MAX), (1, 91));
        assert_eq!(tighten(109, 10, 1, 11), (10, 11));
        assert_eq!(tighten(50, 10, 5, 9), (5, 5));
        assert_eq!(tighten(90, 10, 5, 9), (9, 9));
        assert_eq!(tighten(7, 1, 1, i64::MAX), (7, 7));
        assert_eq!(tighten(i64::MAX, 2, 1, i64::MAX), (1, i64::MAX - 1));
    }

    /// Any drawn shares, even impossible ones, become exact and stay inside the bounds.
    #[test]
    fn any_draw_settles() {
        let check = |drawn: &[i64], total: i64, min: i64, max: i64| {
            let mut shares = drawn.to_vec();
            settle(&mut shares, total, min, max);
            assert_eq!(
                shares.iter().map(|s| i128::from(*s)).sum::<i128>(),
                total.into()
            );
            assert!(shares.iter().all(|s| (min..=max).contains(s)), "{shares:?}");
        };
        check(&[3, 3, 3], 9, 1, 5);
        check(&[1, 1, 1], 14, 1, 5);
        check(&[1, 5, 1], 15, 1, 5);
        check(&[5, 5, 5], 3, 1, 5);
        check(&[5, 1, 5], 4, 1, 5);
        check(&[1, 2, 3, 4, 5], 16, 1, 5);
        let huge = i64::MAX - 999;
        check(&[huge; 1000], i64::MAX, 1, huge);
        check(&[1; 1000], i64::MAX, 1, huge);
        check(&[huge, huge, 1, 1], i64::MAX, 1, huge);
    }
}
