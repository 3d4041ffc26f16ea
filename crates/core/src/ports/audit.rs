//! Audit for operators.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;

use super::QuarantineCount;
use crate::time::Timestamp;

/// Result of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    /// Whether every applicable check passed.
    pub ok: bool,
    /// Description of the audited parts.
    pub subject: String,
    /// Entries in the engine's log that are not settled yet; `None` if no engine was audited.
    pub in_flight: Option<u64>,
    /// Number of entries in quarantine.
    pub quarantine: QuarantineCount,
    /// All checks, in the order in which they ran.
    pub checks: Vec<AuditCheck>,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCheck {
    /// Its name.
    pub name: &'static str,
    /// Whether no row violates it; `None` if the check does not apply to the audited parts.
    pub ok: Option<bool>,
    /// Reason why it does not apply.
    pub not_applicable: Option<&'static str>,
    /// Number of examined rows.
    pub examined: u64,
    /// The first violations, one per line.
    pub offending: Vec<String>,
    /// Number of violations.
    pub offending_total: u64,
    /// Remedy for operators; `None` unless the check is broken.
    pub remedy: Option<&'static str>,
}

/// Verifies the invariants from the stored rows while the process works. It only reads.
#[async_trait]
pub trait Auditor: Send + Sync + 'static {
    /// Audits all parts as of one moment.
    ///
    /// # Errors
    /// The reason why some rows could not be read, without secrets.
    async fn audit(&self) -> Result<AuditReport, String>;
}

/// Result of the last scheduled audit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAudit {
    /// Its end; before the first one, the start of the process.
    pub at: Timestamp,
    /// Broken checks.
    pub broken: u64,
    /// Interval of the audits, in milliseconds.
    pub interval_ms: u64,
}

/// State of the scheduled audits of a process.
#[derive(Debug, Default)]
pub struct AuditMonitor {
    at_ms: AtomicI64,
    broken: AtomicU64,
    interval_ms: AtomicU64,
}

impl AuditMonitor {
    /// Records that this process audits at this interval from now on.
    pub fn begin(&self, now: Timestamp, interval_ms: u64) {
        self.at_ms.store(now.as_millis(), Ordering::Relaxed);
        self.interval_ms.store(interval_ms, Ordering::Relaxed);
    }

    /// Records the end of an audit.
    pub fn ended(&self, now: Timestamp, broken: u64) {
        self.at_ms.store(now.as_millis(), Ordering::Relaxed);
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// `None` if this process audits nothing on its own.
    pub fn last(&self) -> Option<LastAudit> {
        let interval_ms = self.interval_ms.load(Ordering::Relaxed);
        (interval_ms > 0).then(|| LastAudit {
            at: Timestamp::from_millis(self.at_ms.load(Ordering::Relaxed)),
            broken: self.broken.load(Ordering::Relaxed),
            interval_ms,
        })
    }
}
