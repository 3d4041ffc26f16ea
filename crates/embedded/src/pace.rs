//! Pace of the writer: how long it gathers tasks, and when it settles.
//!
//! A commit costs the same for one claim as for a hundred. Under load, a short wait for the callers of the last batch
//! pays off: they are about to claim again.
//!
//! Settlement costs about ten times as much as a grant, and both need the only writer. So claims come first. Under
//! load, settlement gets a very small share of the time; with few claims a larger one; without claims all of it. Above
//! a bound of unsettled entries, settlement alternates with the batches, and each batch is followed by the settlement
//! of more entries than it appended. So the lag of the ledger stays bounded.
//!
//! The shares of large new packets are written in slices too, in a quarter of the time.

use std::time::{Duration, Instant};

use qiang_core::event::Seq;

/// Minimum tasks of a batch that counts as load.
const LOAD_MIN: usize = 16;
/// Pause after a slice of settlement under load, in multiples of the slice's duration. During a slice all callers wait
/// and the cores are idle.
const LOAD_PER_SETTLE: u32 = 199;
/// The same pause if claims arrive singly and the writer has spare time.
const FEW_PER_SETTLE: u32 = 9;
/// The same pause if a caller waits for the ledger. Settlement then has at most a quarter of the time, so that such
/// callers do not slow all others.
const AWAITED_PER_SETTLE: u32 = 3;
/// Entries settled in one transaction by an idle writer. A larger slice costs less per entry.
const IDLE_SLICE: usize = 512;
/// The same under load: about a millisecond.
const LOAD_SLICE: usize = 64;
/// The same if claims arrive singly: a claim waits hardly longer than for another claim's commit.
const FEW_SLICE: usize = 16;
/// Largest slice, above the bound of unsettled entries: about 80 milliseconds. A larger debt takes several slices.
const OWED_SLICE_MAX: u64 = 8_192;
/// Shares written in one transaction for packets not entered yet, while claims arrive: about a millisecond.
pub(crate) const LOAD_SHARES: u32 = 1_024;
/// The same by an idle writer.
const IDLE_SHARES: u32 = 4_096;
/// Rows of new campaigns with few shares in one batch. The batch's claims then wait three milliseconds with a thousand
/// shares per campaign, and eight milliseconds with ten.
pub(crate) const BATCH_ROWS: u64 = 8_192;
/// Pause after a slice of shares while claims arrive, in multiples of the slice's duration. One caller waits for the
/// packet, but all callers wait for the slice.
const LOAD_PER_SHARES: u32 = 3;
/// Unsettled entries above which settlement follows every batch; default of the engine's option.
pub(crate) const BACKLOG_MAX: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Pace {
    backlog_max: u64,
    /// Last entry and last settled entry at the previous call of [`Pace::follow`].
    seen: (Seq, Seq),
    /// Entries to settle before the next batch; 0 below the bound.
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
    /// Starts with a log that ends at `head` and is settled up to `settled`.
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

    /// Tasks worth a short wait, in addition to the arrivals during the commit: seven eighths of the last batch.
    /// If the writer waited for all, all callers would wait for each commit at once and leave the cores idle.
    pub(crate) fn expected(&self) -> usize {
        self.last_batch * 7 / 8
    }

    /// Records that no task arrived for a while.
    pub(crate) fn idle(&mut self) {
        self.idle = true;
        self.last_batch = 0;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// Updates the end of the log, the settled position, and whether answers wait for settlement. Above the bound, the
    /// debt grows by the appended entries and a quarter more.
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

    /// Whether the backlog is above the bound.
    pub(crate) fn is_behind(&self, backlog: u64) -> bool {
        backlog > self.backlog_max
    }

    /// Whether the backlog is above the bound by more than a quarter: too large even for tasks more urgent than claims.
    pub(crate) fn is_far_behind(&self, backlog: u64) -> bool {
        backlog > self.backlog_max.saturating_add(self.backlog_max / 4)
    }

    /// Whether the next batch must wait for another slice.
    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    pub(crate) fn may_settle(&self, backlog: u64) -> bool {
        let rested = self.last_slice_ended.elapsed() >= self.rest();
        self.idle || rested || self.is_behind(backlog)
    }

    /// Pause before the next slice while claims arrive.
    fn rest(&self) -> Duration {
        let serve_per_settle = match (self.awaited, self.is_loaded()) {
            (true, _) => AWAITED_PER_SETTLE,
            (false, true) => LOAD_PER_SETTLE,
            (false, false) => FEW_PER_SETTLE,
        };
        self.last_slice_took * serve_per_settle
    }

    /// Number of entries that the next slice may settle.
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

    /// Number of shares that the next slice may write.
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

    /// Simulates batches of `entries` entries each. Returns the backlog after them.
    fn backlog_after(batches: usize, entries: u64, at_first: u64) -> u64 {
        let (mut head, mut settled) = (at_first, 0);
        let mut pace = Pace::new(BACKLOG_MAX, (head, settled));
        pace.settled(Duration::from_secs(3_600)); // // the longest possible pause
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
