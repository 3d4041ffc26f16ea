//! Received entries of one partition that are not settled yet, in order.
//!
//! Transports deliver entries at least once, and not always in order after a crash. The inbox turns them into runs that
//! follow the ledger's position without a gap.

use std::collections::BTreeMap;

use qiang_core::{
    event::{Entry, Seq},
    ports::{Delivery, DeliveryTag},
};

/// Entries that wait for settlement, and the deliveries that contained them.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    entries: BTreeMap<Seq, Entry>,
    /// Deliveries that are not acknowledged, with the last entry of each.
    deliveries: Vec<(Seq, DeliveryTag)>,
}

/// Entries that follow a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Following {
    /// Entries without a gap. The first one directly follows the position.
    Run(Vec<Entry>),
    /// There are entries, but those up to and including this one are missing.
    Gap(Seq),
    /// There are no entries.
    Nothing,
}

impl Inbox {
    /// Adds a delivery. If an entry is already there, the first copy stays.
    pub(super) fn receive(&mut self, delivery: Delivery) {
        let last = delivery.entries.iter().map(|entry| entry.seq).max();
        self.deliveries.push((last.unwrap_or(0), delivery.tag));
        self.fill(delivery.entries);
    }

    /// Adds entries that were read from the log.
    pub(super) fn fill(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.entries.entry(entry.seq).or_insert(entry);
        }
    }

    /// Up to `limit` entries that follow a position.
    pub(super) fn following(&self, after: Seq, limit: usize) -> Following {
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

    /// Removes settled entries, and returns the deliveries to acknowledge, in the order of their arrival.
    pub(super) fn settled(&mut self, upto: Seq) -> Vec<DeliveryTag> {
        let first = self.entries.first_key_value();
        if first.is_some_and(|(first, _)| *first <= upto) {
            self.entries = self.entries.split_off(&(upto + 1));
        }
        let settled = self.deliveries.extract_if(.., |(last, _)| *last <= upto);
        settled.map(|(_, tag)| tag).collect()
    }

    /// Removes everything permanently, and returns the deliveries to acknowledge.
    pub(super) fn abandon(&mut self) -> Vec<DeliveryTag> {
        self.entries.clear();
        self.deliveries.drain(..).map(|(_, tag)| tag).collect()
    }

    /// Removes everything. The transport will deliver it again.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.deliveries.clear();
    }

    /// Number of entries that wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of deliveries that are not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.deliveries.len()
    }
}

/// Distinguishes a real gap from an outdated position.
///
/// While a worker waits, another one may settle. Entries that seem to be missing are then in the ledger, and perhaps no
/// longer in the log. So a gap counts only if the next take, which receives the current position, finds it again.
#[derive(Debug, Default)]
pub(super) struct GapDetector {
    /// Position after which entries seemed to be missing.
    seemed: Option<Seq>,
    /// Whether they already seemed to be missing before this take.
    before: bool,
}

impl GapDetector {
    /// Begins a take after this position.
    pub(super) fn begin(&mut self, after: Seq) {
        self.before = self.seemed == Some(after);
    }

    /// Records that entries after the take's position seem to be missing, and returns whether they are. If false, the
    /// take must end; the next one decides.
    pub(super) fn confirmed(&mut self, after: Seq) -> bool {
        self.seemed = Some(after);
        self.before
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

    fn delivery(tag: DeliveryTag, seqs: std::ops::RangeInclusive<Seq>) -> Delivery {
        let entries = entries(seqs);
        Delivery { tag, entries }
    }

    #[test]
    fn entries_come_in_order_once_and_without_gaps() {
        let mut inbox = Inbox::default();
        let check = |inbox: &Inbox, after, limit, expected| {
            assert_eq!(inbox.following(after, limit), expected);
        };
        check(&inbox, 0, 9, Following::Nothing);
        inbox.receive(delivery(2, 4..=6));
        check(&inbox, 0, 9, Following::Gap(3));
        check(&inbox, 3, 9, Following::Run(entries(4..=6)));
        inbox.receive(delivery(1, 1..=4));
        inbox.receive(delivery(1, 1..=4));
        check(&inbox, 0, 9, Following::Run(entries(1..=6)));
        check(&inbox, 0, 2, Following::Run(entries(1..=2)));
        check(&inbox, 5, 9, Following::Run(entries(6..=6)));
        check(&inbox, 6, 9, Following::Nothing);
        inbox.receive(delivery(4, 9..=9));
        check(&inbox, 0, 9, Following::Run(entries(1..=6)));
        inbox.fill(entries(7..=8));
        check(&inbox, 6, 9, Following::Run(entries(7..=9)));
    }

    #[test]
    fn a_delivery_is_acknowledged_when_all_of_it_is_settled() {
        let mut inbox = Inbox::default();
        inbox.receive(delivery(1, 1..=4));
        inbox.receive(delivery(2, 5..=6));
        inbox.receive(delivery(3, 1..=2));
        assert_eq!(inbox.settled(3), [3]);
        assert_eq!((inbox.len(), inbox.unacknowledged()), (3, 2));
        assert_eq!(inbox.settled(3), [] as [DeliveryTag; 0]);
        inbox.receive(delivery(4, 2..=3));
        assert_eq!(inbox.settled(5), [1, 4]);
        assert_eq!(inbox.settled(6), [2]);
        assert_eq!((inbox.len(), inbox.unacknowledged()), (0, 0));
    }

    #[test]
    fn a_gap_counts_when_the_position_is_the_same_again() {
        let mut gaps = GapDetector::default();
        let mut take = |after| {
            gaps.begin(after);
            [gaps.confirmed(after), gaps.confirmed(after)]
        };
        assert_eq!(take(7), [false, false]);
        assert_eq!(take(9), [false, false], "the position was old");
        assert_eq!(take(9), [true, true]);
        assert_eq!(take(9), [true, true], "it could not be fetched");
        assert_eq!(take(7), [false, false]);
    }
}
