//! What a transport has brought of one partition and nobody has settled yet, put in order.
//!
//! Transports bring entries at least once, and after a crash not always in order. Here they become runs that follow
//! the ledger's position without a gap; where one is missing, the transport is told to fetch it from the log.

use std::collections::BTreeMap;

use crate::event::{Entry, Seq};

/// Entries that wait to be settled, and by what they were brought: `T` is what the transport acknowledges them by.
#[derive(Debug)]
pub struct Inbox<T> {
    entries: BTreeMap<Seq, Entry>,
    /// Deliveries that are not acknowledged, by the last entry of each.
    brought: Vec<(Seq, T)>,
}

/// What follows a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Following {
    /// Entries without a gap, the first right after the position.
    Run(Vec<Entry>),
    /// There are entries, but those up to this one are missing.
    Gap(Seq),
    /// Nothing is there.
    Nothing,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            brought: Vec::new(),
        }
    }
}

impl<T> Inbox<T> {
    /// Takes in what was brought, and what to acknowledge it by. What is there already changes nothing.
    pub fn bring(&mut self, tag: T, entries: Vec<Entry>) {
        let last = entries.iter().map(|entry| entry.seq).max().unwrap_or(0);
        self.brought.push((last, tag));
        self.fill(entries);
    }

    /// Takes in what the transport itself has fetched from the log.
    pub fn fill(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.entries.entry(entry.seq).or_insert(entry);
        }
    }

    /// What follows a position: up to `limit` entries.
    #[must_use]
    pub fn following(&self, after: Seq, limit: usize) -> Following {
        let mut run = Vec::new();
        for (seq, entry) in self.entries.range(after + 1..).take(limit) {
            if *seq != after + 1 + run.len() as Seq {
                if run.is_empty() {
                    return Following::Gap(seq - 1);
                }
                break;
            }
            run.push(entry.clone());
        }
        if run.is_empty() {
            Following::Nothing
        } else {
            Following::Run(run)
        }
    }

    /// Forgets what is settled, and hands out what to acknowledge now, in the order in which it was brought.
    #[must_use]
    pub fn settled(&mut self, upto: Seq) -> Vec<T> {
        if self
            .entries
            .first_key_value()
            .is_some_and(|(first, _)| *first <= upto)
        {
            self.entries = self.entries.split_off(&(upto + 1));
        }
        let (done, left): (Vec<_>, _) = std::mem::take(&mut self.brought)
            .into_iter()
            .partition(|(last, _)| *last <= upto);
        self.brought = left;
        done.into_iter().map(|(_, tag)| tag).collect()
    }

    /// Forgets everything: it will be brought again.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.brought.clear();
    }

    /// Entries that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Deliveries that are not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.brought.len()
    }
}

/// Tells what is missing from what was settled meanwhile.
///
/// While a worker waits, others may settle, and its position grows old: entries that seem to be missing are in the
/// ledger then, and perhaps no longer in the log. So what seems to be missing is not believed before another take is
/// given the same position, which was read after it was first seen.
#[derive(Debug, Default)]
pub struct GapDetector {
    /// The position after which entries seemed to be missing.
    seemed: Option<Seq>,
    /// Whether they seemed to be before this take.
    sure: bool,
}

impl GapDetector {
    /// A take after this position begins.
    pub fn begin(&mut self, after: Seq) {
        self.sure = self.seemed == Some(after);
    }

    /// Entries after the take's position seem to be missing. Tells whether they are; otherwise the take is to end, and
    /// the next one will know.
    pub fn confirmed(&mut self, after: Seq) -> bool {
        self.seemed = Some(after);
        self.sure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(seqs: std::ops::RangeInclusive<Seq>) -> Vec<Entry> {
        let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        let entry = |seq| Entry::from_text(&format!("{seq} 0 {id} paused")).expect("an entry");
        seqs.map(entry).collect()
    }

    #[test]
    fn entries_come_in_order_once_and_without_gaps() {
        let mut inbox = Inbox::default();
        let check = |inbox: &Inbox<char>, after, limit, expected| {
            assert_eq!(inbox.following(after, limit), expected);
        };
        check(&inbox, 0, 9, Following::Nothing);
        inbox.bring('b', entries(4..=6));
        check(&inbox, 0, 9, Following::Gap(3));
        check(&inbox, 3, 9, Following::Run(entries(4..=6)));
        inbox.bring('a', entries(1..=4));
        inbox.bring('a', entries(1..=4));
        check(&inbox, 0, 9, Following::Run(entries(1..=6)));
        check(&inbox, 0, 2, Following::Run(entries(1..=2)));
        check(&inbox, 5, 9, Following::Run(entries(6..=6)));
        check(&inbox, 6, 9, Following::Nothing);
        inbox.bring('d', entries(9..=9));
        check(&inbox, 0, 9, Following::Run(entries(1..=6)));
        inbox.fill(entries(7..=8));
        check(&inbox, 6, 9, Following::Run(entries(7..=9)));
    }

    #[test]
    fn a_delivery_is_acknowledged_when_all_of_it_is_settled() {
        let mut inbox = Inbox::default();
        inbox.bring('a', entries(1..=4));
        inbox.bring('b', entries(5..=6));
        inbox.bring('c', entries(1..=2));
        assert_eq!(inbox.settled(3), ['c']);
        assert_eq!((inbox.len(), inbox.unacknowledged()), (3, 2));
        assert_eq!(inbox.settled(3), [] as [char; 0]);
        inbox.bring('d', entries(2..=3));
        assert_eq!(inbox.settled(5), ['a', 'd']);
        assert_eq!(inbox.settled(6), ['b']);
        assert!(inbox.is_empty());
    }

    #[test]
    fn what_is_missing_is_believed_when_the_position_is_the_same_again() {
        let mut missing = GapDetector::default();
        let mut take = |after| {
            missing.begin(after);
            [missing.confirmed(after), missing.confirmed(after)]
        };
        assert_eq!(take(7), [false, false]);
        assert_eq!(take(9), [false, false], "the position was old");
        assert_eq!(take(9), [true, true]);
        assert_eq!(take(9), [true, true], "it could not be fetched");
        assert_eq!(take(7), [false, false]);
    }
}
