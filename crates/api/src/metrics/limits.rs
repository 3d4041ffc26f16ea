//! What is counted of those who were refused for asking too much.

use metrics::Counter;

use super::{Metrics, counters};

impl Metrics {
    /// Counts who is refused by a limit.
    pub(crate) fn refused_by(&self, limit: &'static str) -> Counter {
        let name = "qiang_limited_total";
        let text = "Requests, and connections, that were refused by a limit";
        let mut counters = counters(&self.recorder, name, text, "limit", &[limit]);
        counters.pop().unwrap_or_else(Counter::noop)
    }
}
