//! Counts of refused requests: above a limit, or without a valid token.

use metrics::Counter;
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{Metrics, counters};
use crate::http::auth_failure::AuthFailure;

/// Counters of unauthenticated requests.
pub(super) fn auth_failures(recorder: &PrometheusRecorder) -> Vec<Counter> {
    let name = "qiang_auth_failures_total";
    let text = "Requests without a valid token, by reason";
    counters(recorder, name, text, "reason", AuthFailure::NAMES)
}

impl Metrics {
    /// Counts an unauthenticated request.
    pub(crate) fn unauthenticated(&self, why: AuthFailure) {
        if let Some(counter) = self.auth_failures.get(why.index()) {
            counter.increment(1);
        }
    }

    /// Counter of refusals by a limit.
    pub(crate) fn refused_by(&self, limit: &'static str) -> Counter {
        let name = "qiang_rate_limited_total";
        let text = "Requests and connections refused by a limit, by limit";
        let mut counters = counters(&self.recorder, name, text, "limit", &[limit]);
        counters.pop().unwrap_or_else(Counter::noop)
    }
}
