//! What is shown of webhooks.

use metrics::Label;
use qiang_core::{ports::WebhookMonitor, time::Timestamp};

use super::{Labelled, Metrics};

const ENDPOINTS: Labelled = (
    "qiang_webhook_endpoints",
    "Endpoints of webhooks, by how they stand",
);
const BEHIND: Labelled = (
    "qiang_webhook_behind",
    "Events that the endpoint which is not disabled and lags most may have to be told yet",
);
const FAILING: Labelled = (
    "qiang_webhook_failing_seconds",
    "For how long nothing has got through to the endpoint that has failed the longest and is not disabled",
);
const ATTEMPTS: Labelled = (
    "qiang_webhook_attempts_total",
    "Events that this node has tried to send, by whether they got through",
);

impl Metrics {
    /// Shows how endpoints stand, in a process that tells them.
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
