//! Metrics of webhooks.

use metrics::Label;
use qiang_core::{ports::WebhookMonitor, time::Timestamp};

use super::{Labelled, Metrics};

const ENDPOINTS: Labelled = ("qiang_webhook_endpoints", "Endpoints of webhooks, by state");
const BEHIND: Labelled = (
    "qiang_webhook_lag_events",
    "Undelivered events of the enabled endpoint with the largest lag",
);
const FAILING: Labelled = (
    "qiang_webhook_failing_seconds",
    "Seconds for which deliveries to the longest failing enabled endpoint have failed",
);
const ATTEMPTS: Labelled = (
    "qiang_webhook_attempts_total",
    "Delivery attempts of this node, by result",
);

impl Metrics {
    /// Shows the state of endpoints, in a process that delivers events.
    pub(crate) fn show_webhooks(&self, webhooks: &WebhookMonitor, now: Timestamp) {
        let endpoints = webhooks.endpoints();
        let (mut ok, mut failing, mut disabled) = (0_u32, 0_u32, 0_u32);
        let (mut behind, mut failing_ms) = (0, 0);
        for endpoint in endpoints {
            match (endpoint.is_disabled, endpoint.failing_since) {
                (true, _) => {
                    disabled += 1;
                    continue;
                }
                (false, Some(since)) => {
                    failing += 1;
                    failing_ms = failing_ms.max(now.millis_since(since));
                }
                (false, None) => ok += 1,
            }
            behind = behind.max(endpoint.behind);
        }
        for (state, count) in [("ok", ok), ("failing", failing), ("disabled", disabled)] {
            self.set(ENDPOINTS, vec![Label::new("state", state)], count.into());
        }
        self.set(BEHIND, Vec::new(), behind as f64);
        self.set(FAILING, Vec::new(), failing_ms as f64 / 1_000.0);
        let (sent, failed) = webhooks.attempts();
        for (result, count) in [("delivered", sent), ("failed", failed)] {
            self.count(ATTEMPTS, vec![Label::new("result", result)], count);
        }
    }
}
