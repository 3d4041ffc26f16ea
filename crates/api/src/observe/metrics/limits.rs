//! What is counted of those who were refused for asking too much, or without a token that holds.

use metrics::Counter;
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{Metrics, counters};
use crate::http::auth_failure::AuthFailure;

/// The counters of requests of nobody.
pub(super) fn auth_failures(recorder: &PrometheusRecorder) -> Vec<Counter> {
    let name = "qiang_auth_failures_total";
    let text = "Requests without a token that holds, by what was wrong";
    counters(recorder, name, text, "reason", AuthFailure::NAMES)
}

impl Metrics {
    /// Counts a request of nobody.
    pub(crate) fn unauthenticated(&self, why: AuthFailure) {
        if let Some(counter) = self.auth_failures.get(why.index()) {
            counter.increment(1);
        }
    }

    /// Counts who is refused by a limit.
    pub(crate) fn refused_by(&self, limit: &'static str) -> Counter {
        let name = "qiang_limited_total";
        let text = "Requests, and connections, that were refused by a limit";
        let mut counters = counters(&self.recorder, name, text, "limit", &[limit]);
        counters.pop().unwrap_or_else(Counter::noop)
    }
}
