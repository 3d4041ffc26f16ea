//! The system's clock, as it is, and guarded.

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use qiang_core::{
    ports::Clock,
    time::{GuardedTime, JumpGuard, Timestamp},
};

/// The clock of the operating system.
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

/// A wall clock whose jumps are not believed until they have lasted: no campaign ends and no hold expires by one that
/// is taken back, and no grant is dated by it.
pub struct GuardedClock {
    wall: Arc<dyn Clock>,
    started: Instant,
    state: Mutex<Guarded>,
}

#[derive(Default)]
struct Guarded {
    guard: JumpGuard,
    /// By how much the clock was off at the last look.
    jump_ms: i64,
}

impl GuardedClock {
    /// The system's clock, guarded. It is believed as it is now.
    #[must_use]
    pub fn system() -> Arc<Self> {
        Self::of(Arc::new(SystemClock))
    }

    /// Another clock, guarded.
    #[must_use]
    pub fn of(wall: Arc<dyn Clock>) -> Arc<Self> {
        let clock = Self {
            wall,
            started: Instant::now(),
            state: Mutex::default(),
        };
        clock.now();
        Arc::new(clock)
    }

    /// By how many milliseconds the wall clock is ahead of the time that is gone by, while it is not believed; 0 while
    /// it is.
    pub fn jump_ms(&self) -> i64 {
        self.now();
        self.state.lock().jump_ms
    }
}

impl Clock for GuardedClock {
    fn now(&self) -> Timestamp {
        let mut state = self.state.lock();
        let steady_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let found = state.guard.look(self.wall.now(), steady_ms);
        let before = std::mem::replace(&mut state.jump_ms, found.jump_ms);
        drop(state);
        report(&found, before);
        found.now
    }
}

/// Logs each change once.
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
