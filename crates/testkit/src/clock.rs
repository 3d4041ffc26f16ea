//! A clock that only a test moves, forwards or backwards.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use qiang_core::{ports::Clock, time::Timestamp};

/// Clock set by the test.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now.as_millis())))
    }

    /// Sets the time to `now`, later or earlier than before.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Moves by `millis`, backwards if negative, and returns the new instant.
    pub fn advance(&self, millis: i64) -> Timestamp {
        let before = self.0.fetch_add(millis, Ordering::SeqCst);
        Timestamp::from_millis(before).plus_millis(millis)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
