//! Time: instants in milliseconds, the window of a campaign, and the clock as a port.

mod jump;
mod month;

use uuid::Uuid;

pub use self::{
    jump::{GuardedTime, JUMP_CONFIRMED_MS, JUMP_MS_MAX, JumpGuard},
    month::{Month, MonthError},
};

/// Milliseconds since the Unix epoch, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest instant accepted from outside: the end of the year 9998, which every calendar can show in every
    /// time zone.
    pub const MAX: Self = Self(253_370_764_799_999);

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `millis` later, clamped to the range.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this instant; negative if it is before `earlier`.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reason why a window is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// It starts outside the range of calendars.
    #[error("a window starts in the years 1970 to 9998 (UTC)")]
    Start,
    /// It ends at its start or earlier.
    #[error("a window ends after it starts")]
    Empty,
    /// It ends outside the range of calendars.
    #[error("a window ends before the year 9999 (UTC)")]
    End,
}

/// Time in which claims are accepted: from `starts_at`, up to but not including `ends_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    starts_at: Timestamp,
    ends_at: Timestamp,
}

impl Window {
    /// Creates a window that is not empty.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn new(starts_at: Timestamp, ends_at: Timestamp) -> Result<Self, WindowError> {
        if !(Timestamp(0)..=Timestamp::MAX).contains(&starts_at) {
            return Err(WindowError::Start);
        }
        if ends_at <= starts_at {
            return Err(WindowError::Empty);
        }
        if ends_at > Timestamp::MAX {
            return Err(WindowError::End);
        }
        Ok(Self { starts_at, ends_at })
    }

    /// The first instant at which claims are accepted.
    pub fn starts_at(&self) -> Timestamp {
        self.starts_at
    }

    /// The first instant at which claims are no longer accepted.
    pub fn ends_at(&self) -> Timestamp {
        self.ends_at
    }
}

/// Source of the time. Nothing else in Qiang reads the system clock.
pub trait Clock: Send + Sync + 'static {
    /// The current instant. It may jump in either direction, as system clocks do.
    fn now(&self) -> Timestamp;
}

/// State of a clock that moves on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// The current instant.
    pub now: Timestamp,
    /// Milliseconds by which requests have moved it.
    pub advanced_ms: i64,
}

/// Clock of a service for development that moves forward on request.
pub trait AdjustableClock: Clock {
    /// Moves the clock forward, for good. A step with an id that it keeps was made before, and does not move it.
    ///
    /// # Errors
    /// If the step cannot be kept, with the reason. Then the clock has not moved.
    fn advance(&self, id: Uuid, step_ms: i64) -> Result<ClockState, String>;

    /// Whether it keeps the ids of all steps from this one on.
    fn keeps_steps_since(&self, id: Uuid) -> bool;
}
