//! Closes packets whose shares are all claimed: shares never come back, so that nothing is left to wait for.
//!
//! The ledger says which ones, because what it has is committed: a packet whose last grant could be lost goes on. There
//! is nothing to refund; the seed is shown, and the engine has one campaign less that is live.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Command},
    id::CampaignId,
    ports::{Engine, EngineError, Ledger, LedgerError},
};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often packets are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Packets that are closed in one run.
const PACKETS_MAX: u32 = 256;

/// Why not all packets are closed that could be.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The ledger did not list them.
    #[error("packets that are claimed cannot be listed: {0}")]
    Ledger(LedgerError),
    /// The engine did not close one.
    #[error("packet {0} is not closed: {1}")]
    Engine(CampaignId, EngineError),
}

/// Closes packets in an engine.
pub struct PacketCloser {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
}

impl PacketCloser {
    /// When it looks for packets.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Closes what this ledger has as claimed, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self { ledger, engine }
    }

    /// Packets that are to be closed, at most so many as a run closes.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn found(&self) -> Result<Vec<CampaignId>, PacketError> {
        let found = self.ledger.claimed_packets(PACKETS_MAX).await;
        found.map_err(PacketError::Ledger)
    }

    /// Closes every packet that can be closed, and returns how many there were. One that is closed and not settled yet
    /// is closed again, which changes nothing.
    ///
    /// # Errors
    /// When the ledger does not answer, or the first packet that the engine has not closed; the others are closed.
    pub async fn close_all(&self) -> Result<usize, PacketError> {
        let packets = self.found().await?;
        let mut failed = None;
        for campaign in &packets {
            let action = CampaignAction::Close;
            let close = Command::Act {
                campaign: *campaign,
                action,
            };
            if let Err(error) = self.engine.submit(close).await {
                failed.get_or_insert(PacketError::Engine(*campaign, error));
            }
        }
        failed.map_or(Ok(packets.len()), Err)
    }
}

impl Reconciler for PacketCloser {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.close_all().await {
            Ok(_) => Ok(Next::Wait),
            Err(error) => Err(Stuck(error.to_string())),
        }
    }
}
