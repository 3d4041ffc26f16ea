//! Campaigns with many shares: between batches these are written, a slice at a time, and then the campaigns are
//! entered.
//!
//! Architecture invariant: before it is entered, nothing of a campaign is in the file but its shares, under a `ref`
//! that is reserved. So whatever happens in between, there is nothing that anybody sees; what is left is taken out
//! again.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::ports::EngineError;

use super::{Writer, batch::Decided};
use crate::{
    error::StoreError, file, job::LedgerJob as _, ledger::preparations,
    new_campaigns::NewCampaigns, task::Task,
};

/// Shares of campaigns that wait, past which no more of them are taken: some hundred large packets, and some 240 MB
/// with the copies that their callers keep.
const WAITING_SHARES_MAX: u64 = 10_000_000;
/// How long the writer goes on with them before it stops. What is left then is refused.
const END_MAX: Duration = Duration::from_secs(5);

/// Campaigns whose shares are written before they are entered.
pub(super) struct Preparing {
    /// In the order in which they came. Only for the first are `ref`s reserved.
    waiting: VecDeque<Box<NewCampaigns>>,
    shares: u64,
    /// Whether `ref`s are reserved for the first.
    begun: bool,
    /// Whether there may be shares that nobody goes on with.
    remains: bool,
}

impl Default for Preparing {
    /// A file that is opened may have some of what was under way.
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            shares: 0,
            begun: false,
            remains: true,
        }
    }
}

impl Preparing {
    /// Takes campaigns, unless too many wait.
    pub(super) fn add(&mut self, campaigns: Box<NewCampaigns>) {
        let shares = self.shares + campaigns.shares();
        if shares > WAITING_SHARES_MAX && !self.waiting.is_empty() {
            Task::Enter(campaigns).refuse(&EngineError::Overloaded);
            return;
        }
        self.shares = shares;
        self.waiting.push_back(campaigns);
    }

    pub(super) fn has_work(&self) -> bool {
        self.remains || !self.waiting.is_empty()
    }

    /// The first, which is over, whatever has become of it.
    fn pop(&mut self) -> Option<Box<NewCampaigns>> {
        let first = self.waiting.pop_front()?;
        self.shares -= first.shares();
        self.remains |= std::mem::take(&mut self.begun);
        Some(first)
    }

    /// Refuses everything that waits.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        self.remains = true; // a commit that failed may have been kept
        while let Some(campaigns) = self.pop() {
            campaigns.answer(Err(error));
        }
    }
}

impl Writer {
    /// Writes the next slice of shares, if it is time to, and enters the campaigns that have all of them.
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
            match self.take_back(limit) {
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

    /// Takes out some of the shares that nobody goes on with.
    fn take_back(&mut self, limit: u32) -> Result<(), StoreError> {
        let Some(campaign_ref) = preparations::first(&self.conn)? else {
            self.preparing.remains = false;
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        let _commit = shared.under_way.begin();
        let tx = file::begin(&self.conn)?;
        preparations::take_back(&tx, campaign_ref, limit)?;
        self.watch.commit(&self.conn, tx)
    }

    /// Writes some shares of the first campaigns. Returns whether all are written.
    fn write_shares(&mut self, limit: u32) -> Result<bool, StoreError> {
        let begun = self.preparing.begun;
        let Some(campaigns) = self.preparing.waiting.front_mut() else {
            return Ok(false);
        };
        if !begun && !campaigns.is_awaited() {
            // Nothing of it is written, and whoever asked has been told that nobody knows what became of it.
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
        let tx = file::begin(&self.conn)?;
        if !begun {
            campaigns.reserve(&tx)?;
        }
        let is_written = campaigns.write(&tx, limit)?;
        commit.gets_on();
        self.watch.commit(&self.conn, tx)?;
        self.preparing.begun = true;
        Ok(is_written)
    }

    /// Enters the first campaigns: from now on they exist.
    fn enter_first(&mut self) {
        if let Some(campaigns) = self.preparing.pop() {
            self.commit_and_answer(self.clock.now(), &mut vec![Decided::Ledger(campaigns)]);
        }
    }

    /// Before the writer stops: enters what waits, for some seconds, unless nothing is to be gone on with.
    pub(super) fn end_preparing(&mut self) {
        self.pace.idle(); // nobody waits for a slice any more
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
