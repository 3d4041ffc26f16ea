//! Counters of the gate's answers and the writer's decisions, for operators.

use std::sync::atomic::{AtomicU64, Ordering};

use qiang_core::{outcome::Outcome, ports::GateAnswers};

/// Counters since the start of the process.
#[derive(Default)]
pub(crate) struct GateCounters {
    outcomes: [AtomicU64; Outcome::NAMES.len()],
    decided: AtomicU64,
}

impl GateCounters {
    /// Counts a held-back claim that the gate answered.
    pub(crate) fn answered(&self, outcome: &Outcome) {
        self.outcomes[outcome.precedence()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts claims decided in the book.
    pub(crate) fn decided(&self, claims: u64) {
        self.decided.fetch_add(claims, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> GateAnswers {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GateAnswers {
            outcomes: self.outcomes.each_ref().map(load),
            not_admitted: 0,
            decided: load(&self.decided),
        }
    }
}
