//! Metrics of scheduled audits.

use qiang_core::ports::LastAudit;

use super::{Labelled, Metrics};

const BROKEN: Labelled = (
    "qiang_audit_broken_checks",
    "Checks that the last scheduled audit found broken",
);
const ENDED: Labelled = (
    "qiang_audit_last_run_timestamp_seconds",
    "End of the last scheduled audit; before the first one, the start of the process",
);
const INTERVAL: Labelled = (
    "qiang_audit_interval_seconds",
    "Interval of scheduled audits of this process",
);

/// Shows the last audit, in a process that runs them.
pub(super) fn show(metrics: &Metrics, last: Option<LastAudit>) {
    let Some(last) = last else { return };
    metrics.set(BROKEN, Vec::new(), last.broken as f64);
    metrics.set(ENDED, Vec::new(), last.at.as_millis() as f64 / 1_000.0);
    metrics.set(INTERVAL, Vec::new(), last.interval_ms as f64 / 1_000.0);
}
