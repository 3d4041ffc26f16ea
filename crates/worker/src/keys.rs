//! Deletes idempotency keys after their retention time.

use std::{sync::Arc, time::Duration};

use qiang_core::ports::{Clock, Ledger, LedgerError};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for old keys.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Maximum keys per transaction, so other writes do not wait long.
const KEYS_MAX: u32 = 500;

/// Deletes old idempotency keys of a ledger.
pub struct KeyPurger {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    kept_ms: i64,
}

impl KeyPurger {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates a purger that deletes a key `kept_ms` milliseconds after its first use.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, kept_ms: u64) -> Self {
        Self {
            ledger,
            clock,
            kept_ms: i64::try_from(kept_ms).unwrap_or(i64::MAX),
        }
    }

    /// Deletes a few hundred keys at most, oldest first. Returns their number, and whether there may be more.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn purge(&self) -> Result<(u64, bool), LedgerError> {
        let before = self.clock.now().plus_millis(self.kept_ms.saturating_neg());
        let purged = self.ledger.purge_keys(before, KEYS_MAX).await?;
        Ok((purged, purged >= u64::from(KEYS_MAX)))
    }
}

impl Reconciler for KeyPurger {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        match self.purge().await {
            Ok((_, true)) => Ok(NextRun::Again),
            Ok((_, false)) => Ok(NextRun::Wait),
            Err(error) => Err(ReconcileError(format!(
                "cannot delete old idempotency keys: {error}"
            ))),
        }
    }
}
