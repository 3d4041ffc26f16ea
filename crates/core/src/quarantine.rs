//! Quarantine: entries that the ledger refuses, and the entries that must wait for them.
//!
//! An entry that cannot be settled enters quarantine: it is kept with the reason, and the partition's position moves
//! past it. Entries that depend on it must not be settled first, or units and money would be lost. An order that was
//! never entered is not paid. A packet's remainder is not refunded while a user has one of its shares. Restocked units
//! are not granted again, to any user, before they are back. Such entries enter quarantine as well, and the rest is
//! settled. The ledger's rows then describe a history in which the quarantined entries have not happened yet, and such
//! a history conserves units and money.
//!
//! A grant in quarantine may be *discarded*: the engine restocks its units. The grant and all steps of its order stop
//! blocking at the same time. Their effects on units add up to zero. So entries that waited for them are settled as if
//! they had never happened. The discarded entries are kept, and their number is never settled.

use std::collections::BTreeMap;

use crate::event::{Entry, Event, Seq};

/// Message that is answered instead of `ledger` for a grant in quarantine.
pub const GRANT_QUARANTINED: &str =
    "the ledger has not taken the grant: its entry is in quarantine";

/// Quarantined entries of one campaign in one partition, as far as other entries must wait for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuarantineBlockers {
    first: Option<Seq>,
    /// First entry about the campaign as a whole. Every entry waits for it.
    whole: Option<Seq>,
    /// Last entry about each order or share.
    numbers: BTreeMap<u32, Seq>,
    /// First entry that restocks units. A later grant may use these units, or may need the freed limit. A seller who
    /// lowers the stock may remove them.
    given_back: Option<Seq>,
    /// Discarded grants, by number. Another grant with the same number is never settled.
    discarded: BTreeMap<u32, Seq>,
}

impl QuarantineBlockers {
    /// Blockers of a campaign that the ledger does not have: every entry waits for the first one.
    pub fn for_unknown_campaign(first: Seq) -> Self {
        Self {
            first: Some(first),
            whole: Some(first),
            ..Self::default()
        }
    }

    /// Adds a quarantined entry.
    pub fn add(&mut self, entry: &Entry) {
        lower(&mut self.first, entry.seq);
        let gives_back = matches!(
            entry.event,
            Event::Cancelled { .. }
                | Event::PartCancelled { .. }
                | Event::Expired { .. }
                | Event::Returned { .. }
        );
        if gives_back {
            lower(&mut self.given_back, entry.seq);
        }
        match entry.event.number() {
            Some(number) => {
                self.numbers.insert(number, entry.seq);
            }
            None => lower(&mut self.whole, entry.seq),
        }
    }

    /// Adds a discarded entry.
    pub fn add_discarded(&mut self, entry: &Entry) {
        if let Event::Granted { number, .. } = entry.event {
            self.discarded.insert(number, entry.seq);
        }
    }

    /// The entry that a later one must wait for, if there is one.
    pub fn before(&self, entry: &Entry) -> Option<Seq> {
        let own = entry.event.number();
        let same = own.and_then(|number| self.numbers.get(&number)).copied();
        let again = match entry.event {
            Event::Granted { number, .. } => self.discarded.get(&number).copied(),
            _ => None,
        };
        let closing = matches!(entry.event, Event::Closed { .. });
        let taking = matches!(
            entry.event,
            Event::Granted { .. } | Event::Reinstated { .. } | Event::StockChanged { .. }
        );
        let given_back = self.given_back.filter(|_| taking);
        let all = self.first.filter(|_| closing);
        self.whole.or(same).or(again).or(given_back).or(all)
    }

    /// The first quarantined entry.
    pub fn first(&self) -> Option<Seq> {
        self.first
    }
}

fn lower(first: &mut Option<Seq>, seq: Seq) {
    *first = Some(first.map_or(seq, |first| first.min(seq)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry {
        let (seq, event) = text.split_once(' ').expect("a place and an event");
        let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
        Entry::from_text(&format!("{seq} 0 {id} {event}")).expect("an entry")
    }

    #[test]
    fn entries_wait_for_what_they_follow_from() {
        let check = |aside: &[&str], later: &str, before: Option<Seq>| {
            let mut blockers = QuarantineBlockers::default();
            aside.iter().for_each(|text| blockers.add(&entry(text)));
            assert_eq!(blockers.before(&entry(later)), before, "{aside:?} {later}");
        };
        check(&[], "9 closed 0 0", None);
        let granted = ["3 granted 7 alice 1 100"];
        check(&granted, "9 granted 8 bob 1 100", None);
        check(&granted, "9 paid 7 p", Some(3));
        check(&granted, "9 paid 8 p", None);
        check(&granted, "9 expired 7", Some(3));
        check(&granted, "9 ended", None);
        check(&granted, "9 closed 0 0", Some(3));
        check(
            &["3 granted 7 alice 1 100", "4 paid 7 p"],
            "9 refund_due 7 q",
            Some(4),
        );
        let expired = ["3 granted 7 alice 1 100", "4 expired 7"];
        check(&expired, "9 granted 8 alice 1 100", Some(4));
        check(&expired, "9 granted 8 bob 1 100", Some(4));
        check(&expired, "9 reinstated 5 p", Some(4));
        check(&expired, "9 expired 8", None);
        check(&["5 returned 7"], "9 granted 8 bob 1 100", Some(5));
        check(&["5 returned 7"], "9 refund_due 7 q", Some(5));
        check(&expired, "9 stock_changed -1", Some(4));
        check(&granted, "9 stock_changed 1", None);
        check(&["3 stock_changed 5"], "9 granted 8 bob 1 100", Some(3));
        check(&["3 opened 1"], "9 granted 8 bob 1 100", Some(3));
        check(&["3 paused"], "9 resumed", Some(3));
        check(&["3 closed 0 0"], "9 expired 7", Some(3));
    }

    #[test]
    fn only_the_same_grant_waits_for_a_discarded_one() {
        let mut blockers = QuarantineBlockers::default();
        for text in ["3 granted 7 alice 1 100", "4 cancelled 7"] {
            blockers.add_discarded(&entry(text));
        }
        let before = |later: &str| blockers.before(&entry(later));
        assert_eq!(before("9 granted 7 alice 1 100"), Some(3));
        assert_eq!(before("9 granted 8 bob 1 100"), None);
        assert_eq!(before("9 closed 0 0"), None);
        assert_eq!(blockers.first(), None);
    }
}
