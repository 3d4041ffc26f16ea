//! Counts of notifications of payment services.

use metrics::{Counter, Key, Label, Recorder as _};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::{METADATA, Metrics};
use crate::providers::PaymentProvider;

/// Result of a notification, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotificationResult {
    /// All its reports are recorded.
    Recorded,
    /// It reports nothing.
    Ignored,
    /// A report was refused, or it is not readable.
    Refused,
    /// It is not authentic.
    Rejected,
    /// The service could not record it.
    Failed,
}

/// Names in the order of the variants.
const RESULTS: [&str; 5] = ["recorded", "ignored", "refused", "rejected", "failed"];

pub(super) fn counters(recorder: &PrometheusRecorder) -> Vec<Counter> {
    let name = "qiang_payment_notifications_total";
    let text = "Notifications of payment services to this node, repetitions included, by provider and result";
    recorder.describe_counter(name.into(), None, text.into());
    let mut counters = Vec::new();
    for provider in PaymentProvider::ALL {
        for result in RESULTS {
            let labels = vec![
                Label::new("provider", provider.name()),
                Label::new("result", result),
            ];
            let key = Key::from_parts(name, labels);
            counters.push(recorder.register_counter(&key, &METADATA));
        }
    }
    counters
}

impl Metrics {
    /// Counts a notification of a payment service.
    pub(crate) fn notification_received(
        &self,
        provider: PaymentProvider,
        result: NotificationResult,
    ) {
        let at = provider as usize * RESULTS.len() + result as usize;
        if let Some(counter) = self.notifications.get(at) {
            counter.increment(1);
        }
    }
}
