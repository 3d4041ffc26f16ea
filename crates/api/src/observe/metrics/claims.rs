//! Counts of claims by end, and their latency. They are counted here, because figures need them too, and Prometheus
//! handles cannot be read.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Key, Recorder};
use qiang_core::outcome::Outcome;

use super::{LATENCY_BUCKETS, METADATA, counters};

/// Ends of claims that are not outcomes, in addition to [`Outcome::NAMES`].
const UNDECIDED: [&str; 4] = ["throttled", "failed", "unmet", "waiting"];
const OUTCOMES: usize = Outcome::NAMES.len();

/// Counter of claims whose result is unknown.
fn unconfirmed(recorder: &impl Recorder) -> Counter {
    let name = "qiang_claims_unconfirmed_total";
    let text =
        "Claims that may be granted although their answer could not say so; a retry gets the grant";
    recorder.describe_counter(name.into(), None, text.into());
    recorder.register_counter(&Key::from_static_name(name), &METADATA)
}

/// Counts claims.
#[derive(Default)]
pub(crate) struct ClaimMetrics {
    ends: [AtomicU64; OUTCOMES + UNDECIDED.len()],
    /// Number of claims by the first bound that they did not exceed; the last element is for claims above all bounds.
    took: [AtomicU64; LATENCY_BUCKETS.len() + 1],
    /// Claims whose result is unknown; they also count as failed.
    unconfirmed: AtomicU64,
    /// Empty in a process without claims.
    shown: Vec<Counter>,
    shown_unconfirmed: Option<Counter>,
}

/// Counts up to a point in time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClaimCounts {
    /// By end: [`ClaimCounts::ends`].
    pub(crate) ends: [u64; OUTCOMES + UNDECIDED.len()],
    /// By the first of [`ClaimCounts::BOUNDS_S`] that they did not exceed; the last element is for claims above all
    /// bounds.
    pub(crate) took: [u64; LATENCY_BUCKETS.len() + 1],
    /// Claims that the gate answered.
    pub(crate) by_gate: u64,
}

impl ClaimCounts {
    /// Bounds in seconds.
    pub(crate) const BOUNDS_S: [f64; LATENCY_BUCKETS.len()] = LATENCY_BUCKETS;

    /// Names of the ends.
    pub(crate) fn ends() -> impl Iterator<Item = &'static str> {
        Outcome::NAMES.into_iter().chain(UNDECIDED)
    }
}

impl ClaimMetrics {
    pub(crate) fn new(recorder: &impl Recorder) -> Self {
        let ends: Vec<_> = ClaimCounts::ends().collect();
        let text = "Claims by outcome";
        Self {
            shown: counters(recorder, "qiang_claims_total", text, "outcome", &ends),
            shown_unconfirmed: Some(unconfirmed(recorder)),
            ..Self::default()
        }
    }

    pub(crate) fn claimed(&self, outcome: &Outcome) {
        self.ends[outcome.precedence()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a claim with the end at this index of [`UNDECIDED`].
    pub(crate) fn undecided(&self, end: usize) {
        self.ends[OUTCOMES + end].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a claim whose result is unknown.
    pub(crate) fn unconfirmed(&self) {
        self.unconfirmed.fetch_add(1, Ordering::Relaxed);
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
        if let Some(counter) = &self.shown_unconfirmed {
            counter.absolute(self.unconfirmed.load(Ordering::Relaxed));
        }
    }
}
