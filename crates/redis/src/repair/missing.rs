//! Entries that neither the log nor the ledger has when a repair begins.

use std::{collections::BTreeSet, ops::RangeInclusive};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EngineError, Ledger},
};

use super::of_ledger;
use crate::offer::Loss;

/// Repairs of a partition that are read, newest first: at most one of them is unfinished, a late one.
const REPAIRS_MAX: u32 = 100;

/// Entries that are missing, and what an earlier repair says of them.
pub(super) struct Missing {
    ranges: Vec<RangeInclusive<Seq>>,
    /// Entries that an unfinished repair could not name: this one answers for them.
    left_unnamed: u64,
}

/// The entries that are missing, where the log ended and the ledger was at these places before any repair moved them.
pub(super) async fn of(
    ledger: &dyn Ledger,
    partition: PartitionId,
    loss: &Loss,
    (head, settled): (Seq, Seq),
) -> Result<Missing, EngineError> {
    let repairs = ledger.repairs(partition, REPAIRS_MAX).await;
    let (mut ranges, mut left_unnamed) = (vec![in_neither(loss, (head, settled))], 0);
    for repair in repairs.map_err(of_ledger)? {
        match repair.upto {
            // What it has appended is lost as well, unless it is settled.
            Some(upto) => ranges.push(head.max(settled) + 1..=upto),
            None => {
                ranges.push(repair.lost_from..=repair.lost_to);
                left_unnamed += repair.unnamed;
            }
        }
    }
    Ok(Missing {
        ranges,
        left_unnamed,
    })
}

/// The part of a loss that the ledger does not have.
pub(super) fn in_neither(loss: &Loss, (head, settled): (Seq, Seq)) -> RangeInclusive<Seq> {
    match (head + 1..=settled).contains(&loss.from) {
        true => settled + 1..=loss.to,
        false => loss.from..=loss.to,
    }
}

impl Missing {
    /// Number of the entries that no node can name; `named` are places of kept entries, and `all` says that every node
    /// has offered its answers.
    pub(super) fn unnamed(&self, named: &BTreeSet<Seq>, all: bool) -> u64 {
        if all {
            return self.left_unnamed;
        }
        let mut ranges = self.ranges.clone();
        ranges.sort_by_key(|range| *range.start());
        let (mut unnamed, mut next) = (0, 0);
        for range in ranges {
            let from = next.max(*range.start());
            unnamed += (from..=*range.end())
                .filter(|seq| !named.contains(seq))
                .count() as u64;
            next = next.max(range.end().saturating_add(1));
        }
        unnamed.max(self.left_unnamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(from: Seq, to: Seq) -> Loss {
        Loss {
            from,
            to,
            epoch: String::new(),
            reason: String::new(),
        }
    }

    fn none_after(seq: Seq) -> RangeInclusive<Seq> {
        RangeInclusive::new(seq + 1, seq)
    }

    #[test]
    fn what_the_ledger_has_is_not_missing() {
        let check = |from, to, head, settled, missing| {
            assert_eq!(in_neither(&loss(from, to), (head, settled)), missing);
        };
        check(11, 15, 10, 10, 11..=15);
        check(11, 15, 10, 12, 13..=15);
        check(1, 735, 0, 700, 701..=735);
        check(1, 1_049_311, 0, 1_049_311, none_after(1_049_311));
        check(9, 12, 10, 12, 9..=12);
    }

    #[test]
    fn an_entry_counts_once() {
        let check = |ranges: &[RangeInclusive<Seq>], named: &[Seq], left, unnamed| {
            let missing = Missing {
                ranges: ranges.to_vec(),
                left_unnamed: left,
            };
            let named = named.iter().copied().collect();
            assert_eq!(missing.unnamed(&named, false), unnamed);
            assert_eq!(missing.unnamed(&named, true), left);
        };
        check(&[11..=15], &[], 0, 5);
        check(&[11..=15], &[11, 12, 14], 0, 2);
        check(&[11..=15, 13..=17, 12..=13], &[11], 2, 6);
        check(&[20..=21, 11..=15], &[11, 12, 13, 14, 15], 1, 2);
        check(&[none_after(7)], &[], 3, 3);
    }
}
