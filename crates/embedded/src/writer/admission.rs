//! Admission of claims to a batch.

use hashbrown::HashMap;
use qiang_core::{
    book::{Book, Refusal},
    id::CampaignId,
    outcome::Outcome,
};

use crate::task::WriterTask;

/// Number of further claims of each sale that this batch decides.
#[derive(Default)]
pub(super) struct BatchAdmission {
    /// Campaigns without a limit are left out.
    left: HashMap<CampaignId, u32>,
    pub(super) holds_back: bool,
    /// A command was held back: all later tasks are, so that commands keep their turn.
    holds_all: bool,
}

impl BatchAdmission {
    /// Whether a task has to wait for the commit of this batch.
    pub(super) fn holds_back(&mut self, book: &Book, task: &WriterTask) -> bool {
        let holds = match task {
            WriterTask::Claim(claim, _) => self.is_full(book, claim.campaign),
            WriterTask::Claims(claims) => claims
                .first()
                .is_some_and(|(claim, _)| self.is_full(book, claim.campaign)),
            WriterTask::Command(..) => {
                self.holds_all |= self.holds_back;
                self.holds_all
            }
            WriterTask::Probe(_)
            | WriterTask::Ledger(_)
            | WriterTask::Enter(_)
            | WriterTask::Recalled(..)
            | WriterTask::Read(_) => false,
        };
        self.holds_back |= holds;
        holds
    }

    /// Whether a claim of this campaign has to wait.
    pub(super) fn is_full(&mut self, book: &Book, campaign: CampaignId) -> bool {
        self.holds_all || self.remaining_units(book, campaign) == Some(0)
    }

    fn remaining_units(&mut self, book: &Book, campaign: CampaignId) -> Option<u32> {
        if let Some(left) = self.left.get(&campaign) {
            return Some(*left);
        }
        let admits = book.admits(campaign)?;
        self.left.insert(campaign, admits);
        Some(admits)
    }

    /// A grant and a sold-out answer use an admission; every other answer leaves it.
    pub(super) fn decided(&mut self, campaign: CampaignId, outcome: &Result<Outcome, Refusal>) {
        let uses = matches!(outcome, Ok(Outcome::Granted(_) | Outcome::SoldOut { .. }));
        if let Some(left) = self.left.get_mut(&campaign)
            && uses
        {
            *left = left.saturating_sub(1);
        }
    }
}
