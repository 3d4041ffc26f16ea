//! Backlog of new campaigns that do not fit a batch. They come first in the next batch, in order. So a claim waits for
//! at most as many campaigns as fit one batch.

use std::collections::VecDeque;

use qiang_core::ports::EngineError;

use crate::{new_campaign_ids::NewCampaignIds, pace::BATCH_ROWS, task::WriterTask};

/// Maximum waiting rows: about a second of work. Further campaigns are refused.
const WAITING_ROWS_MAX: u64 = 1_000_000;

/// Campaigns that wait for a batch.
#[derive(Default)]
pub(super) struct CreationBacklog {
    waiting: VecDeque<Box<NewCampaignIds>>,
    /// Rows that they will write.
    rows: u64,
    /// Rows of the campaigns that the current batch has taken.
    taken: u64,
}

impl CreationBacklog {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Starts a turn with an empty batch.
    pub(super) fn begin(&mut self) {
        self.taken = 0;
    }

    /// Whether the batch has room for the first campaigns.
    pub(super) fn fits(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|first| self.has_room(first.rows()))
    }

    /// Removes and returns the first campaigns, if the batch has room. Campaigns whose caller has stopped waiting are
    /// dropped; none of their rows is written.
    pub(super) fn next(&mut self) -> Option<Box<NewCampaignIds>> {
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

    /// Returns the campaigns if the batch has room for them. Otherwise queues them, or refuses them if too many wait.
    pub(super) fn admit(&mut self, campaigns: Box<NewCampaignIds>) -> Option<Box<NewCampaignIds>> {
        let rows = campaigns.rows();
        if self.waiting.is_empty() && self.has_room(rows) {
            self.taken += rows;
            return Some(campaigns);
        }
        if self.rows + rows > WAITING_ROWS_MAX {
            WriterTask::Enter(campaigns).refuse(&EngineError::Overloaded);
        } else {
            self.rows += rows;
            self.waiting.push_back(campaigns);
        }
        None
    }

    /// Refuses all waiting campaigns.
    pub(super) fn refuse_all(&mut self, error: &EngineError) {
        self.rows = 0;
        for campaigns in self.waiting.drain(..) {
            WriterTask::Enter(campaigns).refuse(error);
        }
    }

    fn has_room(&self, rows: u64) -> bool {
        self.taken == 0 || self.taken + rows <= BATCH_ROWS
    }
}
