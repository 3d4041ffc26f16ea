//! Detection of long pauses of this process. After a stop or on a very busy machine, the process has not read the
//! invalidations of the pause. It might answer a request before it reads them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Interval of beats.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(50);
/// Maximum pause; a longer one may have hidden an invalidation.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Last time at which this process was known to run and to have seen all earlier invalidations.
pub(super) struct Pulse {
    started: Instant,
    last_ms: AtomicU64,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
        }
    }

    /// Whether there was no long pause until now.
    pub(super) fn is_steady(&self) -> bool {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Acquire));
        self.started.elapsed() <= last + PAUSE_MAX
    }

    /// Records that the process runs. After a long pause it records nothing and returns false: cached values must be
    /// compared first.
    pub(super) fn beat(&self) -> bool {
        let is_steady = self.is_steady();
        if is_steady {
            self.set(self.started.elapsed());
        }
        is_steady
    }

    /// Records that all values known at `began` have been compared.
    pub(super) fn compared(&self, began: Instant) {
        self.set(began - self.started);
    }

    fn set(&self, at: Duration) {
        self.last_ms.store(at.as_millis() as u64, Ordering::Release);
    }
}
