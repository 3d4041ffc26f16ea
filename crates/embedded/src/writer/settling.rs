//! Settlement between batches.

use std::time::{Duration, Instant};

use qiang_core::{
    campaign::AckLevel,
    ports::{Claimed, EngineError},
};

use super::{CHECKPOINT_ENTRIES, PARTITION, Writer};
use crate::{error::StoreError, ledger, log, pace::BACKLOG_MAX};

/// How long settlement rests after an entry that the books refuse.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Writer {
    pub(super) fn may_settle(&self) -> bool {
        let backlog = self.backlog();
        let due = self
            .settle_again_at
            .is_none_or(|again_at| again_at <= Instant::now());
        backlog > 0 && due && (self.pace.may_settle(backlog) || !self.parked.is_empty())
    }

    pub(super) fn settling_goes_on(&mut self) {
        if self.settle_again_at.take().is_some() {
            *self.shared.stuck.write() = None;
            tracing::warn!("settling again");
        }
    }

    /// An entry that the books refuse does not make the log less true: granting goes on, up to the bound of unsettled
    /// entries, and the operator is told.
    pub(super) fn settling_is_stuck(&mut self, error: &StoreError) {
        let reason = error.chain();
        if self.settle_again_at.is_none() {
            tracing::error!(reason, after = self.settled, "settlement is stuck");
        }
        for (_, answer, _) in self.parked.drain(..) {
            answer.send(Err(EngineError::Uncertain {
                reason: reason.clone(),
            }));
        }
        *self.shared.stuck.write() = Some(reason);
        self.settle_again_at = Some(Instant::now() + SETTLE_AGAIN_AFTER);
    }

    /// Settlement is stuck, and the log has run ahead of the ledger as far as it may.
    pub(super) fn settlement_is_too_far_behind(&self) -> bool {
        self.settle_again_at.is_some() && self.backlog() > BACKLOG_MAX
    }

    pub(super) fn settle_slice(&mut self) -> Result<(), StoreError> {
        let slice = self.pace.slice();
        let Self { conn, refs, .. } = self;
        let mut entries = Vec::with_capacity(slice);
        log::read(conn, refs, self.settled, slice, |entry| entries.push(entry))?;
        let tx = conn.unchecked_transaction()?;
        let settled = ledger::settle::settle(&tx, refs, PARTITION, &entries)?;
        tx.commit()?;
        self.settled = settled;
        self.shared.settled.send_replace(settled);
        while self
            .parked
            .front()
            .is_some_and(|parked| parked.0 <= settled)
        {
            if let Some((_, answer, outcome)) = self.parked.pop_front() {
                answer.send(Ok(Claimed {
                    outcome,
                    ack: AckLevel::Ledger,
                }));
            }
        }
        Ok(())
    }

    /// Carries the write-ahead log into the file while nobody waits for it. Left alone, SQLite does so once that log
    /// has grown to its bound, which would be in the middle of a rush.
    pub(super) fn checkpoint_in_the_quiet(&mut self) {
        if !self.pace.is_idle()
            || self.settled.saturating_sub(self.checkpointed) < CHECKPOINT_ENTRIES
        {
            return;
        }
        self.checkpointed = self.settled;
        let done = self
            .conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = done {
            // Nothing is lost by it, and if the disk is the cause, the next commit will say so.
            tracing::debug!(%error, "the write-ahead log could not be carried into the file");
        }
    }

    /// Before going down: whoever waits for the ledger gets it.
    pub(super) fn settle_parked(&mut self) {
        while self.stopped.is_none() && !self.parked.is_empty() {
            if let Err(error) = self.settle_slice() {
                self.settling_is_stuck(&error);
            }
        }
    }
}
