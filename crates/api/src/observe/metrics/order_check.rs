//! Metrics of order checks.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, Recorder as _, Unit};

use super::{METADATA, Metrics, counters, describe_gauge};

/// Outcome of an order check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderCheckOutcome {
    /// The shop allows the order.
    Allowed,
    /// The shop refuses the order.
    Refused,
    /// The answer was invalid, or the connection failed.
    Failed,
    /// The shop did not answer in time.
    TimedOut,
    /// Too many checks were running.
    Busy,
    /// The breaker was open.
    NotAsked,
}

/// Names in the order of the variants.
const NAMES: [&str; 6] = [
    "allowed",
    "refused",
    "failed",
    "timed_out",
    "busy",
    "not_asked",
];

pub(crate) struct OrderCheckMetrics {
    outcomes: Vec<Counter>,
    took: Histogram,
    open: Gauge,
}

impl OrderCheckMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let recorder = &metrics.recorder;
        let name = "qiang_order_check_duration_seconds";
        let text = "Latency of the shop's order checks";
        recorder.describe_histogram(name.into(), Some(Unit::Seconds), text.into());
        let took = recorder.register_histogram(&Key::from_name(name), &METADATA);
        let name = "qiang_order_check_breaker_open";
        let text =
            "1 while the breaker of the order check is open, after several failures in a row";
        describe_gauge(recorder, name, text);
        let open = recorder.register_gauge(&Key::from_name(name), &METADATA);
        open.set(0.0);
        let name = "qiang_order_checks_total";
        let text = "Order checks by outcome";
        Self {
            outcomes: counters(recorder, name, text, "outcome", &NAMES),
            took,
            open,
        }
    }

    pub(crate) fn count(&self, outcome: OrderCheckOutcome) {
        self.outcomes[outcome as usize].increment(1);
    }

    pub(crate) fn took(&self, took: Duration) {
        self.took.record(took.as_secs_f64());
    }

    pub(crate) fn show_open(&self, is_open: bool) {
        self.open.set(f64::from(is_open));
    }
}
