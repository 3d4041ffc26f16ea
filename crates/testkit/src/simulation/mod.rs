//! Parts of a simulated world: a time that nobody waits for, an engine that dies and loses power at any moment, the
//! rows of a ledger, and draws that are the same ones every time. Whoever puts them together adds the code that is
//! tried.
//!
//! The time is tokio's, which stands still while anything is to be done and then goes to the next instant that somebody
//! waits for: on a runtime of one thread with paused time, what happens follows from the seed alone.

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

/// A bug that is planted, for the simulation to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Answers are given before their entries are durable.
    AnswersEarly,
    /// What a start finds in its file is taken for durable.
    NoProbe,
    /// The clock is believed whatever it says.
    UnguardedClock,
    /// The ledger takes entries again that it has.
    SettlesTwice,
    /// Campaigns leave memory of which the ledger does not have everything, and come back without it.
    RetiresUnsettled,
    /// A start does not know when the engine was down.
    ForgetsDowntimes,
    /// A packet counts as claimed when one share is left.
    ClosesEarly,
    /// A packet's seed is shown when one share is left.
    ShowsSeedEarly,
    /// The ledger keeps another seed than the one that was committed to.
    KeepsAnotherSeed,
    /// An order that nobody pays or cancels keeps its units for ever.
    NeverExpires,
    /// A campaign that has left memory does not come back for those who ask for it.
    NeverRecalls,
}

/// Numbers from a seed, the same ones every time (splitmix64).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Draws from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// A number from 0 up to, and without, a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// Whether something happens that happens once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Draws of its own for somebody else.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.below(u64::MAX))
    }
}

/// A wall clock that is set, seen through the guard that the engine has.
#[derive(Debug)]
pub struct SimulatedClock {
    started: Instant,
    off_ms: AtomicI64,
    /// None where the clock is believed whatever it says.
    guard: Option<Mutex<JumpGuard>>,
}

impl SimulatedClock {
    /// It begins at [`OPENS`].
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

    /// The time as it is.
    #[must_use]
    pub fn truth(&self) -> Timestamp {
        OPENS.plus_millis(self.steady_ms())
    }

    /// The wall clock is so far off from here on.
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
            guard.look(wall, self.steady_ms()).now
        })
    }
}
