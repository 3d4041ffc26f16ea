//! Due times of large campaigns that are not in memory: their entries follow from the counters and the oldest held
//! orders, which are found by key.
//!
//! Architecture invariant: the rows have all entries of such a campaign. So its entries are appended and settled in one
//! transaction, and only once the whole log is settled. If the ledger refuses an entry, the transaction is rolled back,
//! and the campaigns are reloaded and ticked in memory.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use qiang_core::id::CampaignId;

use super::{PARTITION, Writer};
use crate::{cold_rows, error::DataFileError, ledger::settle, log, task::WriterTask};

/// Maximum entries of one transaction: some milliseconds. Claims get their turn between two of them.
const EVENTS_MAX: usize = 256;
/// Rows after which a transaction reads no further campaign. It reads up to 257 rows and all extended holds more, and
/// its counters count as [`ROWS_OF_CAMPAIGN`].
const ROWS_MAX: usize = 2 * EVENTS_MAX;
const ROWS_OF_CAMPAIGN: usize = 8;
/// Maximum wait for the settlement of the log. After it, the campaign is reloaded whole by the second reload thread.
const SETTLEMENT_WAIT_MAX: Duration = Duration::from_secs(5);

impl Writer {
    /// Whether large due campaigns can be ticked at once.
    pub(super) fn may_tick_absent(&self) -> bool {
        !self.absent.by_rows.is_empty() && self.backlog() == 0
    }

    /// Ticks large due campaigns, if the log is settled. Reloads campaigns that have waited for long.
    pub(super) fn tick_absent(&mut self) {
        if self.repair_at.is_some() || self.absent.by_rows.is_empty() {
            return;
        }
        let mut inbox = Vec::new();
        if self.may_tick_absent() {
            match self.tick_from_rows() {
                Ok(whole) => {
                    for id in whole {
                        self.send_for_due(id, &mut inbox);
                    }
                }
                Err(error) => self.stop(&error),
            }
        } else {
            self.send_for_overdue(&mut inbox);
        }
        if self.repair_at.is_some() {
            return;
        }
        self.release_ticks(&mut inbox);
        self.put_back(inbox);
    }

    fn send_for_overdue(&mut self, inbox: &mut Vec<WriterTask>) {
        while let Some((id, since)) = self.absent.by_rows.first()
            && since.elapsed() >= SETTLEMENT_WAIT_MAX
        {
            self.absent.by_rows.pop();
            self.send_for_due(id, inbox);
        }
    }

    /// Puts tasks that wait no longer before those of the next batch.
    pub(super) fn put_back(&mut self, mut tasks: Vec<WriterTask>) {
        match self.repair_at {
            Some(_) => self.refuse_all(&mut tasks),
            None => self.absent.ready.append(&mut tasks),
        }
    }

    /// Runs one transaction. Returns the campaigns that must be reloaded whole.
    fn tick_from_rows(&mut self) -> Result<Vec<CampaignId>, DataFileError> {
        let now = self.clock.now();
        self.notice_pause();
        if self.repair_at.is_some() {
            return Ok(Vec::new());
        }
        let shared = Arc::clone(&self.shared);
        let (mut whole, mut ticked) = (Vec::new(), Vec::new());
        debug_assert!(self.entries.is_empty(), "a batch leaves no entries");
        let mut rows = 0;
        while self.entries.len() < EVENTS_MAX
            && rows < ROWS_MAX
            && let Some(id) = self.absent.by_rows.pop()
        {
            if shared.book.read().has(id) {
                continue;
            }
            if self.absent.waiting.contains_key(&id) {
                whole.push(id);
                continue;
            }
            let events_max = EVENTS_MAX - self.entries.len();
            match cold_rows::find_due(&self.conn, id, events_max + 1) {
                Ok(Some((excerpt, held))) => {
                    ticked.push(id);
                    rows += ROWS_OF_CAMPAIGN + held;
                    let mut book = shared.book.write();
                    book.tick_absent(now, excerpt, events_max, &mut self.entries);
                }
                Err(error) if error.is_io() => return Err(error),
                // The reload reports rows that contradict each other.
                Ok(None) | Err(_) => whole.push(id),
            }
        }
        if !self.commit_absent()? {
            whole.extend(ticked);
        }
        Ok(whole)
    }

    /// Appends and settles entries about campaigns that are not in memory, in one transaction. Returns false if the
    /// ledger refuses an entry: then nothing has happened, and the campaigns must be reloaded.
    pub(super) fn commit_absent(&mut self) -> Result<bool, DataFileError> {
        let Some(last) = self.entries.last().map(|entry| entry.seq) else {
            return Ok(true);
        };
        let shared = Arc::clone(&self.shared);
        let commit = shared.under_way.begin();
        let before = shared.committed.load(Ordering::Acquire);
        let tx = self.conn.begin()?;
        log::append(&tx, &mut self.refs, &self.entries)?;
        let settled = match settle::settle_knowing(&tx, PARTITION, &self.entries, &mut self.known) {
            Ok(settled) => settled,
            Err(error) if error.is_io() => return Err(error),
            Err(error) => {
                let reason = error.chain();
                tracing::warn!(
                    reason,
                    "campaigns are reloaded: the ledger refuses an entry"
                );
                drop(tx);
                self.known.clear();
                for entry in self.entries.drain(..) {
                    self.refs.forget(entry.campaign);
                }
                shared.book.write().undo_absent(before);
                return Ok(false);
            }
        };
        commit.gets_on();
        self.watch.commit(&self.conn, tx)?;
        drop(commit);
        self.shared.committed.store(last, Ordering::Release);
        for entry in self.entries.drain(..) {
            self.refs.forget(entry.campaign);
        }
        self.settled = settled;
        self.unlisted.has_changed();
        self.shared.positions.advance(PARTITION, settled);
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
