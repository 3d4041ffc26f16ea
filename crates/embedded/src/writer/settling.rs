//! Settlement between batches.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    campaign::AckLevel,
    event::{Entry, Seq},
    outcome::Outcome,
    ports::{Claimed, EngineError, QuarantineCount},
    quarantine::GRANT_QUARANTINED,
    settlement::{Bisect, check_refused},
};
use rusqlite::Connection;

use super::{CHECKPOINT_ENTRIES, PARTITION, Writer};
use crate::{
    error::StoreError,
    file,
    ledger::{self, known::KnownCampaigns, settle},
    log,
    task::Task,
};

/// How long settlement rests after a failure.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often entries in quarantine are counted, while there are some.
const COUNT_QUARANTINE_EVERY: Duration = Duration::from_secs(1);

impl Writer {
    pub(super) fn may_settle(&self) -> bool {
        let backlog = self.backlog();
        let due = self
            .settle_again_at
            .is_none_or(|again_at| again_at <= Instant::now());
        backlog > 0 && due && self.pace.may_settle(backlog)
    }

    pub(super) fn settling_goes_on(&mut self) {
        if self.settle_again_at.take().is_some() {
            *self.shared.stuck.write() = None;
            tracing::warn!("settling again");
        }
    }

    /// A ledger that cannot be settled does not make the log less true: granting goes on, up to the bound of unsettled
    /// entries, and `stuck` says why.
    pub(super) fn settling_is_stuck(&mut self, error: &StoreError) {
        let reason = error.chain();
        if self.settle_again_at.is_none() {
            tracing::error!(reason, after = self.settled, "settlement is stuck");
        }
        self.parked.fail(&reason);
        *self.shared.stuck.write() = Some(reason);
        self.settle_again_at = Some(Instant::now() + SETTLE_AGAIN_AFTER);
    }

    /// Where settlement is stuck and the log has run ahead of the ledger as far as it may, refuses claims, and a
    /// readiness probe with them. What buyers and operators do about grants goes on, up to a second bound; what may
    /// help settlement, always.
    pub(super) fn refuse_too_far_behind(&mut self, inbox: &mut Vec<Task>) {
        let backlog = self.backlog();
        if self.settle_again_at.is_none() || !self.pace.is_behind(backlog) {
            return;
        }
        let is_far_behind = self.pace.is_far_behind(backlog);
        let reason = "settlement is stuck and the log may run no further ahead of it";
        let unavailable = EngineError::unavailable(reason);
        let is_refused = |task: &mut Task| match task {
            Task::Claim(..) | Task::Probe(_) => true,
            Task::Command(..) | Task::Enter(_) => is_far_behind,
            Task::Ledger(job) => is_far_behind && job.entries() == 0,
            Task::Read(_) | Task::Recalled(..) => false,
        };
        for task in inbox.extract_if(.., is_refused) {
            task.refuse(&unavailable);
        }
        if is_far_behind {
            self.left_over.refuse_all(&unavailable);
        }
    }

    /// Whether the time may still append to the log.
    pub(super) fn may_tick(&self) -> bool {
        self.settle_again_at.is_none() || !self.pace.is_far_behind(self.backlog())
    }

    /// Settles the next entries of the log. The first one that the ledger refuses goes into quarantine; what follows it
    /// is for the next slice.
    pub(super) fn settle_slice(&mut self) -> Result<(), StoreError> {
        let slice = self.pace.slice();
        let mut entries = Vec::with_capacity(slice);
        log::read(&self.conn, &mut self.refs, self.settled, slice, |entry| {
            entries.push(entry)
        })?;
        let mut bisect = Bisect::new(&entries);
        loop {
            let part = bisect.part();
            let settle =
                |conn: &_, known: &mut _| settle::settle_knowing(conn, PARTITION, part, known);
            match self.advance(settle) {
                Ok(settled) if bisect.settled(settled) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.is_io() => return Err(error),
                Err(error) => {
                    let refused = bisect.failed(error.into()).map_err(StoreError::Refused)?;
                    if let Some((entry, reason)) = refused {
                        return self.quarantine(entry, &reason);
                    }
                }
            }
        }
    }

    /// Puts the entry behind the position into quarantine.
    fn quarantine(&mut self, entry: &Entry, reason: &str) -> Result<(), StoreError> {
        let count = ledger::quarantine::count(&self.conn, PARTITION)?;
        check_refused(count, reason).map_err(StoreError::Refused)?;
        let now = self.clock.now();
        // Grants that wait for this entry are answered by what is in quarantine.
        self.count_quarantine_at = Some(Instant::now());
        self.advance(|conn, _| settle::quarantine(conn, now, PARTITION, entry, reason))?;
        tracing::error!(
            entry = entry.seq,
            reason,
            "an entry cannot be settled and is quarantined"
        );
        Ok(())
    }

    /// Does some work in a transaction that moves the position, and answers the grants that waited for it.
    fn advance(
        &mut self,
        work: impl FnOnce(&Connection, &mut KnownCampaigns) -> Result<Seq, StoreError>,
    ) -> Result<Seq, StoreError> {
        let shared = Arc::clone(&self.shared);
        let commit = shared.under_way.begin();
        let tx = file::begin(&self.conn)?;
        let settled = work(&tx, &mut self.known)?;
        commit.gets_on();
        self.watch.commit(&self.conn, tx)?;
        drop(commit);
        self.settled = settled;
        self.unlisted.has_changed();
        self.shared.positions.advance(PARTITION, settled);
        self.answer_settled();
        Ok(settled)
    }

    /// A grant whose entry is at or before the position: the ledger has it, unless it has refused it.
    pub(super) fn in_ledger(&self, outcome: Outcome) -> Result<Claimed, EngineError> {
        // Nobody else puts anything into quarantine: where nothing is, nothing is asked.
        let grant = outcome.grant().filter(|_| !self.nothing_is_quarantined());
        let quarantined = grant.map_or(Ok(false), |grant| {
            ledger::quarantine::has_grant(&self.conn, PARTITION, grant.campaign, grant.number)
        });
        let reason = match quarantined {
            Ok(false) => {
                let ack = AckLevel::Ledger;
                return Ok(Claimed { outcome, ack });
            }
            Ok(true) => GRANT_QUARANTINED.to_owned(),
            Err(error) => error.chain(),
        };
        Err(EngineError::Uncertain { reason })
    }

    /// Whether it is known that nothing is in quarantine.
    pub(super) fn nothing_is_quarantined(&self) -> bool {
        self.count_quarantine_at.is_none()
    }

    /// Counts the entries in quarantine, if it is time to.
    pub(super) fn count_quarantine(&mut self) {
        let now = Instant::now;
        if self.count_quarantine_at.is_none_or(|at| at > now()) {
            return;
        }
        let counted = ledger::quarantine::count(&self.conn, PARTITION);
        if let Ok(count) = counted {
            *self.shared.quarantined.write() = count;
        }
        // What fails here fails settlement too, which says so.
        let is_empty = matches!(counted, Ok(count) if count == QuarantineCount::default());
        self.count_quarantine_at = (!is_empty).then(|| now() + COUNT_QUARANTINE_EVERY);
    }

    /// Makes a checkpoint of the write-ahead log while nobody waits for it. SQLite does so by itself once that log has
    /// grown to its bound, which would be at peak load.
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
            tracing::debug!(%error, "the checkpoint of the write-ahead log failed");
        }
    }

    /// Before the writer stops: settles what answers wait for.
    pub(super) fn settle_parked(&mut self) {
        while self.repair_at.is_none() && !self.parked.is_empty() {
            if let Err(error) = self.settle_slice() {
                self.settling_is_stuck(&error);
            }
        }
    }
}
