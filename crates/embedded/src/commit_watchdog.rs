//! Commit watchdog: how long the current commit has made no progress. The writer records progress and each caller
//! checks it, because a writer that waits for the disk cannot refuse calls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time of the last progress of the current commit.
#[derive(Debug)]
pub(crate) struct CommitWatchdog {
    began: Instant,
    /// Microseconds since `began`, plus one; 0 while no commit runs.
    stamp: AtomicU64,
}

impl CommitWatchdog {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            stamp: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Begins a commit. It ends when the returned guard is dropped.
    pub(crate) fn begin(&self) -> Commit<'_> {
        let commit = Commit(self);
        commit.gets_on();
        commit
    }

    /// Whether the current commit has made no progress for this time.
    pub(crate) fn hangs_for(&self, time: Duration) -> bool {
        let stamp = self.stamp.load(Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        stamp != 0 && self.now().saturating_sub(stamp) >= micros
    }
}

/// Guard of a running commit.
pub(crate) struct Commit<'a>(&'a CommitWatchdog);

impl Commit<'_> {
    /// Records progress: the time until now was work, not a hang.
    pub(crate) fn gets_on(&self) {
        self.0.stamp.store(self.0.now(), Ordering::Relaxed);
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        self.0.stamp.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_hangs_only_while_it_is_under_way() {
        let under_way = CommitWatchdog::new();
        assert!(!under_way.hangs_for(Duration::ZERO));
        let commit = under_way.begin();
        assert!(under_way.hangs_for(Duration::ZERO));
        assert!(!under_way.hangs_for(Duration::MAX));
        commit.gets_on();
        assert!(under_way.hangs_for(Duration::ZERO));
        drop(commit);
        assert!(!under_way.hangs_for(Duration::ZERO));
    }
}
