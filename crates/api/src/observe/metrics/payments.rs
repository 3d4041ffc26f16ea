//! Counts of reported payments.

use metrics::{Counter, Key, Label, Recorder as _};
use metrics_exporter_prometheus::PrometheusRecorder;
use qiang_core::{
    book::PaymentOutcome,
    payment::{PaymentState, ReceivedMoney},
};

use super::{METADATA, Metrics, counters as counters_by};

/// Money of a report, as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportedAmount {
    /// The order's price.
    Price,
    /// Another amount, which the sale accepts.
    Accepted,
    /// Another amount or currency, for which a refund is due.
    Other,
    /// The reference was reported before, with other money.
    Differs,
}

impl ReportedAmount {
    /// The money that was recorded.
    pub(crate) fn from_recorded(recorded: PaymentState) -> Self {
        match recorded.received {
            ReceivedMoney::Price => Self::Price,
            ReceivedMoney::Accepted(_) => Self::Accepted,
            ReceivedMoney::Other(_) => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Price => "price",
            Self::Accepted => "accepted",
            Self::Other => "other",
            Self::Differs => "differs",
        }
    }
}

/// Outcome and amount of a payment, as labels. An accepted amount paid its order.
const LABELS: [[&str; 2]; 9] = [
    ["paid", "price"],
    ["reinstated", "price"],
    ["refund_due", "price"],
    ["refund_due", "other"],
    ["paid", "accepted"],
    ["reinstated", "accepted"],
    ["paid", "differs"],
    ["reinstated", "differs"],
    ["refund_due", "differs"],
];

pub(super) fn counters(recorder: &PrometheusRecorder) -> Vec<Counter> {
    let name = "qiang_payments_total";
    let text = "Payments reported to this node, replays included, by outcome and amount: the order's price, another \
     one that paid it, another one that is refunded, or one that differs from the reference's first report";
    recorder.describe_counter(name.into(), None, text.into());
    let counter = |[outcome, amount]: &[&'static str; 2]| {
        let labels = vec![
            Label::new("outcome", *outcome),
            Label::new("amount", *amount),
        ];
        recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    };
    LABELS.iter().map(counter).collect()
}

/// Problems of refused reports of payments and refunds, as labels. Other problems are counted as the last one.
const REFUSALS: [&str; 12] = [
    "not-found",
    "user-mismatch",
    "seller-mismatch",
    "refund-exceeds-due",
    "reference-used",
    "refund-failed",
    "payment-used",
    "order-conflict",
    "key-reused",
    "invalid",
    "bad-request",
    "other",
];

pub(super) fn refusals(recorder: &PrometheusRecorder) -> Vec<Counter> {
    let name = "qiang_payment_reports_refused_total";
    let text = "Reports of payments and refunds that this node refused, by problem; nothing of their money is recorded";
    counters_by(recorder, name, text, "problem", &REFUSALS)
}

impl Metrics {
    /// Counts a refused report of a payment or a refund.
    pub(crate) fn report_refused(&self, problem: &str) {
        let known = REFUSALS.iter().position(|refusal| *refusal == problem);
        let at = known.unwrap_or(REFUSALS.len() - 1);
        if let Some(counter) = self.refused_reports.get(at) {
            counter.increment(1);
        }
    }

    /// Counts a reported payment.
    pub(crate) fn payment_reported(&self, outcome: PaymentOutcome, amount: ReportedAmount) {
        let labels = [outcome.name(), amount.name()];
        let mut counters = LABELS.iter().zip(&self.payments);
        if let Some((_, counter)) = counters.find(|(of, _)| **of == labels) {
            counter.increment(1);
        }
    }
}
