//! Ordinals of a sale's shard that no order has. Short runs of them have rows in Redis without a user. Long runs, which
//! a repair has skipped, have a field of the campaign's hash instead.

use qiang_core::{
    campaign::CampaignKind,
    reconcile::{PartFacts, Repair},
};

use crate::shards::{skipped::OrdinalRuns, snapshot::PartSnapshot};

/// Shortest run without rows, when a lost shard is written.
const RUN_MIN: u32 = 1_024;

/// Skipped ordinals of a shard after a repair. If Redis still had it, they stay as they were, except for those of which
/// the repair has found the orders.
pub(crate) fn skipped_ordinals(
    facts: &PartFacts,
    before: Option<&PartSnapshot>,
    repair: &Repair,
) -> OrdinalRuns {
    if facts.kind != CampaignKind::Sale {
        return Vec::new();
    }
    let missing = missing_ordinals(facts, repair);
    match before {
        Some(before) => common(&missing, &before.skipped),
        None => {
            let is_long = |(first, last): &(u32, u32)| last - first >= RUN_MIN - 1;
            missing.into_iter().filter(is_long).collect()
        }
    }
}

/// Ordinals up to the last one that no order has.
pub(crate) fn missing_ordinals(facts: &PartFacts, repair: &Repair) -> OrdinalRuns {
    let numbers = repair.rows.grants.keys();
    let ordinals = numbers.map(|number| facts.ordinal_of(*number));
    runs_between(ordinals, repair.numbered)
}

fn runs_between(ordinals: impl Iterator<Item = u32>, last: u32) -> OrdinalRuns {
    let (mut runs, mut next) = (Vec::new(), Some(1_u32));
    for ordinal in ordinals {
        if let Some(first) = next.filter(|first| ordinal > *first) {
            runs.push((first, ordinal - 1));
        }
        next = ordinal.checked_add(1);
    }
    runs.extend(
        next.filter(|first| last >= *first)
            .map(|first| (first, last)),
    );
    runs
}

/// Ordinals of these runs that none of the others has.
pub(crate) fn without(runs: &[(u32, u32)], others: &[(u32, u32)]) -> OrdinalRuns {
    let mut others = others.to_vec();
    others.sort_unstable();
    let mut rest = Vec::new();
    for (first, last) in runs {
        let mut next = Some(*first);
        for (from, to) in &others {
            let Some(start) = next.filter(|start| start <= last) else {
                break;
            };
            if *to < start || from > last {
                continue;
            }
            if *from > start {
                rest.push((start, from - 1));
            }
            next = to.checked_add(1);
        }
        rest.extend(
            next.filter(|start| start <= last)
                .map(|start| (start, *last)),
        );
    }
    rest
}

/// Ordinals that are in runs of both.
fn common(runs: &[(u32, u32)], others: &[(u32, u32)]) -> OrdinalRuns {
    without(runs, &without(runs, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_no_order_has() {
        let check = |ordinals: &[u32], last, expected: &[(u32, u32)]| {
            assert_eq!(runs_between(ordinals.iter().copied(), last), expected);
        };
        check(&[], 0, &[]);
        check(&[], 9, &[(1, 9)]);
        check(&[1, 2, 5], 5, &[(3, 4)]);
        check(&[2, u32::MAX], u32::MAX, &[(1, 1), (3, u32::MAX - 1)]);
    }

    #[test]
    fn runs_are_subtracted_and_intersected() {
        let runs = [(1, 10), (20, 30)];
        let check = |others: &[(u32, u32)], rest: &[(u32, u32)], both: &[(u32, u32)]| {
            assert_eq!(without(&runs, others), rest, "{others:?}");
            assert_eq!(common(&runs, others), both, "{others:?}");
        };
        check(&[], &runs, &[]);
        check(
            &[(25, 40), (5, 21)],
            &[(1, 4), (22, 24)],
            &[(5, 10), (20, 21), (25, 30)],
        );
        check(&[(1, u32::MAX)], &[], &runs);
        check(&[(3, 3)], &[(1, 2), (4, 10), (20, 30)], &[(3, 3)]);
    }
}
