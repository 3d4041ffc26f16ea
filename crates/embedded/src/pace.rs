//! How the writer divides its time: how long it gathers tasks, and when it settles.
//!
//! A commit costs the same for one claim as for a hundred. Under load it is worth a short wait for the callers of the
//! last batch, who are about to ask again. Settlement costs about ten times what a grant costs, and both need the one
//! writer. So claims come first: under load settlement gets a very small share of the time, with few claims a larger
//! one, and all of it when there are none. Past a bound of unsettled entries it takes turns with the batches, and each
//! batch is followed by the settlement of more than it has appended: the log cannot run away from the ledger. The
//! shares of large new packets are written in slices, too, in a quarter of the time.

use std::time::{Duration, Instant};

use qiang_core::event::Seq;

/// A batch of this many tasks or more counts as load.
const LOAD_MIN: usize = 16;
/// Under load, a slice of settlement that took `t` is followed by at least this many `t` without one: all callers wait
/// for a slice, and the cores idle meanwhile.
const LOAD_PER_SETTLE: u32 = 199;
/// The same where claims come singly, and the writer has time to spare.
const FEW_PER_SETTLE: u32 = 9;
/// The same where somebody waits for the ledger: settlement has a quarter of the time, and no more, so that whoever
/// asks for the ledger does not slow everybody else.
const AWAITED_PER_SETTLE: u32 = 3;
/// Entries settled in one transaction by an idle writer. Larger slices cost less an entry.
const IDLE_SLICE: usize = 512;
/// The same under load: about a millisecond.
const LOAD_SLICE: usize = 64;
/// The same where claims come singly: a claim in between waits hardly longer than for another's commit.
const FEW_SLICE: usize = 16;
/// The largest slice, past the bound of unsettled entries: about 80 milliseconds. Who owes more settles several.
const OWED_SLICE_MAX: u64 = 8_192;
/// Shares written in one transaction for packets that are not entered yet, where claims come: about a millisecond.
pub(crate) const LOAD_SHARES: u32 = 1_024;
/// The same by an idle writer.
const IDLE_SHARES: u32 = 4_096;
/// Rows of new campaigns with few shares that a batch writes: claims in it wait for three milliseconds where they have
/// a thousand shares each, and for eight where they have ten.
pub(crate) const BATCH_ROWS: u64 = 8_192;
/// A slice of shares that took `t` is followed by at least this many `t` without one, where claims come: somebody waits
/// for the packet, and everybody for the slice.
const LOAD_PER_SHARES: u32 = 3;
/// Unsettled entries past which every batch is followed by settlement, unless an engine is told otherwise.
pub(crate) const BACKLOG_MAX: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Pace {
    backlog_max: u64,
    /// The last entry, and the last settled one, as they were looked at last.
    seen: (Seq, Seq),
    /// Past the bound: entries to settle before the next batch.
    owed: u64,
    /// Whether answers wait for settlement.
    awaited: bool,
    idle: bool,
    last_batch: usize,
    last_slice_ended: Instant,
    last_slice_took: Duration,
    last_shares_ended: Instant,
    last_shares_took: Duration,
}

impl Pace {
    /// Begins with a log that ends at `head` and is settled up to `settled`.
    pub(crate) fn new(backlog_max: u64, (head, settled): (Seq, Seq)) -> Self {
        Self {
            backlog_max,
            seen: (head, settled),
            owed: 0,
            awaited: false,
            idle: false,
            last_batch: 0,
            last_slice_ended: Instant::now(),
            last_slice_took: Duration::ZERO,
            last_shares_ended: Instant::now(),
            last_shares_took: Duration::ZERO,
        }
    }

    pub(crate) fn served(&mut self, tasks: usize) {
        self.idle = false;
        self.last_batch = tasks;
    }

    /// How many tasks are worth a short wait, beside those that came during the commit: seven eighths of the last
    /// batch. If the writer waited for all, all callers would wait for each commit at once and leave the cores idle.
    pub(crate) fn expected(&self) -> usize {
        self.last_batch * 7 / 8
    }

    /// No task came for a while.
    pub(crate) fn idle(&mut self) {
        self.idle = true;
        self.last_batch = 0;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Where the log ends, and up to where it is settled. Past the bound, a quarter more than what was appended is
    /// owed. And whether answers wait for settlement.
    pub(crate) fn follow(&mut self, head: Seq, settled: Seq, awaited: bool) {
        self.awaited = awaited;
        let appended = head.saturating_sub(self.seen.0);
        let done = settled.saturating_sub(self.seen.1);
        self.owed = match self.is_behind(head - settled) {
            true => (self.owed + appended + appended / 4).saturating_sub(done),
            false => 0,
        };
        self.seen = (head, settled);
    }

    /// Whether so many unsettled entries are too many.
    pub(crate) fn is_behind(&self, backlog: u64) -> bool {
        backlog > self.backlog_max
    }

    /// Whether they are too many even for what is more urgent than claims: a quarter more.
    pub(crate) fn is_far_behind(&self, backlog: u64) -> bool {
        backlog > self.backlog_max.saturating_add(self.backlog_max / 4)
    }

    /// Whether the next batch has to wait for another slice.
    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    pub(crate) fn may_settle(&self, backlog: u64) -> bool {
        let rested = self.last_slice_ended.elapsed() >= self.rest();
        self.idle || rested || self.is_behind(backlog)
    }

    /// How long the next slice has to wait, where claims come.
    fn rest(&self) -> Duration {
        let serve_per_settle = match (self.awaited, self.is_loaded()) {
            (true, _) => AWAITED_PER_SETTLE,
            (false, true) => LOAD_PER_SETTLE,
            (false, false) => FEW_PER_SETTLE,
        };
        self.last_slice_took * serve_per_settle
    }

    /// How many entries the next slice may settle.
    pub(crate) fn slice(&self) -> usize {
        let owed = self.owed.min(OWED_SLICE_MAX) as usize;
        if self.idle {
            owed.max(IDLE_SLICE)
        } else if owed > LOAD_SLICE {
            owed
        } else if self.is_loaded() || self.awaited {
            LOAD_SLICE
        } else {
            FEW_SLICE
        }
    }

    fn is_loaded(&self) -> bool {
        self.last_batch >= LOAD_MIN
    }

    pub(crate) fn settled(&mut self, took: Duration) {
        self.last_slice_took = took;
        self.last_slice_ended = Instant::now();
    }

    /// Whether shares may be written for packets that are not entered yet.
    pub(crate) fn may_prepare(&self) -> bool {
        let rest = self.last_shares_took * LOAD_PER_SHARES;
        self.idle || self.last_shares_ended.elapsed() >= rest
    }

    /// How many.
    pub(crate) fn shares(&self) -> u32 {
        match self.idle {
            true => IDLE_SHARES,
            false => LOAD_SHARES,
        }
    }

    pub(crate) fn prepared(&mut self, took: Duration) {
        self.last_shares_took = took;
        self.last_shares_ended = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlement_yields_to_waiting_claims() {
        let took = Duration::from_secs(60);
        let check = |batch: usize, slice: usize, expected: usize| {
            let mut pace = Pace::new(BACKLOG_MAX, (0, 0));
            pace.served(batch);
            assert_eq!(
                (pace.slice(), pace.expected()),
                (slice, expected),
                "{batch}"
            );
            pace.settled(took);
            assert!(!pace.may_settle(BACKLOG_MAX), "{batch}: it has not rested");
            assert!(pace.may_settle(BACKLOG_MAX + 1), "{batch}: past the bound");
            pace.idle();
            assert!(pace.may_settle(1), "{batch}: no claim waits");
            assert_eq!((pace.slice(), pace.expected()), (IDLE_SLICE, 0), "{batch}");
        };
        check(1, FEW_SLICE, 0);
        check(LOAD_MIN - 1, FEW_SLICE, 13);
        check(LOAD_MIN, LOAD_SLICE, 14);
        check(4_096, LOAD_SLICE, 3_584);
    }

    #[test]
    fn whoever_waits_for_the_ledger_gets_a_share_of_the_time_and_no_more() {
        let took = Duration::from_secs(60);
        for (batch, rest, slice) in [(1, took * 9, FEW_SLICE), (4_096, took * 199, LOAD_SLICE)] {
            let mut pace = Pace::new(BACKLOG_MAX, (0, 0));
            pace.served(batch);
            pace.settled(took);
            assert_eq!((pace.rest(), pace.slice()), (rest, slice));
            pace.follow(9, 0, true);
            assert_eq!((pace.rest(), pace.slice()), (took * 3, LOAD_SLICE));
            assert!(!pace.may_settle(9), "it has not rested");
            pace.follow(9, 0, false);
            assert_eq!((pace.rest(), pace.slice()), (rest, slice));
        }
    }

    #[test]
    fn shares_of_new_packets_yield_to_waiting_claims() {
        let mut pace = Pace::new(BACKLOG_MAX, (0, 0));
        for batch in [1, 4_096] {
            pace.served(batch);
            pace.prepared(Duration::ZERO);
            assert!(pace.may_prepare(), "{batch}: it took no time");
            pace.prepared(Duration::from_secs(60));
            assert!(!pace.may_prepare(), "{batch}: it has not rested");
            assert_eq!(pace.shares(), LOAD_SHARES);
        }
        pace.idle();
        assert!(pace.may_prepare(), "no claim waits");
        assert_eq!(pace.shares(), IDLE_SHARES);
    }

    /// The backlog after so many batches, each of as many entries, if it was so much at first.
    fn backlog_after(batches: usize, entries: u64, at_first: u64) -> u64 {
        let (mut head, mut settled) = (at_first, 0);
        let mut pace = Pace::new(BACKLOG_MAX, (head, settled));
        pace.settled(Duration::from_secs(3_600)); // it rests for as long as it may
        for _ in 0..batches {
            head += entries;
            pace.served(entries as usize);
            pace.follow(head, settled, false);
            while pace.may_settle(head - settled) {
                settled += (pace.slice() as u64).min(head - settled);
                pace.follow(head, settled, false);
                if !pace.owes() {
                    break;
                }
            }
        }
        head - settled
    }

    #[test]
    fn past_its_bound_the_backlog_falls() {
        const AT_FIRST: u64 = BACKLOG_MAX * 5 / 4;
        let singly = backlog_after(10_000, 1, AT_FIRST);
        assert!(singly < AT_FIRST - 100_000, "{singly}");
        for entries in [2_000, crate::QUEUED_TASKS_MAX as u64] {
            let backlog = backlog_after(10_000, entries, AT_FIRST);
            assert!(backlog <= BACKLOG_MAX + entries, "{entries}: {backlog}");
        }
    }
}
