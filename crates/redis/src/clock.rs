//! Redis' time, as far as this node knows it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use qiang_core::{ports::Clock, time::Timestamp};

/// How far this node's estimate of Redis' time may be off.
const MARGIN_MS: i64 = 200;

/// An estimate of Redis' time from what replies have said; exact where a clock is given.
pub(crate) struct RedisClock {
    given: Option<Arc<dyn Clock>>,
    started: Instant,
    /// Redis' time less the time since the start, in milliseconds.
    offset_ms: AtomicI64,
}

impl RedisClock {
    pub(crate) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self {
            given,
            started: Instant::now(),
            offset_ms: AtomicI64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match &self.given {
            Some(clock) => clock.now(),
            None => {
                Timestamp::from_millis(self.elapsed_ms() + self.offset_ms.load(Ordering::Relaxed))
            }
        }
    }

    /// By how many milliseconds the estimate may be off.
    pub(crate) fn margin_ms(&self) -> i64 {
        if self.given.is_some() { 0 } else { MARGIN_MS }
    }

    /// A reply says what time it is at Redis.
    pub(crate) fn observe(&self, now: Timestamp) {
        let offset_ms = now.as_millis() - self.elapsed_ms();
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    fn elapsed_ms(&self) -> i64 {
        self.started.elapsed().as_millis() as i64
    }
}
