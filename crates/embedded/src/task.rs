//! Tasks of the writer thread.

use qiang_core::{
    book::{Claim, Command, Reply, Restored},
    id::CampaignId,
    ports::{Answer, Claimed, EngineError, Probed},
};

use crate::{errand::Errand, job::LedgerJob, new_campaigns::NewCampaigns};

/// Result of reloading a campaign.
pub(crate) enum Recalled {
    /// The campaign was opened.
    Opened(Box<Restored>),
    /// The campaign does not exist or was not opened.
    NotOpen,
    /// This program cannot read the campaign.
    Unreadable(EngineError),
    /// The read failed this time.
    Failed(EngineError),
}

/// Task of the writer thread with the channel of its answer.
pub(crate) enum Task {
    Claim(Claim, Answer<Claimed>),
    Command(Command, Answer<Reply>),
    /// Read of a campaign that the current commit changes. It is answered after the commit.
    Read(Errand),
    /// Commit that changes only the probe's row.
    Probe(Answer<Probed>),
    Ledger(Box<dyn LedgerJob>),
    /// New campaigns: entered in a batch; if they have many shares, these are written first, between batches.
    Enter(Box<NewCampaigns>),
    /// Reloaded campaign that the writer requested, or that stays in memory from now on.
    Recalled(CampaignId, Recalled),
}

impl Task {
    pub(crate) fn refuse(self, error: &EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error.clone())),
            Self::Command(_, answer) => answer.send(Err(error.clone())),
            Self::Read(errand) => errand.refuse(error),
            Self::Probe(answer) => answer.send(Err(error.clone())),
            Self::Ledger(job) => job.answer(Err(error)),
            Self::Enter(campaigns) => campaigns.answer(Err(error)),
            Self::Recalled(..) => {}
        }
    }
}
