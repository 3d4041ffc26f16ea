//! Parts of a simulated world: simulated time, an engine that dies or loses power at any moment, a ledger's rows, and
//! reproducible random draws. The test that combines them adds the code under test.
//!
//! The time is tokio's paused time. It stops while a task can run, and then jumps to the next timer. On a runtime with
//! one thread, everything follows from the seed.

mod engine;
mod rows;

use std::sync::{
    Mutex,
    atomic::{AtomicI64, Ordering},
};

use qiang_core::{
    ports::Clock,
    time::{JumpGuard, Timestamp},
};
use tokio::time::Instant;

pub use self::{
    engine::{Decided, GRACE_MS, Loss, SAYS_UP_EVERY_MS, SimulatedEngine},
    rows::{Loaded, Rows},
};
use crate::campaign::OPENS;

/// A planted bug that the simulation must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Answers are sent before their entries are durable.
    AnswersEarly,
    /// A start treats all data in its file as durable.
    NoProbe,
    /// Jumps of the clock are not guarded.
    UnguardedClock,
    /// The ledger settles entries twice.
    SettlesTwice,
    /// Campaigns are evicted before all their entries are settled, and are reloaded without them.
    RetiresUnsettled,
    /// A start ignores the downtime.
    ForgetsDowntimes,
    /// A packet counts as claimed when one share is left.
    ClosesEarly,
    /// A packet's seed is shown when one share is left.
    ShowsSeedEarly,
    /// The ledger stores another seed than the committed one.
    KeepsAnotherSeed,
    /// An unpaid order keeps its units for ever.
    NeverExpires,
    /// An evicted campaign is not reloaded on a request.
    NeverRecalls,
}

/// Reproducible random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Creates a generator from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// A number from 0 up to, but not including, `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Returns true once in this many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Creates an independent generator.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.below(u64::MAX))
    }
}

/// A wall clock that the simulation sets, read through the engine's jump guard.
#[derive(Debug)]
pub struct SimulatedClock {
    started: Instant,
    off_ms: AtomicI64,
    /// `None` if jumps are not guarded.
    guard: Option<Mutex<JumpGuard>>,
}

impl SimulatedClock {
    /// Creates a clock that starts at [`OPENS`].
    #[must_use]
    pub fn new(bug: Option<Bug>) -> Self {
        let clock = Self {
            started: Instant::now(),
            off_ms: AtomicI64::new(0),
            guard: (bug != Some(Bug::UnguardedClock)).then(Mutex::default),
        };
        clock.now();
        clock
    }

    /// The true time.
    #[must_use]
    pub fn truth(&self) -> Timestamp {
        OPENS.plus_millis(self.steady_ms())
    }

    /// Sets the error of the wall clock from here on.
    pub fn set_off(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }

    fn steady_ms(&self) -> i64 {
        self.started.elapsed().as_millis() as i64
    }
}

impl Clock for SimulatedClock {
    fn now(&self) -> Timestamp {
        let wall = self.truth().plus_millis(self.off_ms.load(Ordering::SeqCst));
        self.guard.as_ref().map_or(wall, |guard| {
            let mut guard = guard.lock().expect("a guard does not panic");
            guard.read(wall, self.steady_ms()).now
        })
    }
}
