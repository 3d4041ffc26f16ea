//! The audit as whoever serves operators asks for it.

use async_trait::async_trait;

use super::QuarantineCount;

/// What an audit has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    /// Whether every check holds that can be made.
    pub ok: bool,
    /// What was audited, in words.
    pub subject: String,
    /// Entries in the engine's log that are not settled yet; none where no engine was looked at.
    pub in_flight: Option<u64>,
    /// What is in quarantine.
    pub quarantine: QuarantineCount,
    /// All checks, in the order in which they were made.
    pub checks: Vec<AuditCheck>,
}

/// What one check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditCheck {
    /// Its name.
    pub name: &'static str,
    /// Whether nothing offends; none for a check that cannot be made of what was audited.
    pub ok: Option<bool>,
    /// Why it cannot be made.
    pub not_applicable: Option<&'static str>,
    /// How many rows it looked at.
    pub examined: u64,
    /// What offends, a line each: the first of them.
    pub offending: Vec<String>,
    /// How many offend.
    pub offending_total: u64,
}

/// Proves the invariants again from the rows of what a process works on, while it works. It only reads.
#[async_trait]
pub trait Auditor: Send + Sync + 'static {
    /// Audits everything as of one moment.
    ///
    /// # Errors
    /// Why it could not be read to the end, without secrets.
    async fn audit(&self) -> Result<AuditReport, String>;
}
