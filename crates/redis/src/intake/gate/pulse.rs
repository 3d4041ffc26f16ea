//! Whether this process has run without a long pause. A process that was stopped, or whose machine was busy for long,
//! has not read the invalidations that came meanwhile, and may answer a request before it does.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How often the pulse is taken.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(50);
/// A pause that is longer may have hidden an invalidation.
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// When this process was last known to run, and to know of every invalidation of before.
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

    /// Takes the pulse. After a long pause it stays what it was, and the answer is false: what is known must be
    /// compared first.
    pub(super) fn beat(&self) -> bool {
        let is_steady = self.is_steady();
        if is_steady {
            self.set(self.started.elapsed());
        }
        is_steady
    }

    /// What was known when this began has been compared since.
    pub(super) fn compared(&self, began: Instant) {
        self.set(began - self.started);
    }

    fn set(&self, at: Duration) {
        self.last_ms.store(at.as_millis() as u64, Ordering::Release);
    }
}
