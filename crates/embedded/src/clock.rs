//! The system clock, plain and guarded against jumps.

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use qiang_core::{
    ports::Clock,
    time::{GuardedTime, JumpGuard, Timestamp},
};

/// Clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where the system clock is read"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Wall clock that ignores a jump until the jump has lasted. A jump that is reverted ends no campaign, expires no hold
/// and dates no grant.
pub struct GuardedClock {
    wall: Arc<dyn Clock>,
    started: Instant,
    state: Mutex<GuardState>,
}

#[derive(Default)]
struct GuardState {
    guard: JumpGuard,
    /// Offset of the wall clock from steady time at the last reading.
    jump_ms: i64,
}

impl GuardedClock {
    /// Returns the guarded system clock. Its time at this call counts as right.
    #[must_use]
    pub fn system() -> Arc<Self> {
        Self::from_wall_clock(Arc::new(SystemClock))
    }

    /// Returns a guarded wrapper of another clock.
    #[must_use]
    pub fn from_wall_clock(wall: Arc<dyn Clock>) -> Arc<Self> {
        let clock = Self {
            wall,
            started: Instant::now(),
            state: Mutex::default(),
        };
        clock.now();
        Arc::new(clock)
    }

    /// Milliseconds by which the wall clock is ahead of steady time while a jump is ignored; otherwise 0.
    pub fn jump_ms(&self) -> i64 {
        self.now();
        self.state.lock().jump_ms
    }
}

impl Clock for GuardedClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock();
        let steady_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let found = state.guard.read(self.wall.now(), steady_ms);
        let before = std::mem::replace(&mut state.jump_ms, found.jump_ms);
        drop(state);
        report(&found, before);
        found.now
    }
}

/// Logs each change of the jump's state once.
fn report(found: &GuardedTime, before_ms: i64) {
    let GuardedTime {
        jump_ms, confirmed, ..
    } = *found;
    if confirmed {
        tracing::warn!(
            jump_ms = before_ms,
            "the system's clock has stayed where it jumped to: it is followed"
        );
    } else if jump_ms != 0 && before_ms == 0 {
        tracing::error!(
            jump_ms,
            "the system's clock has jumped: it is not followed until it has stayed there"
        );
    } else if jump_ms == 0 && before_ms != 0 {
        tracing::warn!(
            jump_ms = before_ms,
            "the system's clock is back from its jump"
        );
    }
}
