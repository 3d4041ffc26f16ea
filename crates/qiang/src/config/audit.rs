//! Configuration of scheduled audits.

use std::time::Duration;

use qiang_api::UsageError;
use serde::Deserialize;

/// `[audit]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct AuditConfig {
    pub interval_ms: u64,
}

impl AuditConfig {
    /// Shortest interval.
    const INTERVAL_MS_MIN: u64 = 60_000;

    /// Interval of audits; `None` if there are none.
    pub(crate) fn interval(&self) -> Option<Duration> {
        (self.interval_ms > 0).then(|| Duration::from_millis(self.interval_ms))
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        let min = Self::INTERVAL_MS_MIN;
        match (1..min).contains(&self.interval_ms) {
            true => Err(UsageError::new(format!(
                "audit.interval_ms must be 0, or {min} at least"
            ))),
            false => Ok(()),
        }
    }
}
