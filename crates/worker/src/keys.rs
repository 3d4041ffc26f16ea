//! Forgets idempotency keys that are older than they are kept.

use std::{sync::Arc, time::Duration};

use qiang_core::ports::{Clock, Ledger, LedgerError};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often old keys are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Keys that are forgotten in one transaction: nobody waits for long behind it.
const KEYS_MAX: u32 = 500;

/// Forgets old keys of a ledger.
pub struct KeyPurger {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    kept_ms: i64,
}

impl KeyPurger {
    /// When it looks for old keys.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Forgets keys of this ledger so many milliseconds after their first use.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, kept_ms: u64) -> Self {
        Self {
            ledger,
            clock,
            kept_ms: i64::try_from(kept_ms).unwrap_or(i64::MAX),
        }
    }

    /// Forgets up to a few hundred keys, the oldest first; returns how many, and whether there may be more.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn purge(&self) -> Result<(u64, bool), LedgerError> {
        let before = self.clock.now().plus_millis(self.kept_ms.saturating_neg());
        let purged = self.ledger.purge_keys(before, KEYS_MAX).await?;
        Ok((purged, purged >= u64::from(KEYS_MAX)))
    }
}

impl Reconciler for KeyPurger {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.purge().await {
            Ok((_, true)) => Ok(Next::Again),
            Ok((_, false)) => Ok(Next::Wait),
            Err(error) => Err(Stuck(format!(
                "old idempotency keys are not forgotten: {error}"
            ))),
        }
    }
}
