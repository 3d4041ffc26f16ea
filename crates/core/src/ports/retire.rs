//! Trait of engines that evict closed campaigns.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{EngineError, EventLog, Ledger};
use crate::event::PartitionId;

/// Result of one eviction step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetireResult {
    /// Evicted campaigns, or shards of them.
    pub campaigns: u64,
    /// Whether more campaigns may be evicted at once.
    pub more: bool,
}

/// An engine that evicts campaigns some time after they close. A request for an evicted campaign reloads it from the
/// ledger. Callers observe no difference.
#[async_trait]
pub trait RetireEngine: EventLog {
    /// Sets the ledger from which evicted campaigns are reloaded. A process calls it if the engine's state is shared
    /// with processes that evict campaigns.
    fn recall_from(&self, ledger: Arc<dyn Ledger>);

    /// Whether this process evicts campaigns of a partition, from now on for `lease`. If not, another process may. Two
    /// processes that do so at once do no harm.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn leads_retiring(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError>;

    /// Evicts some campaigns of a partition, with all their data, if they are settled and have been closed for the
    /// minimum time.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn retire(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RetireResult, EngineError>;
}
