//! `[claim_log]`

use serde::Deserialize;

use super::UsageError;

/// `[claim_log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct ClaimLogConfig {
    pub file: String,
    pub refusals_ratio: f64,
    pub users: bool,
    pub queue_max: usize,
}

impl ClaimLogConfig {
    /// Checks the values beyond their types.
    ///
    /// # Errors
    /// [`UsageError`] that names the key.
    pub fn check(&self) -> Result<(), UsageError> {
        if !(0.0..=1.0).contains(&self.refusals_ratio) {
            return Err(UsageError::new(
                "claim_log.refusals_ratio must be 0 up to 1",
            ));
        }
        match self.queue_max {
            0 => Err(UsageError::new("claim_log.queue_max must be at least 1")),
            _ => Ok(()),
        }
    }
}
