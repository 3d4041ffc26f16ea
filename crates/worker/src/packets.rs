//! Closes red packets whose shares are all claimed. Shares never return to the packet, so nothing is left to wait for.
//!
//! The ledger lists them, because its rows are committed: a packet whose last grant could be lost must stay open.
//! Nothing is refunded. Closing reveals the server seed, and the engine has one live campaign less.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{CampaignAction, Command},
    id::CampaignId,
    ports::{Engine, EngineError, Ledger, LedgerError},
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for packets.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum packets that are read and closed together.
const PACKETS_MAX: u32 = 256;

/// Reason why a claimed packet is not closed.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The ledger did not list the packets.
    #[error("cannot list claimed red packets: {0}")]
    Ledger(LedgerError),
    /// The engine did not close a packet.
    #[error("cannot close red packet {0}: {1}")]
    Engine(CampaignId, EngineError),
}

/// Closes packets in an engine.
pub struct PacketCloser {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
    /// Packet after which the next run continues. So packets that cannot be closed, for example in a halted partition,
    /// delay no others.
    after: Option<CampaignId>,
}

impl PacketCloser {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates a closer for the claimed packets of this ledger, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self {
            ledger,
            engine,
            after: None,
        }
    }

    /// Packets that must be closed.
    ///
    /// # Errors
    /// If the ledger does not answer.
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

    /// Closes every packet that can be closed, and returns the number of packets. A packet whose close is not settled
    /// yet is closed again, which changes nothing.
    ///
    /// # Errors
    /// If the ledger does not answer, or the first packet that the engine has not closed; the others are closed.
    pub async fn close_all(&self) -> Result<usize, PacketError> {
        let packets = self.found().await?;
        let mut failed = None;
        for some in packets.chunks(PACKETS_MAX as usize) {
            failed = failed.or(self.close(some).await.err());
        }
        failed.map_or(Ok(packets.len()), Err)
    }

    /// The first packets, or the packets after this one.
    async fn page(&self, after: Option<CampaignId>) -> Result<Vec<CampaignId>, PacketError> {
        let found = self.ledger.claimed_packets(after, PACKETS_MAX).await;
        found.map_err(PacketError::Ledger)
    }

    /// Closes these packets concurrently.
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

    /// Closes the packets of one page.
    async fn close_some(&mut self) -> Result<(), PacketError> {
        let after = self.after.take();
        let page = self.page(after).await?;
        self.after = next_page(&page);
        self.close(&page).await
    }
}

/// Packet after which the next page begins, if there may be one.
fn next_page(page: &[CampaignId]) -> Option<CampaignId> {
    page.last()
        .copied()
        .filter(|_| page.len() == PACKETS_MAX as usize)
}

impl Reconciler for PacketCloser {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        match self.close_some().await {
            Ok(()) => Ok(NextRun::Wait),
            Err(error) => Err(ReconcileError(error.to_string())),
        }
    }
}
