//! Requests to the writer thread.

use qiang_core::{
    book::{Claim, Command, Reply, Restored},
    id::CampaignId,
    ports::{Answer, Claimed, EngineError, Probed},
};

use crate::{errand::Errand, job::LedgerJob, new_campaigns::NewCampaigns};

/// A campaign that was sent for.
pub(crate) enum Recalled {
    /// It has opened.
    Opened(Box<Restored>),
    /// There is none, or it has not opened.
    NotOpen,
    /// This program cannot read it.
    Unreadable(EngineError),
    /// It was not read this time.
    Failed(EngineError),
}

/// Something for the writer thread to do, and where to send its answer.
pub(crate) enum Task {
    Claim(Claim, Answer<Claimed>),
    Command(Command, Answer<Reply>),
    /// A read of a campaign with changes in the commit under way. It is answered behind that.
    Read(Errand),
    /// A commit that changes nothing but the probe's row.
    Probe(Answer<Probed>),
    Ledger(Box<dyn LedgerJob>),
    /// New campaigns: in a batch, or with so many shares that these are written before, between batches.
    Enter(Box<NewCampaigns>),
    /// A campaign that the writer has sent for, or that is in memory for good once it is read.
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
