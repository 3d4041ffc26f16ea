//! Metrics of the gate: its answers, and their share of all claims.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Key, Recorder};
use qiang_core::{outcome::Outcome, ports::GateAnswers};

use super::{METADATA, counters, describe_gauge};

const SHARE: &str = "qiang_gate_hit_ratio";
/// Answers of the gate that are not outcomes, in addition to [`Outcome::NAMES`].
const NOT_ADMITTED: [&str; 1] = ["not_admitted"];

/// Counts claims that the gate answered.
pub(crate) struct GateMetrics {
    /// Answers before the submission, by outcome.
    peeked: [AtomicU64; Outcome::NAMES.len()],
    /// All answers, by outcome.
    outcomes: Vec<Counter>,
    not_admitted: Vec<Counter>,
    share: Gauge,
}

impl GateMetrics {
    pub(crate) fn new(recorder: &impl Recorder) -> Self {
        let text = "Claims answered by the gate, by reason";
        let of = |reasons: &[&'static str]| {
            counters(
                recorder,
                "qiang_gate_answers_total",
                text,
                "reason",
                reasons,
            )
        };
        let share = "Ratio of all claims since the start that the gate answered";
        describe_gauge(recorder, SHARE, share);
        Self {
            peeked: std::array::from_fn(|_| AtomicU64::new(0)),
            outcomes: of(&Outcome::NAMES),
            not_admitted: of(&NOT_ADMITTED),
            share: recorder.register_gauge(&Key::from_name(SHARE), &METADATA),
        }
    }

    pub(crate) fn answered(&self, outcome: &Outcome) {
        self.peeked[outcome.precedence()].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of claims that the gate answered, here and in the engine.
    pub(crate) fn count(&self, engine: &GateAnswers) -> u64 {
        let peeked = self.peeked.iter().map(|it| it.load(Ordering::Relaxed));
        engine.not_admitted + peeked.chain(engine.outcomes).sum::<u64>()
    }

    /// Sets the counters to the gate's answers, here and in the engine.
    pub(crate) fn show(&self, engine: &GateAnswers) {
        let peeked = self
            .peeked
            .iter()
            .map(|peeked| peeked.load(Ordering::Relaxed));
        let answers = peeked
            .zip(engine.outcomes)
            .map(|(peeked, held)| peeked + held);
        let mut by_gate = engine.not_admitted;
        for (counter, answers) in self.outcomes.iter().zip(answers) {
            counter.absolute(answers);
            by_gate += answers;
        }
        for counter in &self.not_admitted {
            counter.absolute(engine.not_admitted);
        }
        let all = by_gate + engine.decided;
        if all > 0 {
            self.share.set(by_gate as f64 / all as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn answers_before_and_behind_the_port_are_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let metrics = GateMetrics::new(&recorder);
        let sold_out = Outcome::SoldOut { remaining: 0 };
        metrics.answered(&sold_out);
        let mut engine = GateAnswers {
            not_admitted: 1,
            decided: 4,
            ..GateAnswers::default()
        };
        engine.outcomes[sold_out.precedence()] = 14;
        metrics.show(&engine);
        let text = recorder.handle().render();
        for line in [
            "qiang_gate_answers_total{reason=\"sold_out\"} 15",
            "qiang_gate_answers_total{reason=\"not_admitted\"} 1",
            "qiang_gate_answers_total{reason=\"ended\"} 0",
            "qiang_gate_hit_ratio 0.8",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}
