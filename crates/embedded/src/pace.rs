//! How the writer divides its time: how long it gathers, and when it settles.
//!
//! A commit costs the same for one claim as for a hundred, so where a crowd is there it is worth a moment's wait for
//! those who were just served: they are coming back. Settlement costs about ten times what a grant costs, and both need
//! the one writer. So claims come first: under a crowd settlement gets a very small share of the time, under a few
//! claims a larger one, and when it is quiet all of it; and past a bound of unsettled entries it takes turns with the
//! batches, so that the log cannot run away from the ledger.

use std::time::{Duration, Instant};

/// A batch of this many tasks or more means that a crowd is there.
const CROWD_MIN: usize = 16;
/// Under a crowd, a slice of settlement that took `t` is followed by at least this many `t` without one. Whoever is
/// connected waits for a slice, and the cores idle meanwhile.
const CROWD_PER_SETTLE: u32 = 199;
/// The same where claims come singly, and the writer has time to spare.
const FEW_PER_SETTLE: u32 = 9;
/// Entries carried into the ledger in one transaction when it is quiet. Larger slices cost less an entry.
const QUIET_SLICE: usize = 512;
/// The same under a crowd: about a millisecond.
const CROWD_SLICE: usize = 64;
/// The same where claims come singly: a claim that comes in between waits hardly longer than for another's commit.
const FEW_SLICE: usize = 16;
/// Unsettled entries past which every batch is followed by a slice.
pub(crate) const BACKLOG_MAX: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Pace {
    quiet: bool,
    last_batch: usize,
    last_slice_ended: Instant,
    last_slice_took: Duration,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            quiet: false,
            last_batch: 0,
            last_slice_ended: Instant::now(),
            last_slice_took: Duration::ZERO,
        }
    }

    /// A batch of that many tasks was served.
    pub(crate) fn served(&mut self, tasks: usize) {
        self.quiet = false;
        self.last_batch = tasks;
    }

    /// How many tasks are worth a moment's wait, beside those who came during the commit: most of those who were just
    /// served. With all of them the crowd would come to wait as one, and leave the cores idle during each commit.
    pub(crate) fn coming(&self) -> usize {
        self.last_batch * 7 / 8
    }

    /// Nobody came for a while.
    pub(crate) fn quiet(&mut self) {
        self.quiet = true;
        self.last_batch = 0;
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(crate) fn may_settle(&self, backlog: u64) -> bool {
        let serve_per_settle = if self.is_crowded() {
            CROWD_PER_SETTLE
        } else {
            FEW_PER_SETTLE
        };
        let rested = self.last_slice_ended.elapsed() >= self.last_slice_took * serve_per_settle;
        self.quiet || rested || backlog > BACKLOG_MAX
    }

    /// How many entries the next slice may carry.
    pub(crate) fn slice(&self) -> usize {
        if self.quiet {
            QUIET_SLICE
        } else if self.is_crowded() {
            CROWD_SLICE
        } else {
            FEW_SLICE
        }
    }

    fn is_crowded(&self) -> bool {
        self.last_batch >= CROWD_MIN
    }

    /// A slice was settled.
    pub(crate) fn settled(&mut self, took: Duration) {
        self.last_slice_took = took;
        self.last_slice_ended = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlement_yields_to_whoever_waits() {
        let took = Duration::from_secs(60);
        let check = |batch: usize, slice: usize, coming: usize| {
            let mut pace = Pace::new();
            pace.served(batch);
            assert_eq!((pace.slice(), pace.coming()), (slice, coming), "{batch}");
            pace.settled(took);
            assert!(!pace.may_settle(BACKLOG_MAX), "{batch}: it has not rested");
            assert!(pace.may_settle(BACKLOG_MAX + 1), "{batch}: past the bound");
            pace.quiet();
            assert!(pace.may_settle(1), "{batch}: nobody waits");
            assert_eq!((pace.slice(), pace.coming()), (QUIET_SLICE, 0), "{batch}");
        };
        check(1, FEW_SLICE, 0);
        check(CROWD_MIN - 1, FEW_SLICE, 13);
        check(CROWD_MIN, CROWD_SLICE, 14);
        check(4_096, CROWD_SLICE, 3_584);
    }
}
