//! Fail-stop: stopping when a commit fails, turning everybody away meanwhile, and coming back.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use qiang_core::ports::EngineError;

use super::{PARTITION, Writer};
use crate::{
    error::StoreError,
    file::{self, FileKind},
    ledger,
    log::Refs,
    rebuild,
    task::Task,
};

/// How often a stopped engine looks whether the disk is well again.
const REPAIR_EVERY: Duration = Duration::from_millis(250);

/// Why and since when nothing is granted.
pub(super) struct Stopped {
    pub(super) reason: String,
    pub(super) repair_at: Instant,
}

impl Writer {
    /// Stops granting.
    pub(super) fn stop(&mut self, error: &StoreError) {
        let reason = error.chain();
        tracing::error!(reason, "stopped granting: a commit failed");
        self.entries.clear();
        self.shared.stop(&reason);
        for (_, answer, _) in self.parked.drain(..) {
            answer.send(Err(EngineError::Uncertain {
                reason: reason.clone(),
            }));
        }
        self.stopped = Some(Stopped {
            reason,
            repair_at: Instant::now() + REPAIR_EVERY,
        });
    }

    pub(super) fn turn_away(&self, inbox: &mut Vec<Task>) {
        let reason = match &self.stopped {
            Some(stopped) => stopped.reason.clone(),
            None => "settlement is stuck and the log may run no further ahead of it".to_owned(),
        };
        let unavailable = EngineError::Unavailable { reason };
        for task in inbox.drain(..) {
            task.refuse(&unavailable);
        }
    }

    pub(super) fn try_repair(&mut self) {
        let Some(stopped) = self
            .stopped
            .as_mut()
            .filter(|stopped| stopped.repair_at <= Instant::now())
        else {
            return;
        };
        stopped.repair_at = Instant::now() + REPAIR_EVERY;
        match self.repair() {
            Ok(()) => {
                self.stopped = None;
                tracing::warn!(
                    head = self.shared.committed.load(Ordering::Acquire),
                    "granting again"
                );
            }
            Err(error) => {
                tracing::debug!(reason = error.chain(), "not repaired yet");
                stopped_reason(&mut self.stopped, error.chain());
            }
        }
    }

    /// Opens the file anew, proves that it takes a commit, and makes the book again from what it holds.
    pub(super) fn repair(&mut self) -> Result<(), StoreError> {
        self.conn = file::reopen_writer(&self.path, FileKind::Engine)?;
        let probe = "INSERT OR REPLACE INTO probe (id, at) VALUES (0, ?1)";
        self.conn.execute(probe, [self.clock.now().as_millis()])?;
        let mut refs = Refs::default();
        let book = rebuild::rebuild(&self.conn, &mut refs)?;
        self.refs = refs;
        self.settled = ledger::settle::position(&self.conn, PARTITION)?;
        self.shared.resume(book);
        self.shared.settled.send_replace(self.settled);
        Ok(())
    }
}

fn stopped_reason(stopped: &mut Option<Stopped>, reason: String) {
    if let Some(stopped) = stopped {
        stopped.reason = reason;
    }
}
