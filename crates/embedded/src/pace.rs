//! When the writer may settle.
//!
//! Settlement costs about ten times what a grant costs, and both need the one writer. So claims come first: while
//! they keep coming, settlement gets a fixed share of the time; when it is quiet, all of it; and past a bound of
//! unsettled entries it takes turns with the batches, so that the log cannot run away from the ledger.

use std::time::{Duration, Instant};

/// While claims keep coming, a slice that took `t` is followed by at least this many `t` without one: a fiftieth
/// of the time is for settlement.
const SERVE_PER_SETTLE: u32 = 49;
/// No more tasks than this are worth waiting for: past it, a commit's cost is spread thinly enough.
const WORTHWHILE_MAX: usize = 192;
/// Entries carried into the ledger in one transaction when it is quiet. Larger slices cost less an entry.
const QUIET_SLICE: usize = 512;
/// The same while claims keep coming: about a millisecond for which they wait. Longer, and everybody who is connected
/// would come to wait at once and leave the cores idle.
const RUSH_SLICE: usize = 64;
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

    /// How many tasks are worth a moment's wait: most of those who were just served, since they are coming back. Those
    /// who come during the commit make up for the rest, so that batches grow while the crowd is larger than they are.
    pub(crate) fn worthwhile(&self) -> usize {
        (self.last_batch * 7 / 8).min(WORTHWHILE_MAX)
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
        let rested = self.last_slice_ended.elapsed() >= self.last_slice_took * SERVE_PER_SETTLE;
        self.quiet || rested || backlog > BACKLOG_MAX
    }

    /// How many entries the next slice may carry.
    pub(crate) fn slice(&self) -> usize {
        if self.quiet { QUIET_SLICE } else { RUSH_SLICE }
    }

    /// A slice was settled.
    pub(crate) fn settled(&mut self, took: Duration) {
        self.last_slice_took = took;
        self.last_slice_ended = Instant::now();
    }
}
