//! Staging of shares: between batches, writes the shares of campaigns with many shares, slice by slice, and then enters
//! the campaigns.
//!
//! Architecture invariant: before a campaign is entered, the file contains nothing of it but its shares, under a
//! reserved `ref`. So nothing is visible if the work is interrupted. The remaining shares are deleted later.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::ports::EngineError;

use super::{Writer, decided_task::DecidedTask};
use crate::{
    error::DataFileError, job::LedgerJob as _, ledger::preparations,
    new_campaign_ids::NewCampaignIds, task::WriterTask,
};

/// Maximum shares of waiting campaigns: about a hundred large packets, and about 240 MB with the copies of their
/// callers. Further campaigns are refused.
const WAITING_SHARES_MAX: u64 = 10_000_000;
/// Time that the writer spends on waiting campaigns before it stops. It then refuses the rest.
const END_MAX: Duration = Duration::from_secs(5);

/// Campaigns whose shares are written before they are entered.
pub(super) struct ShareStaging {
    /// In order of arrival. `ref`s are reserved only for the first request.
    waiting: VecDeque<Box<NewCampaignIds>>,
    shares: u64,
    /// Whether `ref`s are reserved for the first request.
    begun: bool,
    /// Whether the file may contain abandoned shares.
    remains: bool,
}

impl Default for ShareStaging {
    /// Assumes that an opened file contains abandoned shares.
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            shares: 0,
            begun: false,
            remains: true,
        }
    }
}

impl ShareStaging {
    /// Queues campaigns, unless too many wait.
    pub(super) fn add(&mut self, campaigns: Box<NewCampaignIds>) {
        let shares = self.shares + campaigns.shares();
        if shares > WAITING_SHARES_MAX && !self.waiting.is_empty() {
            WriterTask::Enter(campaigns).refuse(&EngineError::Overloaded);
            return;
        }
        self.shares = shares;
        self.waiting.push_back(campaigns);
    }

    pub(super) fn has_work(&self) -> bool {
        self.remains || !self.waiting.is_empty()
    }

    /// Removes and returns the first request. If its shares were begun, they count as abandoned.
    fn pop(&mut self) -> Option<Box<NewCampaignIds>> {
        let first = self.waiting.pop_front()?;
        self.shares -= first.shares();
        self.remains |= std::mem::take(&mut self.begun);
        Some(first)
    }

    /// Refuses all waiting campaigns.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        self.remains = true; // A failed commit may have been stored.
        while let Some(campaigns) = self.pop() {
            campaigns.answer(Err(error));
        }
    }
}

impl Writer {
    /// If it is time, writes the next slice of shares, and enters the campaigns once all are written.
    pub(super) fn prepare(&mut self) {
        if self.repair_at.is_some() || !self.preparing.has_work() || !self.pace.may_prepare() {
            return;
        }
        let started = Instant::now();
        self.prepare_slice();
        self.pace.prepared(started.elapsed());
    }

    fn prepare_slice(&mut self) {
        let limit = self.pace.shares();
        if self.preparing.remains && !self.preparing.begun {
            match self.remove_staged_shares(limit) {
                Ok(()) => {}
                Err(error) if error.is_io() => self.stop(&error),
                Err(error) => {
                    let reason = error.chain();
                    tracing::error!(
                        reason,
                        "shares of packets that do not exist stay in the file"
                    );
                    self.preparing.remains = false;
                }
            }
            return;
        }
        match self.write_shares(limit) {
            Ok(true) => self.enter_first(),
            Ok(false) => {}
            Err(error) if error.is_io() => self.stop(&error),
            Err(error) => {
                if let Some(campaigns) = self.preparing.pop() {
                    campaigns.fail(error);
                }
            }
        }
    }

    /// Deletes some of the abandoned shares.
    fn remove_staged_shares(&mut self, limit: u32) -> Result<(), DataFileError> {
        let Some(campaign_ref) = preparations::first(&self.conn)? else {
            self.preparing.remains = false;
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        let _commit = shared.under_way.begin();
        let tx = self.conn.begin()?;
        preparations::delete_prepared_shares(&tx, campaign_ref, limit)?;
        self.watch.commit(&self.conn, tx)
    }

    /// Writes some shares of the first request. Returns whether all are written.
    fn write_shares(&mut self, limit: u32) -> Result<bool, DataFileError> {
        let begun = self.preparing.begun;
        let Some(campaigns) = self.preparing.waiting.front_mut() else {
            return Ok(false);
        };
        if !begun && !campaigns.is_awaited() {
            // Nothing of it is written, and its caller got the answer that the result is unknown.
            drop(self.preparing.pop());
            return Ok(false);
        }
        let shared = Arc::clone(&self.shared);
        let commit = shared.under_way.begin();
        if !begun && !campaigns.foresee(&self.conn, self.clock.now())? {
            drop(commit);
            if let Some(campaigns) = self.preparing.pop() {
                campaigns.answer_as_foreseen();
            }
            return Ok(false);
        }
        commit.gets_on();
        let tx = self.conn.begin()?;
        if !begun {
            campaigns.reserve(&tx)?;
        }
        let is_written = campaigns.write(&tx, limit)?;
        commit.gets_on();
        self.watch.commit(&self.conn, tx)?;
        self.preparing.begun = true;
        Ok(is_written)
    }

    /// Enters the first request: from now on its campaigns exist.
    fn enter_first(&mut self) {
        if let Some(campaigns) = self.preparing.pop() {
            self.commit_and_answer(self.clock.now(), &mut vec![DecidedTask::Ledger(campaigns)]);
        }
    }

    /// Enters the waiting campaigns before the writer stops, for at most [`END_MAX`]. If the queue is aborted, refuses
    /// them.
    pub(super) fn end_preparing(&mut self) {
        self.pace.idle(); // // no claim waits for a slice
        let until = Instant::now() + END_MAX;
        while self.repair_at.is_none() && !self.preparing.waiting.is_empty() {
            if self.shared.queue.is_aborted() || Instant::now() >= until {
                self.preparing.refuse_all(&EngineError::Stopping);
            } else {
                self.prepare_slice();
            }
        }
    }
}

#[cfg(test)]
mod tests;
