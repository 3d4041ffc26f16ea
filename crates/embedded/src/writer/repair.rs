//! Fail-stop: stops granting when a commit fails, and repairs. Until then the queue refuses all requests.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use qiang_core::{book::Grace, ports::EngineError};

use super::{PARTITION, Writer};
use crate::{
    downtimes,
    error::DataFileError,
    file::{self, DataFileKind},
    ledger,
    log::EventRefs,
    rebuild::{self, RebuiltBook},
    task::WriterTask,
};

/// Interval between the repair attempts of a stopped engine.
const REPAIR_EVERY: Duration = Duration::from_millis(250);

impl Writer {
    pub(super) fn stop(&mut self, error: &DataFileError) {
        // A missing file is the cause of the other errors.
        let cause = self.watch.check(&self.conn).err();
        let error = cause.as_ref().unwrap_or(error);
        let reason = error.chain();
        tracing::error!(reason, "stopped granting: a commit failed");
        self.watch.save(&self.conn, error);
        self.entries.clear();
        self.shared.stop(&reason);
        self.parked.fail(&reason);
        self.unlisted.has_failed();
        // None of these tasks was decided.
        let unavailable = EngineError::unavailable(reason);
        self.absent.refuse_all(&unavailable);
        self.left_over.refuse_all(&unavailable);
        self.preparing.refuse_all(&unavailable);
        self.repair_at = Some(Instant::now() + REPAIR_EVERY);
    }

    /// Refuses the rest of a batch during which granting stopped.
    pub(super) fn refuse_all(&self, inbox: &mut Vec<WriterTask>) {
        let reason = self.shared.stopped.read().clone().unwrap_or_default();
        let unavailable = EngineError::Unavailable { reason };
        for task in inbox.drain(..) {
            task.refuse(&unavailable);
        }
    }

    pub(super) fn try_repair(&mut self) {
        let is_due = |repair_at: &mut Instant| *repair_at <= Instant::now();
        if self.repair_at.take_if(is_due).is_none() {
            return;
        }
        tracing::debug!("repair: reopening the file and rebuilding the book");
        match self.repair() {
            Ok(()) => {
                let head = self.shared.committed.load(Ordering::Acquire);
                tracing::warn!(head, "granting again");
            }
            Err(error) => {
                let reason = error.chain();
                tracing::debug!(reason, "not repaired yet");
                self.repair_at = Some(Instant::now() + REPAIR_EVERY);
            }
        }
    }

    /// Reopens the file, proves with a commit that it is writable, and rebuilds the book from it.
    pub(super) fn repair(&mut self) -> Result<(), DataFileError> {
        self.watch.check(&self.conn)?;
        self.conn = file::reopen_writer(&self.path, DataFileKind::Engine, &self.conn)?;
        let now = self.clock.now();
        self.alive = (Instant::now(), now);
        let tx = self.conn.begin()?;
        downtimes::end(&tx, now)?;
        self.watch.commit(&self.conn, tx)?;
        self.watch.check(&self.conn)?;
        let mut refs = EventRefs::default();
        // While granting was stopped, no payment report was accepted.
        let grace = Grace {
            since: self.clock.now(),
            ..self.shared.book.read().grace()
        };
        let RebuiltBook { book, places } = rebuild::rebuild(&self.conn, &mut refs, grace)?;
        self.refs = refs;
        self.known.clear();
        self.parked.replace(places);
        self.settled = ledger::settle::position(&self.conn, PARTITION)?;
        // A failed commit may have been stored.
        self.count_quarantine_at = Some(Instant::now());
        self.shared.resume(book);
        self.shared.positions.advance(PARTITION, self.settled);
        Ok(())
    }
}
