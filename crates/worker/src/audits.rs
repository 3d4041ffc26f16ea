//! Scheduled audits: proves the invariants from the rows at an interval, and records the result for the alarm.

use std::{sync::Arc, time::Duration};

use qiang_core::ports::{AuditMonitor, AuditReport, Auditor, Clock};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// First pause after an audit that could not read everything.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Offending rows that the log names, per check.
const LOGGED_MAX: usize = 3;

/// Audits this process's data at an interval.
pub struct ScheduledAudit {
    auditor: Arc<dyn Auditor>,
    clock: Arc<dyn Clock>,
    monitor: Arc<AuditMonitor>,
}

impl ScheduledAudit {
    /// Creates the audits of this interval. The first one begins when a host starts it.
    #[must_use]
    pub fn new(
        auditor: Arc<dyn Auditor>,
        clock: Arc<dyn Clock>,
        monitor: Arc<AuditMonitor>,
        interval: Duration,
    ) -> Self {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        monitor.begin(clock.now(), interval_ms);
        Self {
            auditor,
            clock,
            monitor,
        }
    }

    /// Schedule of audits at this interval.
    #[must_use]
    pub fn schedule(interval: Duration) -> Schedule {
        Schedule {
            interval,
            rest: Duration::ZERO,
            backoff_min: AGAIN_AFTER.min(interval),
            backoff_max: interval,
        }
    }
}

impl Reconciler for ScheduledAudit {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let report = self.auditor.audit().await;
        let report = report.map_err(|reason| ReconcileError(format!("cannot audit: {reason}")))?;
        self.monitor.ended(self.clock.now(), log(&report));
        Ok(NextRun::Wait)
    }
}

/// Logs each broken check with its remedy. Returns the number of broken checks.
fn log(report: &AuditReport) -> u64 {
    let mut broken = 0;
    for check in report.checks.iter().filter(|check| check.ok == Some(false)) {
        broken += 1;
        tracing::error!(
            check = check.name,
            offending = check.offending_total,
            first = ?check.offending.iter().take(LOGGED_MAX).collect::<Vec<_>>(),
            remedy = check.remedy,
            "a check of the audit is broken"
        );
    }
    if broken == 0 {
        let checks = report.checks.len();
        tracing::info!(subject = report.subject, checks, "the audit holds");
    }
    broken
}
