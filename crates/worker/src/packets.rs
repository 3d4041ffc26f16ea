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
/// Packets that are read and closed together.
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
    /// Behind which packet the next run goes on: those that cannot be closed, in a partition that is halted for
    /// example, hold up no others.
    after: Option<CampaignId>,
}

impl PacketCloser {
    /// When it looks for packets.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Closes what this ledger has as claimed, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self {
            ledger,
            engine,
            after: None,
        }
    }

    /// Packets that are to be closed.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn found(&self) -> Result<Vec<CampaignId>, PacketError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(after).await?;
            after = next_page(&page);
            all.extend(page);
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Closes every packet that can be closed, and returns how many there were. One that is closed and not settled yet
    /// is closed again, which changes nothing.
    ///
    /// # Errors
    /// When the ledger does not answer, or the first packet that the engine has not closed; the others are closed.
    pub async fn close_all(&self) -> Result<usize, PacketError> {
        let packets = self.found().await?;
        let mut failed = None;
        for some in packets.chunks(PACKETS_MAX as usize) {
            failed = failed.or(self.close(some).await.err());
        }
        failed.map_or(Ok(packets.len()), Err)
    }

    /// The first packets, or those behind this one.
    async fn page(&self, after: Option<CampaignId>) -> Result<Vec<CampaignId>, PacketError> {
        let found = self.ledger.claimed_packets(after, PACKETS_MAX).await;
        found.map_err(PacketError::Ledger)
    }

    /// Closes these, all at once.
    async fn close(&self, packets: &[CampaignId]) -> Result<(), PacketError> {
        let submit = |campaign: &CampaignId| {
            let (campaign, action) = (*campaign, CampaignAction::Close);
            let closing = self.engine.submit(Command::Act { campaign, action });
            (campaign, closing)
        };
        let closing: Vec<_> = packets.iter().map(submit).collect();
        let mut failed = None;
        for (campaign, closed) in closing {
            if let Err(error) = closed.await {
                failed.get_or_insert(PacketError::Engine(campaign, error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Closes those of one page.
    async fn close_some(&mut self) -> Result<(), PacketError> {
        let after = self.after.take();
        let page = self.page(after).await?;
        self.after = next_page(&page);
        self.close(&page).await
    }
}

/// Behind which packet the next page begins, if there may be one.
fn next_page(page: &[CampaignId]) -> Option<CampaignId> {
    page.last()
        .copied()
        .filter(|_| page.len() == PACKETS_MAX as usize)
}

impl Reconciler for PacketCloser {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.close_some().await {
            Ok(()) => Ok(Next::Wait),
            Err(error) => Err(Stuck(error.to_string())),
        }
    }
}
