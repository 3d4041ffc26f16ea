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
    settlement::{QuarantineBisect, check_refused},
};
use rusqlite::Connection;

use super::{CHECKPOINT_ENTRIES, PARTITION, Writer};
use crate::{
    error::DataFileError,
    ledger::{self, known::KnownCampaigns, settle},
    log,
    task::WriterTask,
};

/// Pause of settlement after a failure.
const SETTLE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Interval between two counts of a quarantine that is not empty.
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

    /// Records that settlement is stuck. The log stays valid, so granting continues up to the bound of unsettled
    /// entries, and `stuck` has the reason.
    pub(super) fn settling_is_stuck(&mut self, error: &DataFileError) {
        let reason = error.chain();
        if self.settle_again_at.is_none() {
            tracing::error!(reason, after = self.settled, "settlement is stuck");
        }
        self.parked.fail(&reason);
        *self.shared.stuck.write() = Some(reason);
        self.settle_again_at = Some(Instant::now() + SETTLE_AGAIN_AFTER);
    }

    /// Refuses claims and readiness probes if settlement is stuck and the backlog is above its bound. Commands on
    /// existing grants continue up to a second bound. Tasks that may help settlement always continue.
    pub(super) fn refuse_too_far_behind(&mut self, inbox: &mut Vec<WriterTask>) {
        let backlog = self.backlog();
        if self.settle_again_at.is_none() || !self.pace.is_behind(backlog) {
            return;
        }
        let is_far_behind = self.pace.is_far_behind(backlog);
        let reason = "settlement is stuck and the log may run no further ahead of it";
        let unavailable = EngineError::unavailable(reason);
        let is_refused = |task: &mut WriterTask| match task {
            WriterTask::Claim(..) | WriterTask::Claims(_) | WriterTask::Probe(_) => true,
            WriterTask::Command(..) | WriterTask::Enter(_) => is_far_behind,
            WriterTask::Ledger(job) => is_far_behind && job.entries() == 0,
            WriterTask::Read(_) | WriterTask::Recalled(..) => false,
        };
        for task in inbox.extract_if(.., is_refused) {
            task.refuse(&unavailable);
        }
        if is_far_behind {
            self.left_over.refuse_all(&unavailable);
        }
    }

    /// Whether due times may still append to the log.
    pub(super) fn may_tick(&self) -> bool {
        self.settle_again_at.is_none() || !self.pace.is_far_behind(self.backlog())
    }

    /// Settles the next entries of the log. The first refused one is quarantined; the entries after it wait for the
    /// next slice.
    pub(super) fn settle_slice(&mut self) -> Result<(), DataFileError> {
        let slice = self.pace.slice();
        let mut entries = Vec::with_capacity(slice);
        log::read(&self.conn, &mut self.refs, self.settled, slice, |entry| {
            entries.push(entry)
        })?;
        let mut bisect = QuarantineBisect::new(&entries);
        loop {
            let part = bisect.part();
            let settle =
                |conn: &_, known: &mut _| settle::settle_knowing(conn, PARTITION, part, known);
            match self.advance(settle) {
                Ok(settled) if bisect.settled(settled) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.is_io() => return Err(error),
                Err(error) => {
                    let refused = bisect
                        .failed(error.into())
                        .map_err(DataFileError::Refused)?;
                    if let Some((entry, reason)) = refused {
                        return self.quarantine(entry, &reason);
                    }
                }
            }
        }
    }

    /// Quarantines the entry after the settled position.
    fn quarantine(&mut self, entry: &Entry, reason: &str) -> Result<(), DataFileError> {
        let count = ledger::quarantine::count(&self.conn, PARTITION)?;
        check_refused(count, reason).map_err(DataFileError::Refused)?;
        let now = self.clock.now();
        // Grants that wait for this entry are answered from the quarantine.
        self.count_quarantine_at = Some(Instant::now());
        self.advance(|conn, _| settle::quarantine(conn, now, PARTITION, entry, reason))?;
        tracing::error!(
            entry = entry.seq,
            reason,
            "an entry cannot be settled and is quarantined"
        );
        Ok(())
    }

    /// Runs work in a transaction that moves the settled position, and answers the grants that waited for it.
    fn advance(
        &mut self,
        work: impl FnOnce(&Connection, &mut KnownCampaigns) -> Result<Seq, DataFileError>,
    ) -> Result<Seq, DataFileError> {
        let shared = Arc::clone(&self.shared);
        let commit = shared.under_way.begin();
        let tx = self.conn.begin()?;
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

    /// Answers a grant whose entry is at or before the settled position. It is in the ledger unless it is quarantined.
    pub(super) fn in_ledger(&self, outcome: Outcome) -> Result<Claimed, EngineError> {
        // Only this writer quarantines entries, so an empty quarantine needs no query.
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

    /// Whether the quarantine is known to be empty.
    pub(super) fn nothing_is_quarantined(&self) -> bool {
        self.count_quarantine_at.is_none()
    }

    /// Counts the quarantined entries, if it is time.
    pub(super) fn count_quarantine(&mut self) {
        let now = Instant::now;
        if self.count_quarantine_at.is_none_or(|at| at > now()) {
            return;
        }
        let counted = ledger::quarantine::count(&self.conn, PARTITION);
        if let Ok(count) = counted {
            *self.shared.quarantined.write() = count;
        }
        // A failure here also fails settlement, which reports it.
        let is_empty = matches!(counted, Ok(count) if count == QuarantineCount::default());
        self.count_quarantine_at = (!is_empty).then(|| now() + COUNT_QUARANTINE_EVERY);
    }

    /// Makes a checkpoint of the write-ahead log while the writer is idle. SQLite makes one when the log reaches its
    /// bound, but that would be at peak load.
    pub(super) fn checkpoint_in_the_quiet(&mut self) {
        if self.repair_at.is_some()
            || !self.pace.is_idle()
            || self.settled.saturating_sub(self.checkpointed) < CHECKPOINT_ENTRIES
        {
            return;
        }
        self.checkpointed = self.settled;
        if let Err(error) = self.watch.check(&self.conn) {
            self.stop(&error);
            return;
        }
        let done = self
            .conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = done {
            // No data is lost. If the disk is the cause, the next commit reports it.
            tracing::debug!(%error, "the checkpoint of the write-ahead log failed");
        }
    }

    /// Before the writer stops: settles the entries for which answers wait.
    pub(super) fn settle_parked(&mut self) {
        while self.repair_at.is_none() && !self.parked.is_empty() {
            if let Err(error) = self.settle_slice() {
                self.settling_is_stuck(&error);
            }
        }
    }
}
