//! The rules `double_average` and `lazy`.
//!
//! This is the well-known rule that splits a red packet while it is claimed. A share is uniform between the smallest
//! share and twice the mean of the remaining money, less the smallest share. The implementation uses the *spare* money:
//! the rest if all further shares are the smallest ones. With `n` shares to come, a share's extra is uniform in
//! `0..=b`, where `b = 2 × spare / n`. A fractional `b` is rounded up with the probability of its fraction, and down
//! otherwise. So the expectation of the extra is exactly `spare / n`, and every claim expects the same amount, early or
//! late. Only the variance grows towards the end. The last share takes the remainder.
//!
//! `double_average` draws all shares from one stream and shuffles them, which evens out the variance too. `lazy` gives
//! each grant its own stream, so an amount can be drawn without the draws of earlier grants.

use super::{Seed, rng::Stream};

/// `count` shares of at least `min` that add up to `total`. Requires the checks of [`Split::new`](super::Split::new).
pub(super) fn shares(stream: &mut Stream, total: i64, count: u32, min: i64) -> Vec<i64> {
    let mut left = total;
    let mut shares: Vec<i64> = (1..=count)
        .rev()
        .map(|to_come| {
            let share = draw(stream, left, to_come, min);
            left -= share;
            share
        })
        .collect();
    stream.shuffle(&mut shares);
    shares
}

/// Results of [`lazy_amount`] for all grants in order. Requires the checks of [`Split::new`](super::Split::new).
pub(super) fn lazy_shares(seed: &Seed, total: i64, count: u32, min: i64) -> Vec<i64> {
    let mut left = total;
    (1..=count)
        .map(|number| {
            let to_come = count - number + 1;
            let share = lazy_amount(seed, u64::from(number), left, to_come, min);
            left -= share;
            share
        })
        .collect()
}

/// Amount, in minor units, of the `number`-th grant (from 1) of a red packet that is split by
/// [`SplitRule::Lazy`](super::SplitRule::Lazy). Before this grant, `remaining_total` minor units and `remaining_count`
/// shares are left, and `min` is the smallest share. The time does not depend on the number.
///
/// The last share (`remaining_count` 1) is all that remains. The result is always in `0..=remaining_total`, so money is
/// conserved even if the remainder cannot pay `min` for every share. A valid [`Split`](super::Split) never reaches that
/// state; then the amount is `min` as far as the money suffices. Without remaining shares it is 0. A negative `min`
/// counts as 0.
pub fn lazy_amount(
    seed: &Seed,
    number: u64,
    remaining_total: i64,
    remaining_count: u32,
    min: i64,
) -> i64 {
    let mut stream = Stream::new(seed, number);
    draw(&mut stream, remaining_total, remaining_count, min)
}

/// Draws one share out of `left` minor units for `to_come` shares, including this one.
fn draw(stream: &mut Stream, left: i64, to_come: u32, min: i64) -> i64 {
    if to_come <= 1 {
        return if to_come == 1 { left.max(0) } else { 0 };
    }
    let min = min.max(0);
    let spare = i128::from(left) - i128::from(to_come) * i128::from(min);
    if spare < 0 {
        return min.min(left).max(0);
    }
    // Doubling cannot overflow: the spare money is at most `left`, because `min` is not negative here.
    let (spare, to_come) = (spare as u64, u64::from(to_come));
    let fraction_carries = stream.chance(2 * spare % to_come, to_come);
    let bound = 2 * spare / to_come + u64::from(fraction_carries);
    // At most `spare`: with 2 shares to come the exact bound equals it. Otherwise the bound is smaller by more than its
    // rounding.
    min + stream.below(bound + 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: i64, to_come: u32, min: i64, expected: std::ops::RangeInclusive<i64>) {
        for number in 0..200 {
            let amount = lazy_amount(&Seed::from_bytes([9; 32]), number, left, to_come, min);
            assert!(
                expected.contains(&amount),
                "{amount} from {left} for {to_come}, at least {min}"
            );
        }
    }

    #[test]
    fn an_amount_stays_within_its_bounds() {
        check(100, 10, 1, 1..=19);
        check(100, 10, 10, 10..=10);
        check(100, 2, 1, 1..=99);
        check(100, 1, 1, 100..=100);
        check(i64::MAX, 2, 1, 1..=i64::MAX - 1);
        check(i64::MAX, 10_000_000, 1, 1..=i64::MAX / 5_000_000);
        // One unit of spare money, and many shares to come.
        check(11, 10, 1, 1..=2);
    }

    #[test]
    fn money_is_conserved_where_the_remainder_is_too_small() {
        check(5, 3, 2, 2..=2);
        check(1, 3, 2, 1..=1);
        check(0, 3, 2, 0..=0);
        check(-4, 3, 2, 0..=0);
        check(-4, 1, 2, 0..=0);
        check(7, 0, 1, 0..=0);
        check(i64::MAX, u32::MAX, i64::MIN, 0..=i64::MAX / 2_000_000_000);
        check(i64::MAX, u32::MAX, i64::MAX, i64::MAX..=i64::MAX);
    }
}
