//! How the writer divides its time: how long it gathers tasks, and when it settles.
//!
//! A commit costs the same for one claim as for a hundred. Under load it is worth a short wait for the callers of the
//! last batch, who are about to ask again. Settlement costs about ten times what a grant costs, and both need the one
//! writer. So claims come first: under load settlement gets a very small share of the time, with few claims a larger
//! one, and all of it when there are none. Past a bound of unsettled entries it takes turns with the batches, so that
//! the log cannot run away from the ledger.

use std::time::{Duration, Instant};

/// A batch of this many tasks or more counts as load.
const LOAD_MIN: usize = 16;
/// Under load, a slice of settlement that took `t` is followed by at least this many `t` without one: all callers wait
/// for a slice, and the cores idle meanwhile.
const LOAD_PER_SETTLE: u32 = 199;
/// The same where claims come singly, and the writer has time to spare.
const FEW_PER_SETTLE: u32 = 9;
/// Entries settled in one transaction by an idle writer. Larger slices cost less an entry.
const IDLE_SLICE: usize = 512;
/// The same under load: about a millisecond.
const LOAD_SLICE: usize = 64;
/// The same where claims come singly: a claim in between waits hardly longer than for another's commit.
const FEW_SLICE: usize = 16;
/// Unsettled entries past which every batch is followed by a slice.
pub(crate) const BACKLOG_MAX: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Pace {
    idle: bool,
    last_batch: usize,
    last_slice_ended: Instant,
    last_slice_took: Duration,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            idle: false,
            last_batch: 0,
            last_slice_ended: Instant::now(),
            last_slice_took: Duration::ZERO,
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

    pub(crate) fn may_settle(&self, backlog: u64) -> bool {
        let serve_per_settle = if self.is_loaded() {
            LOAD_PER_SETTLE
        } else {
            FEW_PER_SETTLE
        };
        let rested = self.last_slice_ended.elapsed() >= self.last_slice_took * serve_per_settle;
        self.idle || rested || backlog > BACKLOG_MAX
    }

    /// How many entries the next slice may settle.
    pub(crate) fn slice(&self) -> usize {
        if self.idle {
            IDLE_SLICE
        } else if self.is_loaded() {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlement_yields_to_waiting_claims() {
        let took = Duration::from_secs(60);
        let check = |batch: usize, slice: usize, expected: usize| {
            let mut pace = Pace::new();
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
}
