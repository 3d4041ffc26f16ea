//! Properties of every split, for random and extreme inputs.

use proptest::prelude::*;
use qiang_core::split::{
    Commitment, SHARES_MAX, Seed, Split, SplitError, SplitRule, commit, lazy_amount,
};

/// Amounts of every magnitude.
fn amount() -> impl Strategy<Value = i64> {
    (0_u32..63).prop_flat_map(|bits| (1_i64 << bits)..=(i64::MAX >> (62 - bits)))
}

/// Any possible split of up to 300 shares: first a total, then bounds around its mean, or at it.
fn split() -> impl Strategy<Value = Split> {
    let count = prop_oneof![1_u32..=4, 1_u32..=300];
    (amount(), count, amount(), amount(), 0..4_u8).prop_map(|(total, count, low, high, rule)| {
        let total = total.max(i64::from(count));
        let floor = total / i64::from(count);
        let ceil = floor + i64::from(total % i64::from(count) > 0);
        let min = 1 + low % floor;
        let max = ceil.saturating_add(high);
        let rule = match rule {
            0 => SplitRule::Normal { min, max },
            1 => SplitRule::DoubleAverage { min },
            2 => SplitRule::Equal,
            _ => SplitRule::Lazy { min },
        };
        Split::new(total, count, rule).unwrap()
    })
}

fn seed() -> impl Strategy<Value = Seed> {
    any::<[u8; 32]>().prop_map(Seed::from_bytes)
}

/// Checks that a split is exact, inside its bounds and reproducible.
fn check(split: &Split, seed: &Seed) {
    let shares = split.shares(seed);
    assert_eq!(shares.len(), split.count() as usize);
    let sum: i128 = shares.iter().map(|share| i128::from(*share)).sum();
    assert_eq!(sum, i128::from(split.total()));
    let (least, most) = (*shares.iter().min().unwrap(), *shares.iter().max().unwrap());
    assert!(least >= split.rule().min(), "{least}");
    assert!(split.rule().max().is_none_or(|max| most <= max), "{most}");
    if split.rule() == SplitRule::Equal {
        assert!(most - least <= 1, "{least} and {most}");
    }
    assert!(split.shares(seed) == shares, "not reproducible");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn shares_are_exact_bounded_and_reproducible(split in split(), seed in seed()) {
        check(&split, &seed);
    }

    /// Small amounts, where rounding matters most.
    #[test]
    fn small_shares_too(
        count in 1_u32..40, min in 1_i64..5, width in 0_i64..6, level in 0_i64..=100, seed in seed()
    ) {
        let total = i64::from(count) * min + i64::from(count) * width * level / 100;
        let max = min + width;
        for rule in [SplitRule::Normal { min, max }, SplitRule::DoubleAverage { min }, SplitRule::Lazy { min }] {
            check(&Split::new(total, count, rule).unwrap(), &seed);
        }
    }

    #[test]
    fn another_seed_gives_other_shares(a in seed(), b in seed()) {
        prop_assume!(a != b);
        for rule in rules(1, 2_000_000_000) {
            let split = Split::new(10_000_000_001, 10, rule).unwrap();
            // Equal shares differ only in the places of single units, so two seeds may agree.
            prop_assert!(rule == SplitRule::Equal || split.shares(&a) != split.shares(&b));
        }
    }

    #[test]
    fn lazy_amounts_are_the_shares_in_claim_order(
        total in 300_i64..1_000_000_000, count in 1_u32..300, seed in seed()
    ) {
        let split = Split::new(total, count, SplitRule::Lazy { min: 1 }).unwrap();
        let mut left = total;
        for (index, share) in split.shares(&seed).into_iter().enumerate() {
            let to_come = count - index as u32;
            prop_assert_eq!(lazy_amount(&seed, index as u64 + 1, left, to_come, 1), share);
            left -= share;
        }
        prop_assert_eq!(left, 0);
    }

    #[test]
    fn a_commitment_holds_for_its_own_seed_and_split_alone(
        (one, seed) in (split(), seed()), (two, other_seed) in (split(), seed())
    ) {
        let commitment = commit_one(&seed, &one);
        prop_assert_eq!(commit_one(&seed, &one), commitment);
        prop_assert_eq!(commit_one(&seed, &two) == commitment, one == two);
        prop_assert_eq!(commit_one(&other_seed, &one) == commitment, seed == other_seed);
        prop_assert_eq!(commitment.to_string().parse(), Ok(commitment));
    }
}

/// Commitment of one packet to a split.
fn commit_one(seed: &Seed, split: &Split) -> Commitment {
    let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap();
    commit(id, "CNY".parse().unwrap(), seed, split)
}

fn rules(min: i64, max: i64) -> [SplitRule; 4] {
    [
        SplitRule::Normal { min, max },
        SplitRule::DoubleAverage { min },
        SplitRule::Equal,
        SplitRule::Lazy { min },
    ]
}

/// The commitment covers every field of a split.
#[test]
fn a_commitment_covers_every_parameter() {
    let seed = Seed::from_bytes([4; 32]);
    let normal = |min, max| SplitRule::Normal { min, max };
    let mut seen = std::collections::HashSet::new();
    for (total, count, rule) in [
        (1000, 10, normal(50, 200)),
        (1001, 10, normal(50, 200)),
        (1000, 11, normal(50, 200)),
        (1000, 10, normal(51, 200)),
        (1000, 10, normal(50, 201)),
        (1000, 10, SplitRule::DoubleAverage { min: 50 }),
        (1000, 10, SplitRule::DoubleAverage { min: 51 }),
        (1000, 10, SplitRule::Lazy { min: 50 }),
        (1000, 10, SplitRule::Lazy { min: 51 }),
        (1000, 10, SplitRule::Equal),
    ] {
        let split = Split::new(total, count, rule).unwrap();
        assert!(seen.insert(commit_one(&seed, &split)), "{split:?}");
    }
}

/// Exactly the impossible splits are refused. The test finds them by adding up every choice of shares.
#[test]
fn exactly_the_impossible_is_refused() {
    const TOTAL_MAX: i64 = 42;
    for (min, max) in (-1..=7).flat_map(|min| (-1..=8).map(move |max| (min, max))) {
        let mut sums = vec![0];
        for count in 0..=5 {
            for total in -2..=TOTAL_MAX {
                let valid = total > 0 && count > 0 && min > 0;
                let accepted = |rule| Split::new(total, count, rule).is_ok();
                let spread = i64::from(count) * min <= total;
                let context = format!("{total} in {count} of {min}..={max}");
                let bounded = valid && sums.contains(&total);
                assert_eq!(
                    accepted(SplitRule::Normal { min, max }),
                    bounded,
                    "{context}"
                );
                assert_eq!(
                    accepted(SplitRule::DoubleAverage { min }),
                    valid && spread,
                    "{context}"
                );
                assert_eq!(
                    accepted(SplitRule::Lazy { min }),
                    valid && spread,
                    "{context}"
                );
                let possible = count > 0 && total >= i64::from(count);
                assert_eq!(accepted(SplitRule::Equal), possible, "{context}");
            }
            let next = sums
                .iter()
                .flat_map(|sum| (min..=max).map(move |share| sum + share));
            let mut next: Vec<i64> = next.collect();
            next.sort_unstable();
            next.dedup();
            sums = next;
        }
    }
}

#[test]
fn each_refusal_says_why() {
    let check = |total, count, rule, error: SplitError, message: &str| {
        assert_eq!(Split::new(total, count, rule), Err(error));
        assert_eq!(error.to_string(), message);
    };
    let normal = |min, max| SplitRule::Normal { min, max };
    let (total, count, min, max) = (100, 10, 5, 20);
    check(
        total,
        0,
        normal(min, max),
        SplitError::CountZero,
        "a split needs at least 1 share",
    );
    let count_big = SHARES_MAX + 1;
    check(
        i64::MAX,
        count_big,
        SplitRule::Equal,
        SplitError::CountAboveMax { count: count_big },
        "10000001 shares are more than the 10000000 that one split may have",
    );
    check(
        0,
        count,
        normal(min, max),
        SplitError::TotalNotPositive { total: 0 },
        "the total must be at least 1 minor unit, not 0",
    );
    check(
        total,
        count,
        SplitRule::Lazy { min: 0 },
        SplitError::MinNotPositive { min: 0 },
        "the smallest share must be at least 1 minor unit, not 0",
    );
    check(
        total,
        count,
        normal(21, max),
        SplitError::MinAboveMax { min: 21, max },
        "the smallest share 21 is above the largest share 20",
    );
    check(
        49,
        count,
        normal(min, max),
        SplitError::TotalBelowMin {
            total: 49,
            count,
            min,
        },
        "a total of 49 is too little for 10 shares of at least 5",
    );
    check(
        201,
        count,
        normal(min, max),
        SplitError::TotalAboveMax {
            total: 201,
            count,
            max,
        },
        "a total of 201 is too much for 10 shares of at most 20",
    );
}

#[test]
fn extremes_hold() {
    let seed = Seed::from_bytes([5; 32]);
    for total in [1, 2, 3, i64::MAX - 1, i64::MAX] {
        for count in [1, 2, 3, 1000] {
            if total < i64::from(count) {
                continue;
            }
            let floor = total / i64::from(count);
            for min in [1, floor] {
                for max in [floor + i64::from(total % i64::from(count) > 0), i64::MAX] {
                    for rule in rules(min, max) {
                        check(&Split::new(total, count, rule).unwrap(), &seed);
                    }
                }
            }
        }
    }
    let one = |total, rule| Split::new(total, 1, rule).unwrap().shares(&seed);
    for rule in rules(1, i64::MAX) {
        assert_eq!(one(i64::MAX, rule), [i64::MAX]);
        assert_eq!(one(1, rule), [1]);
    }
    let same = Split::new(70, 10, SplitRule::Normal { min: 7, max: 7 }).unwrap();
    assert_eq!(same.shares(&seed), [7; 10]);
}

/// A quadratic algorithm would need hours for this.
#[test]
fn a_million_shares() {
    let seed = Seed::from_bytes([6; 32]);
    for rule in rules(1, 1_000_000) {
        check(&Split::new(1_000_000_007, 1_000_000, rule).unwrap(), &seed);
    }
}

/// Run it with `--release -- --ignored --nocapture` to see the time of each rule.
#[test]
#[ignore = "slow without optimisation"]
fn ten_million_shares() {
    let seed = Seed::from_bytes([7; 32]);
    for rule in rules(1, 10_000) {
        let split = Split::new(10_000_000_007, SHARES_MAX, rule).unwrap();
        let started = std::time::Instant::now();
        let shares = split.shares(&seed);
        println!("{:>14} {:?}", rule.name(), started.elapsed());
        assert_eq!(shares.iter().sum::<i64>(), split.total());
    }
}
