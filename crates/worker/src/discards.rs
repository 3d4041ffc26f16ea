//! Discards: a grant that the ledger refused is taken back, and its units are sold again.
//!
//! The ledger says which ones: an operator asked for it, and that is written down first. The engine gives the units
//! back as it does for any order: one that is held is cancelled, a paid one is returned, and one that has given its
//! units back is left alone. That step is an entry of the log, and goes into quarantine behind the grant. Then the
//! ledger takes both out of the way together, and what waited for them is settled. Each step may be repeated, and the
//! next run goes on where one was broken off.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Command, Refusal},
    event::{Event, PartitionId, Seq},
    id::{CampaignId, OrderId, UserId},
    order::OrderState,
    ports::{Discard, Engine, EngineError, Ledger, LedgerError},
};

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often discards are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Discards of one run.
const DISCARDS_MAX: u32 = 256;
/// Entries that are read at a time.
const PAGE_MAX: u32 = 500;

/// Why a grant is not discarded yet.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// The ledger did not answer, or refused.
    #[error("the ledger does not discard what was refused: {0}")]
    Ledger(#[from] LedgerError),
    /// The engine did not give the units back.
    #[error("entry {seq} of partition {}: the units are not back: {error}", partition.0)]
    Engine {
        /// The partition.
        partition: PartitionId,
        /// The grant's place.
        seq: Seq,
        /// What the engine said.
        error: EngineError,
    },
    /// The engine has no such order, or has it for somebody else.
    #[error(
        "entry {seq} of partition {}: the engine does not have the order: see `qiang reconcile`", partition.0
    )]
    NoOrder {
        /// The partition.
        partition: PartitionId,
        /// The grant's place.
        seq: Seq,
    },
}

/// Discards grants, in an engine and its ledger.
pub struct Discarder {
    ledger: Arc<dyn Ledger>,
    engine: Arc<dyn Engine>,
}

impl Discarder {
    /// When it looks for discards.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Discards what this ledger is asked to, in this engine.
    #[must_use]
    pub fn new(ledger: Arc<dyn Ledger>, engine: Arc<dyn Engine>) -> Self {
        Self { ledger, engine }
    }

    /// Grants that are to be discarded, at most so many as a run discards.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn found(&self) -> Result<Vec<Discard>, DiscardError> {
        Ok(self.ledger.discards(DISCARDS_MAX).await?)
    }

    /// Discards every grant as far as it can be, and returns how many there were, and how many are done. One whose last
    /// step is not settled yet is left for the next run.
    ///
    /// # Errors
    /// When the ledger does not answer, or the first grant that cannot be discarded; the others are.
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

    /// Discards a grant; false while the ledger does not have the step by which the units came back.
    async fn discard(&self, discard: &Discard) -> Result<bool, DiscardError> {
        let (partition, seq) = (discard.partition, discard.entry.seq);
        self.give_back(discard).await?;
        if !self.ledger.discard(partition, seq).await? {
            return Ok(false);
        }
        self.redrive(partition, discard.entry.campaign).await?;
        self.ledger.end_discard(partition, seq).await?;
        tracing::warn!(partition = partition.0, seq, "a refused grant is discarded");
        Ok(true)
    }

    /// Has the engine take the units back, if the order has them.
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
            OrderState::Held => Command::Cancel { order },
            OrderState::Paid => Command::Return { order, part: None },
            OrderState::Cancelled | OrderState::Expired | OrderState::Returned => return Ok(()),
        };
        match self.engine.submit(step).await {
            // It was paid or has expired meanwhile: the next run sees what it is.
            Ok(_) | Err(EngineError::Refused(Refusal::Order(_))) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Where an order stands in the engine, if that has it for this user.
    async fn state(&self, id: OrderId, user: &UserId) -> Result<Option<OrderState>, EngineError> {
        let view = self.engine.order(id).await?;
        let view = view.filter(|view| view.user == *user);
        Ok(view
            .and_then(|view| view.grant.order)
            .map(|order| order.state))
    }

    /// Settles what of a campaign is in quarantine because it waited. What is refused, or waits for another entry,
    /// stays.
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
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        match self.discard_all().await {
            Ok(_) => Ok(Next::Wait),
            Err(error) => Err(Stuck(error.to_string())),
        }
    }
}
