//! Clock of a partition's server, as estimated by this node. Each server has its own clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use qiang_core::{ports::Clock, time::Timestamp};

/// Maximum error of this node's estimate of Redis' time.
const MARGIN_MS: i64 = 200;

/// Time for which an estimate is trusted after Redis has confirmed it. Later, Redis' clock may have been set, or ours
/// may have paused.
const TRUSTED_MS: i64 = 2_000;

/// Estimate of Redis' time from its replies; exact if a clock is given.
pub(crate) struct RedisClock {
    given: Option<Arc<dyn Clock>>,
    started: Instant,
    /// Redis' time less the time since the start, in milliseconds.
    offset_ms: AtomicI64,
    /// Last read of Redis' time, in milliseconds since the start.
    asked_ms: AtomicI64,
}

impl RedisClock {
    pub(crate) fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self {
            given,
            started: Instant::now(),
            offset_ms: AtomicI64::new(0),
            asked_ms: AtomicI64::new(-TRUSTED_MS),
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

    /// The time, if Redis was asked recently.
    pub(crate) fn trusted_now(&self) -> Option<Timestamp> {
        let age_ms = self.elapsed_ms() - self.asked_ms.load(Ordering::Relaxed);
        (self.given.is_some() || age_ms < TRUSTED_MS).then(|| self.now())
    }

    /// Maximum error of the estimate, in milliseconds.
    pub(crate) fn margin_ms(&self) -> i64 {
        if self.given.is_some() { 0 } else { MARGIN_MS }
    }

    /// Records a time from a reply. The reply may have been in flight for long, so the time is at least this late.
    pub(crate) fn observe(&self, then: Timestamp) {
        let offset_ms = then.as_millis() - self.elapsed_ms();
        self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed);
    }

    /// Records a read of Redis' time. It may be later or earlier than before, if the clock was set. An answer that was
    /// in flight for long is ignored.
    pub(crate) fn set(&self, asked: Instant, now: Timestamp) {
        if asked.elapsed().as_millis() as i64 <= MARGIN_MS {
            let elapsed_ms = self.elapsed_ms();
            self.offset_ms
                .store(now.as_millis() - elapsed_ms, Ordering::Relaxed);
            self.asked_ms.store(elapsed_ms, Ordering::Relaxed);
        }
    }

    fn elapsed_ms(&self) -> i64 {
        self.started.elapsed().as_millis() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clock: &RedisClock) -> i64 {
        clock.now().as_millis()
    }

    #[test]
    fn a_clock_that_was_set_is_followed_both_ways() {
        let clock = RedisClock::new(None);
        for millis in [1_000_000, 5_000_000, 2_000_000] {
            clock.set(Instant::now(), Timestamp::from_millis(millis));
            assert!(
                (millis..millis + 1_000).contains(&at(&clock)),
                "{}",
                at(&clock)
            );
        }
    }

    #[test]
    fn a_late_reply_does_not_set_the_clock_back() {
        let clock = RedisClock::new(None);
        let long_ago = Instant::now().checked_sub(std::time::Duration::from_secs(1));
        clock.set(Instant::now(), Timestamp::from_millis(1_000_000));
        clock.observe(Timestamp::from_millis(999_000));
        clock.set(
            long_ago.expect("the machine runs for longer"),
            Timestamp::from_millis(999_000),
        );
        assert!(at(&clock) >= 1_000_000);
        clock.observe(Timestamp::from_millis(1_003_000));
        assert!(at(&clock) >= 1_003_000);
    }

    #[test]
    fn an_estimate_that_nobody_confirms_is_not_trusted() {
        let clock = RedisClock::new(None);
        clock.observe(Timestamp::from_millis(1_000_000));
        assert_eq!(clock.trusted_now(), None);
        clock.set(Instant::now(), Timestamp::from_millis(1_000_000));
        assert!(clock.trusted_now().is_some());
        clock.asked_ms.fetch_sub(TRUSTED_MS, Ordering::Relaxed);
        assert_eq!(clock.trusted_now(), None);
    }
}
