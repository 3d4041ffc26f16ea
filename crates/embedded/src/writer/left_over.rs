//! New campaigns for which a batch has no room: they come first in the next one, in their order. So nobody who claims
//! waits for more of them than one batch takes, however many are made at once.

use std::collections::VecDeque;

use qiang_core::ports::EngineError;

use crate::{new_campaigns::NewCampaigns, pace::BATCH_ROWS, task::Task};

/// Rows that wait, past which no more campaigns are taken: about a second's work.
const WAITING_ROWS_MAX: u64 = 1_000_000;

/// Campaigns that wait for a batch.
#[derive(Default)]
pub(super) struct LeftOver {
    waiting: VecDeque<Box<NewCampaigns>>,
    /// What they write.
    rows: u64,
    /// What those write that this turn's batch has taken.
    taken: u64,
}

impl LeftOver {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A turn begins, and its batch has room.
    pub(super) fn begin(&mut self) {
        self.taken = 0;
    }

    /// Whether the batch has room for the first of them.
    pub(super) fn fits(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|first| self.has_room(first.rows()))
    }

    /// The first, if the batch has room for it. What nobody waits for any more is dropped: nothing of it is written.
    pub(super) fn next(&mut self) -> Option<Box<NewCampaigns>> {
        while self.fits() {
            let first = self.waiting.pop_front()?;
            self.rows -= first.rows();
            if first.is_awaited() {
                self.taken += first.rows();
                return Some(first);
            }
        }
        None
    }

    /// Gives campaigns back if the batch has room for them, and keeps them otherwise, unless too many wait.
    pub(super) fn admit(&mut self, campaigns: Box<NewCampaigns>) -> Option<Box<NewCampaigns>> {
        let rows = campaigns.rows();
        if self.waiting.is_empty() && self.has_room(rows) {
            self.taken += rows;
            return Some(campaigns);
        }
        if self.rows + rows > WAITING_ROWS_MAX {
            Task::Enter(campaigns).refuse(&EngineError::Overloaded);
        } else {
            self.rows += rows;
            self.waiting.push_back(campaigns);
        }
        None
    }

    /// Refuses everything that waits.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        self.rows = 0;
        for campaigns in self.waiting.drain(..) {
            Task::Enter(campaigns).refuse(error);
        }
    }

    fn has_room(&self, rows: u64) -> bool {
        self.taken == 0 || self.taken + rows <= BATCH_ROWS
    }
}
