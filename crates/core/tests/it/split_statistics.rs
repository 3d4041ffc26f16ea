//! Statistical properties of splits. Seeds are fixed, so each test passes always or never. The bounds are six standard
//! errors, which a correct algorithm misses for about one seed set in a hundred million.

use qiang_core::split::{Seed, Split, SplitRule};

const SIGMAS: f64 = 6.0;

fn seed(index: u32) -> Seed {
    let mut bytes = [0xa5; 32];
    bytes[..4].copy_from_slice(&index.to_le_bytes());
    Seed::from_bytes(bytes)
}

/// Mean, variance and fourth central moment.
struct Moments {
    mean: f64,
    variance: f64,
    fourth: f64,
}

fn moments(values: &[f64]) -> Moments {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let central = |power| {
        values
            .iter()
            .map(|value| (value - mean).powi(power))
            .sum::<f64>()
            / n
    };
    Moments {
        mean,
        variance: central(2),
        fourth: central(4),
    }
}

/// Over many splits, every position has the mean of the total. For a shuffled rule, every position also has the same
/// variance.
fn check_positions(total: i64, count: u32, rule: SplitRule, splits: u32) {
    let split = Split::new(total, count, rule).unwrap();
    let mut by_position = vec![Vec::with_capacity(splits as usize); count as usize];
    for index in 0..splits {
        for (position, share) in split.shares(&seed(index)).into_iter().enumerate() {
            by_position[position].push(share as f64);
        }
    }
    let pooled = moments(&by_position.concat());
    let expected = total as f64 / f64::from(count);
    for (position, shares) in by_position.iter().enumerate() {
        let here = moments(shares);
        let error = (here.variance / f64::from(splits)).sqrt();
        assert!(
            (here.mean - expected).abs() <= SIGMAS * error,
            "{rule:?}: position {position} has mean {} ± {error}, not {expected}",
            here.mean
        );
        if matches!(rule, SplitRule::Lazy { .. }) {
            continue;
        }
        let error = ((pooled.fourth - pooled.variance.powi(2)) / f64::from(splits)).sqrt();
        assert!(
            (here.variance - pooled.variance).abs() <= SIGMAS * error,
            "{rule:?}: position {position} has variance {} and all {} ± {error}",
            here.variance,
            pooled.variance
        );
    }
}

#[test]
fn no_position_is_better_in_normal() {
    check_positions(10_000, 20, SplitRule::Normal { min: 100, max: 900 }, 5000);
    check_positions(10_000, 20, SplitRule::Normal { min: 1, max: 5000 }, 5000);
    // Small shares, for which the apportionment's rounding would show.
    check_positions(47, 20, SplitRule::Normal { min: 1, max: 5 }, 20_000);
    check_positions(25, 20, SplitRule::Normal { min: 1, max: 5 }, 20_000);
}

#[test]
fn no_position_is_better_in_double_average() {
    check_positions(10_000, 20, SplitRule::DoubleAverage { min: 1 }, 5000);
    check_positions(27, 20, SplitRule::DoubleAverage { min: 1 }, 20_000);
}

#[test]
fn no_position_is_better_in_equal() {
    check_positions(10_007, 20, SplitRule::Equal, 5000);
}

/// An early and a late claim have the same expectation, but a late one has more variance.
#[test]
fn no_claim_expects_more_in_lazy() {
    check_positions(10_000, 20, SplitRule::Lazy { min: 1 }, 5000);
    check_positions(27, 20, SplitRule::Lazy { min: 1 }, 20_000);
}

/// Neighbours in the list are independent apart from the fixed sum.
#[test]
fn neighbours_are_not_correlated() {
    let (total, count) = (1_000_000, 1000);
    for rule in [
        SplitRule::Normal { min: 1, max: 2000 },
        SplitRule::DoubleAverage { min: 1 },
    ] {
        let split = Split::new(total, count, rule).unwrap();
        let (mut products, mut pairs, mut squares) = (0.0, 0.0, 0.0);
        for index in 0..50 {
            let shares = split.shares(&seed(index));
            let off = |share: i64| (share - total / i64::from(count)) as f64;
            for pair in shares.windows(2) {
                products += off(pair[0]) * off(pair[1]);
                squares += off(pair[0]).powi(2);
                pairs += 1.0;
            }
        }
        // The fixed sum alone gives -1/(count - 1).
        let correlation = products / squares + 1.0 / f64::from(count - 1);
        assert!(
            correlation.abs() < SIGMAS / f64::sqrt(pairs),
            "{rule:?}: {correlation}"
        );
    }
}

/// Counts of shares in `bins` equal parts of `min..=max`.
fn histogram(shares: &[i64], min: i64, max: i64, bins: usize) -> Vec<usize> {
    let mut counts = vec![0; bins];
    for share in shares {
        counts[(share - min) as usize * bins / (max - min + 1) as usize] += 1;
    }
    counts
}

#[test]
fn normal_is_a_bell_around_the_mean() {
    let (min, max, count) = (501, 1500, 100_000);
    let split = Split::new(
        1000 * i64::from(count),
        count,
        SplitRule::Normal { min, max },
    )
    .unwrap();
    let shares = split.shares(&seed(0));
    let counts = histogram(&shares, min, max, 10);
    assert!(counts[..5].is_sorted(), "{counts:?}");
    assert!(counts[5..].is_sorted_by(|a, b| a >= b), "{counts:?}");
    assert!(
        counts[4] > 50 * counts[0] && counts[5] > 50 * counts[9],
        "{counts:?}"
    );
    assert!(counts[0] > 0 && counts[9] > 0, "{counts:?}");
    for (low, high) in counts.iter().zip(counts.iter().rev()) {
        // Difference of two counts, each with a standard deviation of at most its square root.
        let error = ((low + high) as f64).sqrt();
        assert!(low.abs_diff(*high) as f64 <= SIGMAS * error, "{counts:?}");
    }

    let deviation = moments(&shares.iter().map(|share| *share as f64).collect::<Vec<_>>())
        .variance
        .sqrt();
    let expected = 500.0 / f64::sqrt(12.0);
    assert!(
        (deviation / expected - 1.0).abs() < 0.02,
        "{deviation}, not {expected}"
    );
    let near = shares
        .iter()
        .filter(|share| share.abs_diff(1000) as f64 <= expected)
        .count();
    // Within one standard deviation a normal distribution has 0.683 of its mass, and the sum of four uniforms 0.672.
    assert!(
        (0.66..0.69).contains(&(near as f64 / f64::from(count))),
        "{near}"
    );
}

/// If the mean is off the middle, the most frequent shares are still around it, and both bounds are reachable.
#[test]
fn normal_keeps_its_bounds_and_mean_when_skewed() {
    let (min, max, count) = (1, 1000, 100_000);
    for tenth in [1, 2, 8, 9] {
        let rule = SplitRule::Normal { min, max };
        let split = Split::new(i64::from(count) * 100 * tenth, count, rule).unwrap();
        let counts = histogram(&split.shares(&seed(0)), min, max, 20);
        let mode = counts
            .iter()
            .enumerate()
            .max_by_key(|(_, count)| **count)
            .unwrap()
            .0;
        let mean = 2 * tenth as usize;
        assert!(mode == mean || mode + 1 == mean, "{tenth}: {counts:?}");
        // Both sides of the mean are similar, so there is no cliff at it.
        let (low, high) = (counts[mean - 1] as f64, counts[mean] as f64);
        assert!(low / high < 2.0 && high / low < 2.0, "{tenth}: {counts:?}");
        let reach = counts.iter().filter(|count| **count > 0).count();
        assert!(reach >= 17, "{tenth}: {counts:?}");
    }
}

/// A largest share above the limit of the total has the same effect as that limit.
#[test]
fn normal_is_not_squeezed_by_bounds_out_of_reach() {
    let rule = SplitRule::Normal {
        min: 1,
        max: i64::MAX,
    };
    let split = Split::new(10_000, 10, rule).unwrap();
    let shares: Vec<i64> = (0..1000)
        .flat_map(|index| split.shares(&seed(index)))
        .collect();
    let above = |least: i64| shares.iter().filter(|share| **share >= least).count();
    // One share in forty is drawn from the wide high side, above the reach of the others.
    assert!(
        above(2200) > 100 && above(4000) > 0,
        "{} {}",
        above(2200),
        above(4000)
    );
}

/// If the bounds are one unit off the mean, the chance of rounding up determines a distance.
#[test]
fn normal_spreads_over_three_amounts() {
    let count = 100_000;
    let split = Split::new(200_000, count, SplitRule::Normal { min: 1, max: 3 }).unwrap();
    let shares = split.shares(&seed(0));
    // The mean distance is 7/30 of the width.
    let expected = f64::from(count) * 7.0 / 60.0;
    for amount in [1, 3] {
        let found = shares.iter().filter(|share| **share == amount).count() as f64;
        assert!(
            (found - expected).abs() <= SIGMAS * expected.sqrt(),
            "{amount}: {found}, not {expected}"
        );
    }
}

/// With few shares, the first draw decides. It is uniform up to twice the mean.
#[test]
fn double_average_is_uniform_up_to_twice_the_mean() {
    let split = Split::new(200, 2, SplitRule::DoubleAverage { min: 1 }).unwrap();
    let mut counts = vec![0_u32; 200];
    for index in 0..99_500 {
        counts[split.shares(&seed(index))[0] as usize] += 1;
    }
    // 199 values, 500 each.
    for (share, count) in counts.iter().enumerate().skip(1) {
        assert!(
            f64::from(count.abs_diff(500)) <= SIGMAS * f64::sqrt(500.0),
            "{share}: {count}"
        );
    }
}
