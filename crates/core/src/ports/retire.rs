//! What an engine offers from which campaigns go that are over.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{EngineError, EventLog, Ledger};
use crate::event::PartitionId;

/// What a step came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retired {
    /// Campaigns, or parts of them, that have left.
    pub campaigns: u64,
    /// Whether there may be more to do at once.
    pub more: bool,
}

/// An engine from which closed campaigns go after a while. Who asks for one has it brought back from the ledger, and
/// nothing tells it from one that never left.
#[async_trait]
pub trait RetireEngine: EventLog {
    /// Where campaigns are that have left. Whoever shares an engine's state with others that retire campaigns says it.
    fn recall_from(&self, ledger: Arc<dyn Ledger>);

    /// Whether this process is the one that has campaigns of a partition leave, from now on for so long. Another one
    /// may be. Two that are do no harm.
    ///
    /// # Errors
    /// When the engine does not answer.
    async fn leads_retiring(
        &self,
        partition: PartitionId,
        lease: Duration,
    ) -> Result<bool, EngineError>;

    /// Has some campaigns of a partition leave that have been closed for long enough and are settled, with everything
    /// about them.
    ///
    /// # Errors
    /// When the engine or the ledger does not answer.
    async fn retire(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Retired, EngineError>;
}
