//! Metrics of spans.

use metrics::Counter;

use super::{Metrics, counters};

/// Counters of spans by result.
#[derive(Debug)]
pub(crate) struct SpanMetrics {
    /// The collector accepted them.
    pub(crate) exported: Counter,
    /// The queue was full.
    pub(crate) dropped: Counter,
    /// The collector did not accept them.
    pub(crate) failed: Counter,
}

impl SpanMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let name = "qiang_trace_spans_total";
        let text = "Spans by result: exported, dropped because the queue was full, or refused by the collector";
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
