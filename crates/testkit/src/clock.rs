//! A clock that stands still until a test moves it, in either direction.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use qiang_core::{ports::Clock, time::Timestamp};

/// A clock set by hand.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(now.as_millis())))
    }

    /// Shows `now` from here on, whether later or earlier than before.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }

    /// Moves on by `millis`, or back if it is negative, and returns the new instant.
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
