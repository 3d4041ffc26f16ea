//! Audit for operators.

use async_trait::async_trait;

use super::QuarantineCount;

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
