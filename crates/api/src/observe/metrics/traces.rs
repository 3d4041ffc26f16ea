//! What is counted of spans.

use metrics::Counter;

use super::{Metrics, counters};

/// Spans by what became of them.
pub(crate) struct SpanMetrics {
    /// The collector has them.
    pub(crate) exported: Counter,
    /// There was no room for them.
    pub(crate) dropped: Counter,
    /// The collector did not take them.
    pub(crate) failed: Counter,
}

impl SpanMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let name = "qiang_trace_spans_total";
        let text = "Spans by what became of them: the collector has them, there was no room, or it took them not";
        let counter = |result| {
            let mut counters = counters(&metrics.recorder, name, text, "result", &[result]);
            counters.pop().unwrap_or_else(Counter::noop)
        };
        Self {
            exported: counter("exported"),
            dropped: counter("dropped"),
            failed: counter("failed"),
        }
    }
}
