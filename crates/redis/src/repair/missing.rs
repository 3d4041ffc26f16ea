//! Entries that neither the log nor the ledger has when a repair begins.

use std::{collections::BTreeSet, ops::RangeInclusive};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{EngineError, Ledger, RepairRecord},
};

use super::engine_error_from_ledger;
use crate::{repair::rebuild::NotedChange, repair_offer::Loss};

/// Repairs of a partition that are read, newest first. They include repairs stopped since the last finished one.
const REPAIRS_MAX: u32 = 100;

/// Missing entries, and the count recorded by earlier repairs.
pub(super) struct MissingEntries {
    ranges: Vec<RangeInclusive<Seq>>,
    /// Entries that unfinished repairs could not name. This repair must account for them.
    left_unnamed: u64,
}

/// Missing entries of a loss. `head` and `settled` are the end of the log and the ledger's position before any repair
/// moved them. `before` is the record of an earlier attempt to end the same halt.
pub(super) async fn count_missing(
    ledger: &dyn Ledger,
    partition: PartitionId,
    loss: &Loss,
    (head, settled): (Seq, Seq),
    before: Option<&NotedChange>,
) -> Result<MissingEntries, EngineError> {
    let repairs = ledger.repairs(partition, REPAIRS_MAX).await;
    let repairs = repairs.map_err(engine_error_from_ledger)?;
    Ok(beside(&repairs, loss, (head, settled), before))
}

fn beside(
    repairs: &[RepairRecord],
    loss: &Loss,
    (head, settled): (Seq, Seq),
    before: Option<&NotedChange>,
) -> MissingEntries {
    let (mut ranges, mut left_unnamed) = (vec![in_neither(loss, (head, settled))], 0);
    for repair in repairs {
        // The ledger has an attempt as finished before the halt ends. If a node then reported a further loss, the halt
        // continues, and all entries that the attempt appended are still there.
        let ended = repair
            .upto
            .filter(|_| !before.is_some_and(|it| it.has_begun(&repair.epoch)));
        match ended {
            // The entries that it appended are lost as well, unless they are settled.
            Some(upto) => ranges.push(head.max(settled) + 1..=upto),
            None => {
                ranges.push(repair.lost_from..=repair.lost_to);
                // A later repair also counts those of the earlier ones.
                left_unnamed = left_unnamed.max(repair.unnamed);
            }
        }
    }
    MissingEntries {
        ranges,
        left_unnamed,
    }
}

/// The part of a loss that the ledger does not have.
pub(super) fn in_neither(loss: &Loss, (head, settled): (Seq, Seq)) -> RangeInclusive<Seq> {
    match (head + 1..=settled).contains(&loss.from) {
        true => settled + 1..=loss.to,
        false => loss.from..=loss.to,
    }
}

impl MissingEntries {
    /// Whether an entry is missing.
    pub(super) fn contains(&self, seq: Seq) -> bool {
        self.ranges.iter().any(|range| range.contains(&seq))
    }

    /// Number of the entries that no node can name. `named` are positions of kept entries. `all` means that each node
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
            answers_from: from,
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

    fn repair(lost_from: Seq, lost_to: Seq, unnamed: u64, upto: Option<Seq>) -> RepairRecord {
        RepairRecord {
            partition: PartitionId(0),
            epoch: String::new(),
            follows: String::new(),
            at: qiang_core::time::Timestamp::from_millis(0),
            lost_from,
            lost_to,
            unnamed,
            reason: String::new(),
            upto,
        }
    }

    /// The first attempt moved the log's end and the ledger's position by 2^20, and the ledger has it as finished.
    /// Before the halt ended, a node returned that had observed two more entries. Before the second attempt ended it,
    /// another node returned that had observed a third.
    #[test]
    fn attempt_at_a_halt_that_goes_on_has_lost_nothing() {
        const GAP: Seq = 1 << 20;
        let attempt = |epoch: &str, lost_to, upto| RepairRecord {
            epoch: epoch.to_owned(),
            ..repair(11, lost_to, 0, Some(upto))
        };
        let (first, second) = (
            attempt("one", 15, 15 + GAP + 5),
            attempt("two", 17, 15 + 2 * GAP + 7),
        );
        let (head, settled) = (10, 8);
        let noted = |tried: &[&str], epoch: &str| NotedChange {
            unnamed: 0,
            epoch: epoch.to_owned(),
            ledger_is_ahead: false,
            accounted: 15,
            head,
            settled,
            tried: tried.iter().map(|epoch| (*epoch).to_owned()).collect(),
        };
        let check = |repairs: &[RepairRecord], to, before: Option<&NotedChange>| {
            let named = (11..=15).collect();
            let missing = beside(repairs, &loss(11, to), (head, settled), before);
            missing.unnamed(&named, false)
        };
        let all = [second, first];
        assert_eq!(check(&all[1..], 17, Some(&noted(&[], "one"))), 2);
        assert_eq!(check(&all, 18, Some(&noted(&["one"], "two"))), 3);
        // Entries that a repair appended before it ended its halt are lost.
        assert_eq!(check(&all[1..], 17, None), 2 + GAP + 3);
    }

    #[test]
    fn every_unfinished_repair_says_what_is_missing() {
        // The first repair moved the ledger's position past 15, and the second one began after another loss. Neither is
        // finished. A node that answered 11 to 13 has died since.
        let settled = 1_048_591;
        let unfinished = [
            repair(settled + 1, settled, 0, None),
            repair(11, 15, 0, None),
        ];
        let named = [14, 15].into_iter().collect();
        let missing = beside(&unfinished, &loss(1, settled), (0, settled), None);
        assert_eq!(missing.unnamed(&named, false), 3);
        // Counts of several repairs are not added up.
        let unfinished = [repair(16, 17, 4, None), repair(11, 15, 3, None)];
        let all = (11..=17).collect();
        let missing = beside(&unfinished, &loss(1, settled), (0, settled), None);
        assert_eq!(missing.unnamed(&all, false), 4);
    }

    #[test]
    fn an_entry_counts_once() {
        let check = |ranges: &[RangeInclusive<Seq>], named: &[Seq], left, unnamed| {
            let missing = MissingEntries {
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
