//! Metrics of the comparison of engine and ledger, and of the results of repairs.

use metrics::Label;
use qiang_core::reconcile::{DifferenceKind, PartitionFindings};

use super::{Labelled, Metrics, partition_label};

const RECONCILE_DIFFERENCES: Labelled = (
    "qiang_reconcile_differences",
    "Compared rows in which engine and ledger differ, by kind",
);
const RECONCILE_RAN: Labelled = (
    "qiang_reconcile_last_run_timestamp_seconds",
    "Time of the last comparison of rows of engine and ledger, by partition; no series before the first one",
);
const RECONCILE_PASSED: Labelled = (
    "qiang_reconcile_last_pass_timestamp_seconds",
    "Time of the last full comparison of all live rows of engine and ledger, by partition",
);
const WITHHELD: Labelled = (
    "qiang_withheld_units",
    "Units that repairs withhold and that are not released, in the partitions that this process compares",
);
const OUT_OF_SERVICE: Labelled = (
    "qiang_campaigns_out_of_service",
    "Campaigns that repairs took out of service, in the partitions that this process compares",
);
/// Shows the findings of the partitions that this process compares.
pub(super) fn show(metrics: &Metrics, reports: &[PartitionFindings]) {
    for kind in DifferenceKind::FAULTS {
        let all = reports.iter().flat_map(|report| &report.differences);
        let of_kind = all.filter(|(other, _)| *other == kind);
        let count: u64 = of_kind.map(|(_, count)| count).sum();
        let labels = vec![Label::new("kind", kind.name())];
        metrics.set(RECONCILE_DIFFERENCES, labels, count as f64);
    }
    let withheld: u64 = reports.iter().map(|report| report.withheld).sum();
    metrics.set(WITHHELD, Vec::new(), withheld as f64);
    let out_of_service: u64 = reports.iter().map(|report| report.out_of_service).sum();
    metrics.set(OUT_OF_SERVICE, Vec::new(), out_of_service as f64);
    for report in reports {
        for (name, at) in [
            (RECONCILE_RAN, report.ran_at),
            (RECONCILE_PASSED, report.passed_at),
        ] {
            if let Some(at) = at {
                let labels = vec![partition_label(report.partition)];
                metrics.set(name, labels, at.as_millis() as f64 / 1_000.0);
            }
        }
    }
}
