//! Claims: what they end in, and how long they take. They are counted here, because figures are read from it too, and
//! what Prometheus is shown cannot be read.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Recorder};
use qiang_core::outcome::Outcome;

use super::{LATENCY_BUCKETS, counters};

/// Ends of claims that are no outcome, beside [`Outcome::NAMES`].
const UNDECIDED: [&str; 4] = ["throttled", "failed", "unmet", "waiting"];
const OUTCOMES: usize = Outcome::NAMES.len();

/// Counts claims.
#[derive(Default)]
pub(crate) struct ClaimMetrics {
    ends: [AtomicU64; OUTCOMES + UNDECIDED.len()],
    /// By the first bound that they did not exceed; the last ones by none.
    took: [AtomicU64; LATENCY_BUCKETS.len() + 1],
    /// None in a process that takes no claims.
    shown: Vec<Counter>,
}

/// What was counted up to a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClaimCounts {
    /// By what they ended in: [`ClaimCounts::ends`].
    pub(crate) ends: [u64; OUTCOMES + UNDECIDED.len()],
    /// By the first of [`ClaimCounts::BOUNDS_S`] that they did not exceed; the last ones by none.
    pub(crate) took: [u64; LATENCY_BUCKETS.len() + 1],
    /// Those that were answered without whoever decides.
    pub(crate) by_gate: u64,
}

impl ClaimCounts {
    /// In seconds.
    pub(crate) const BOUNDS_S: [f64; LATENCY_BUCKETS.len()] = LATENCY_BUCKETS;

    /// The names of what claims end in.
    pub(crate) fn ends() -> impl Iterator<Item = &'static str> {
        Outcome::NAMES.into_iter().chain(UNDECIDED)
    }
}

impl ClaimMetrics {
    pub(crate) fn new(recorder: &impl Recorder) -> Self {
        let ends: Vec<_> = ClaimCounts::ends().collect();
        let text = "Claims by what they ended in";
        Self {
            shown: counters(recorder, "qiang_claims_total", text, "outcome", &ends),
            ..Self::default()
        }
    }

    pub(crate) fn claimed(&self, outcome: &Outcome) {
        self.ends[outcome.precedence()].fetch_add(1, Ordering::Relaxed);
    }

    /// One that ended in the so-and-so-many-th of [`UNDECIDED`].
    pub(crate) fn undecided(&self, end: usize) {
        self.ends[OUTCOMES + end].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = LATENCY_BUCKETS.partition_point(|bound| *bound < seconds);
        self.took[bucket].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ClaimCounts {
        ClaimCounts {
            ends: self.ends.each_ref().map(|it| it.load(Ordering::Relaxed)),
            took: self.took.each_ref().map(|it| it.load(Ordering::Relaxed)),
            by_gate: 0,
        }
    }

    pub(crate) fn show(&self) {
        for (counter, count) in self.shown.iter().zip(self.counts().ends) {
            counter.absolute(count);
        }
    }
}
