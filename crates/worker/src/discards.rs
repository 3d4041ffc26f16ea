//! Discards grants that the ledger refused, and restocks their units.
//!
//! An operator requests each discard, and the ledger records the request first. The engine then restocks the units as
//! for any order: it cancels a held order, and returns a paid one. An order that was already undone stays. That step is
//! an entry of the log, and enters quarantine after the grant. Then the ledger marks both as discarded in one
//! transaction, and the entries that waited for them are settled. Each step may be repeated, and the next run resumes
//! an interrupted discard.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Command, Refusal},
    event::{Event, PartitionId, Seq},
    id::{CampaignId, OrderId, UserId},
    order::OrderState,
    ports::{Discard, Engine, EngineError, Ledger, LedgerError},
};

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for discards.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum discards per run.
const DISCARDS_MAX: u32 = 256;
/// Maximum entries per page.
const PAGE_MAX: u32 = 500;

/// Reason why a grant is not discarded yet.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// The ledger did not answer, or refused.
    #[error("the ledger cannot discard a grant: {0}")]
    Ledger(#[from] LedgerError),
    /// The engine did not restock the units.
    #[error("cannot restock entry {seq} of partition {}: {error}", partition.0)]
    Engine {
        /// The partition.
        partition: PartitionId,
        /// Position of the grant.
        seq: Seq,
        /// Error of the engine.
        error: EngineError,
    },
    /// The engine has no such order, or has it for another user.
    #[error(
        "cannot discard entry {seq} of partition {}: the engine lacks the order, run qiang reconcile", partition.0
    )]
    NoOrder {
        /// The partition.
        partition: PartitionId,
        /// Position of the grant.
        seq: Seq,
    },
}

/// Discards grants in an engine and its ledger.
pub struct Discarder {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
}

impl Discarder {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates a discarder for the requests in this ledger and the grants of this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self { ledger, engine }
    }

    /// Grants that must be discarded, up to the limit of one run.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn found(&self) -> Result<Vec<Discard>, DiscardError> {
        Ok(self.ledger.discards(DISCARDS_MAX).await?)
    }

    /// Advances every discard as far as possible. Returns the number of discards and the number of completed ones. The
    /// next run completes discards whose last step is not settled yet.
    ///
    /// # Errors
    /// If the ledger does not answer, or the first grant that cannot be discarded. The others are still discarded.
    pub async fn discard_all(&self) -> Result<(usize, usize), DiscardError> {
        let (found, mut done, mut failed) = (self.found().await?, 0, None);
        for discard in &found {
            match self.discard(discard).await {
                Ok(is_done) => done += usize::from(is_done),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok((found.len(), done)), Err)
    }

    /// Discards a grant. Returns false while the ledger does not have the step that restocked the units.
    async fn discard(&self, discard: &Discard) -> Result<bool, DiscardError> {
        let (partition, seq) = (discard.partition, discard.entry.seq);
        self.give_back(discard).await?;
        if !self.ledger.discard(partition, seq).await? {
            return Ok(false);
        }
        self.redrive(partition, discard.entry.campaign).await?;
        self.ledger.end_discard(partition, seq).await?;
        tracing::warn!(partition = partition.0, seq, "refused grant discarded");
        Ok(true)
    }

    /// Makes the engine restock the units, if the order still has them.
    async fn give_back(&self, discard: &Discard) -> Result<(), DiscardError> {
        let (partition, seq) = (discard.partition, discard.entry.seq);
        let no_order = DiscardError::NoOrder { partition, seq };
        let Event::Granted { number, user, .. } = &discard.entry.event else {
            return Err(no_order);
        };
        let (campaign, number) = (discard.entry.campaign, *number);
        let order = OrderId { campaign, number };
        let failed = |error| DiscardError::Engine {
            partition,
            seq,
            error,
        };
        let state = self.state(order, user).await.map_err(failed)?;
        let step = match state.ok_or(no_order)? {
            OrderState::Held => Command::Cancel { order, part: None },
            OrderState::Paid => Command::Return { order, part: None },
            OrderState::Cancelled | OrderState::Expired | OrderState::Returned => return Ok(()),
        };
        match self.engine.submit(step).await {
            // It was paid or has expired during this call. The next run reads its new state.
            Ok(_) | Err(EngineError::Refused(Refusal::Order(_))) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// State of an order in the engine, if the engine has it for this user.
    async fn state(&self, id: OrderId, user: &UserId) -> Result<Option<OrderState>, EngineError> {
        let view = self.engine.order(id).await?;
        let view = view.filter(|view| view.user == *user);
        Ok(view
            .and_then(|view| view.grant.order)
            .map(|order| order.state))
    }

    /// Settles the campaign's entries that are in quarantine because they waited. Entries that are refused, or wait for
    /// another entry, stay.
    async fn redrive(&self, partition: PartitionId, id: CampaignId) -> Result<(), LedgerError> {
        let mut after = partition
            .0
            .checked_sub(1)
            .map(|before| (PartitionId(before), Seq::MAX >> 1));
        loop {
            let page = self.ledger.list_quarantined(after, PAGE_MAX).await?;
            let rows = page.iter().take_while(|row| row.partition == partition);
            let mut last = None;
            for row in rows {
                let seq = row.entry.seq;
                last = Some((partition, seq));
                if row.entry.campaign != id || row.waits_for.is_none() {
                    continue;
                }
                match self.ledger.redrive(partition, seq).await {
                    Ok(_) | Err(LedgerError::Damaged { .. } | LedgerError::Overflow) => {}
                    Err(error) => return Err(error),
                }
            }
            match last {
                Some(_) => after = last,
                None => return Ok(()),
            }
        }
    }
}

impl Reconciler for Discarder {
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        match self.discard_all().await {
            Ok(_) => Ok(NextRun::Wait),
            Err(error) => Err(ReconcileError(error.to_string())),
        }
    }
}
