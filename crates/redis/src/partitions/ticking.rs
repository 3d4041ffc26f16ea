//! State of a partition's ticks, and the records of service by this node.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use qiang_core::{
    event::PartitionId,
    time::{JumpGuard, Timestamp},
};

/// Interval at which a node records that it serves a partition.
pub(crate) const NOTED_EVERY: Duration = Duration::from_secs(1);

/// Time of this node's last record for one partition.
pub(crate) struct UptimeReport {
    started: Instant,
    /// Milliseconds since the start; 0 if there is no record.
    noted_ms: AtomicU64,
}

impl UptimeReport {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            noted_ms: AtomicU64::new(0),
        }
    }

    /// Whether there is a record.
    pub(crate) fn is_noted(&self) -> bool {
        self.noted_ms.load(Ordering::Relaxed) > 0
    }

    /// Whether the next record is due.
    pub(crate) fn is_due(&self) -> bool {
        let noted = Duration::from_millis(self.noted_ms.load(Ordering::Relaxed));
        !self.is_noted() || self.started.elapsed() >= noted + NOTED_EVERY
    }

    /// Notes that a record was made.
    pub(crate) fn note(&self) {
        let now_ms = self.started.elapsed().as_millis() as u64;
        self.noted_ms.store(now_ms.max(1), Ordering::Relaxed);
    }
}

/// Redis' clock, compared with a steady clock.
pub(crate) struct ClockGuard {
    started: Instant,
    guard: JumpGuard,
}

impl ClockGuard {
    /// Starts the comparison. The first reading is trusted.
    pub(crate) fn begin() -> Self {
        Self {
            started: Instant::now(),
            guard: JumpGuard::default(),
        }
    }

    /// Whether the clock has jumped, and has not kept the new time for long.
    pub(crate) fn has_jumped(&mut self, redis: Timestamp) -> bool {
        let steady_ms = self.started.elapsed().as_millis() as i64;
        self.guard.read(redis, steady_ms).jump_ms != 0
    }
}

/// Pause after the first failed rebuild of an agenda. Each further failure doubles it.
const REBUILD_AGAIN_MIN: Duration = Duration::from_millis(500);
/// Maximum of this pause. Holds of the partition may expire late by it.
const REBUILD_AGAIN_MAX: Duration = Duration::from_secs(30);

/// Failed rebuilds of an agenda. A rebuild reads all open campaigns from the ledger, so it must not follow each tick.
#[derive(Default)]
pub(crate) struct FailedRebuilds {
    count: u32,
    again_at: Option<Instant>,
}

impl FailedRebuilds {
    /// Whether the next attempt is due.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.again_at.is_none_or(|again_at| again_at <= now)
    }

    /// Notes a failure. Returns whether it is the first one.
    pub(crate) fn note(&mut self, now: Instant) -> bool {
        let pause = REBUILD_AGAIN_MIN.saturating_mul(1 << self.count.min(16));
        self.again_at = Some(now + pause.min(REBUILD_AGAIN_MAX));
        self.count += 1;
        self.count == 1
    }
}

/// Time since which payment reports are accepted, and trust in Redis' clock.
pub(crate) struct Ticking {
    /// As far as this node knows; `None` until the next tick sets it to now.
    pub(crate) since: Option<Timestamp>,
    started: Instant,
    guard: JumpGuard,
    /// Difference of Redis' clock at the last tick.
    jump_ms: i64,
    pub(crate) failed_rebuilds: FailedRebuilds,
}

impl Ticking {
    /// State before the first tick, which trusts the clock.
    pub(crate) fn begin(since: Option<Timestamp>) -> Self {
        Self {
            since,
            started: Instant::now(),
            guard: JumpGuard::default(),
            jump_ms: 0,
            failed_rebuilds: FailedRebuilds::default(),
        }
    }

    /// Whether Redis' clock has jumped, and has not kept the new time for long. Then nothing ends or expires by it.
    pub(crate) fn holds(&mut self, partition: PartitionId, redis: Timestamp) -> bool {
        self.holds_at(partition, redis, self.started.elapsed().as_millis() as i64)
    }

    fn holds_at(&mut self, partition: PartitionId, redis: Timestamp, steady_ms: i64) -> bool {
        let jump_ms = self.guard.read(redis, steady_ms).jump_ms;
        let before = std::mem::replace(&mut self.jump_ms, jump_ms);
        let partition = partition.0;
        if jump_ms != 0 && before == 0 {
            tracing::error!(
                partition,
                jump_ms,
                "Redis' clock has jumped; nothing ends or expires until it has kept the new time"
            );
        } else if jump_ms == 0 && before != 0 {
            tracing::warn!(partition, "Redis' clock is trusted again");
        }
        jump_ms != 0
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::time::JUMP_CONFIRMED_MS;

    use super::*;

    #[test]
    fn a_failed_rebuild_is_tried_again_ever_later() {
        let (start, mut failed) = (Instant::now(), FailedRebuilds::default());
        let mut now = start;
        assert!(failed.may_try(now));
        let mut pauses = Vec::new();
        for n in 0..40 {
            assert_eq!(failed.note(now), n == 0);
            assert!(!failed.may_try(now));
            let before = now;
            while !failed.may_try(now) {
                now += Duration::from_millis(500);
            }
            pauses.push((now - before).as_millis());
        }
        assert_eq!(
            pauses[..8],
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
        assert_eq!(pauses[39], 30_000);
    }

    #[test]
    fn nothing_ends_by_a_clock_that_has_jumped() {
        let mut ticking = Ticking::begin(None);
        let mut holds = |steady_ms: i64, off_ms: i64| {
            let redis = Timestamp::from_millis(1_000_000_000 + steady_ms + off_ms);
            ticking.holds_at(PartitionId(0), redis, steady_ms)
        };
        let hour_ms = 3_600_000;
        assert!(!holds(0, 0));
        assert!(!holds(250, 30_000), "a step");
        assert!(holds(500, hour_ms));
        assert!(!holds(750, 30_000), "reverted");
        assert!(holds(1_000, hour_ms));
        assert!(holds(1_000 + JUMP_CONFIRMED_MS / 2, hour_ms));
        assert!(
            !holds(1_000 + JUMP_CONFIRMED_MS, hour_ms),
            "the new time has lasted"
        );
    }
}
