//! Circuit breaker: after some failures in a row, calls fail at once. One probe at a time tests whether the other
//! side works again.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Breaker {
    failures_max: u32,
    open_for: Duration,
    state: BreakerState,
}

#[derive(Debug, Clone, Copy)]
enum BreakerState {
    /// Calls are made. `failures` have failed since the last success.
    Closed { failures: u32 },
    /// No calls are made, except a probe after this time.
    Open { until: Instant },
}

/// A permitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerPermit {
    /// An ordinary call.
    Ordinary,
    /// The call that tests the other side.
    Probe,
}

impl Breaker {
    /// Breaker that opens after `failures_max` failures in a row, and then permits one call per `open_for`.
    pub(crate) fn new(failures_max: u32, open_for: Duration) -> Self {
        Self {
            failures_max,
            open_for,
            state: BreakerState::Closed { failures: 0 },
        }
    }

    /// Permission for a call, if there is one. A probe that never ends delays the next one by `open_for` only.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<BreakerPermit> {
        match self.state {
            BreakerState::Closed { .. } => Some(BreakerPermit::Ordinary),
            BreakerState::Open { until } if now < until => None,
            BreakerState::Open { .. } => {
                self.open(now);
                Some(BreakerPermit::Probe)
            }
        }
    }

    /// Records the result of a call. A call that began before the breaker opened has no effect. Returns whether the
    /// breaker opened or closed.
    pub(crate) fn end(&mut self, call: BreakerPermit, succeeded: bool, now: Instant) -> bool {
        match (self.state, call, succeeded) {
            (BreakerState::Open { .. }, BreakerPermit::Probe, true) => {
                self.state = BreakerState::Closed { failures: 0 };
                true
            }
            (BreakerState::Open { .. }, BreakerPermit::Probe, false) => {
                self.open(now);
                false
            }
            (BreakerState::Open { .. }, BreakerPermit::Ordinary, _) => false,
            (BreakerState::Closed { .. }, _, true) => {
                self.state = BreakerState::Closed { failures: 0 };
                false
            }
            (BreakerState::Closed { failures }, _, false) if failures + 1 < self.failures_max => {
                let failures = failures + 1;
                self.state = BreakerState::Closed { failures };
                false
            }
            (BreakerState::Closed { .. }, _, false) => {
                self.open(now);
                true
            }
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, BreakerState::Open { .. })
    }

    fn open(&mut self, now: Instant) {
        let until = now + self.open_for;
        self.state = BreakerState::Open { until };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(5);

    /// Breaker that opened at the returned time.
    fn opened() -> (Breaker, Instant) {
        let (mut breaker, now) = (Breaker::new(3, OPEN_FOR), Instant::now());
        for n in 1..=3 {
            assert_eq!(breaker.begin(now), Some(BreakerPermit::Ordinary));
            assert_eq!(breaker.end(BreakerPermit::Ordinary, false, now), n == 3);
        }
        assert!(breaker.is_open());
        (breaker, now)
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let (mut breaker, now) = (Breaker::new(3, OPEN_FOR), Instant::now());
        for succeeded in [false, false, true, false, false, true] {
            assert!(!breaker.end(BreakerPermit::Ordinary, succeeded, now));
        }
        assert!(!breaker.is_open());
    }

    #[test]
    fn one_probe_at_a_time_finds_out() {
        let (mut breaker, opened_at) = opened();
        let just_before = opened_at + OPEN_FOR - Duration::from_millis(1);
        assert_eq!(breaker.begin(just_before), None);
        let then = opened_at + OPEN_FOR;
        assert_eq!(breaker.begin(then), Some(BreakerPermit::Probe));
        assert_eq!(breaker.begin(then), None);
        // It fails, so the time starts again.
        assert!(!breaker.end(BreakerPermit::Probe, false, then + Duration::from_secs(1)));
        assert_eq!(breaker.begin(then + OPEN_FOR), None);
        let then = then + OPEN_FOR + Duration::from_secs(1);
        assert_eq!(breaker.begin(then), Some(BreakerPermit::Probe));
        assert!(breaker.end(BreakerPermit::Probe, true, then));
        assert_eq!(breaker.begin(then), Some(BreakerPermit::Ordinary));
        assert!(!breaker.is_open());
    }

    #[test]
    fn what_began_before_says_nothing() {
        let (mut breaker, now) = opened();
        assert!(!breaker.end(BreakerPermit::Ordinary, true, now));
        assert!(breaker.is_open());
        assert!(!breaker.end(BreakerPermit::Ordinary, false, now + Duration::from_secs(4)));
        assert_eq!(breaker.begin(now + OPEN_FOR), Some(BreakerPermit::Probe));
    }

    #[test]
    fn a_probe_that_never_ends_is_followed_by_another() {
        let (mut breaker, now) = opened();
        assert_eq!(breaker.begin(now + OPEN_FOR), Some(BreakerPermit::Probe));
        assert_eq!(
            breaker.begin(now + 2 * OPEN_FOR),
            Some(BreakerPermit::Probe)
        );
    }
}
