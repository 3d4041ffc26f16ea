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
pub(crate) struct Served {
    started: Instant,
    /// Milliseconds since the start; 0 if there is no record.
    noted_ms: AtomicU64,
}

impl Served {
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
pub(crate) struct Watched {
    started: Instant,
    guard: JumpGuard,
}

impl Watched {
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
        self.guard.look(redis, steady_ms).jump_ms != 0
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
}

impl Ticking {
    /// State before the first tick, which trusts the clock.
    pub(crate) fn begin(since: Option<Timestamp>) -> Self {
        Self {
            since,
            started: Instant::now(),
            guard: JumpGuard::default(),
            jump_ms: 0,
        }
    }

    /// Whether Redis' clock has jumped, and has not kept the new time for long. Then nothing ends or expires by it.
    pub(crate) fn holds(&mut self, partition: PartitionId, redis: Timestamp) -> bool {
        self.holds_at(partition, redis, self.started.elapsed().as_millis() as i64)
    }

    fn holds_at(&mut self, partition: PartitionId, redis: Timestamp, steady_ms: i64) -> bool {
        let jump_ms = self.guard.look(redis, steady_ms).jump_ms;
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
