//! Tasks of the writer thread.

use qiang_core::{
    book::{CampaignSnapshot, Claim, Command, Reply},
    id::CampaignId,
    ports::{Claimed, EngineError, ProbeResult, ReplySender},
};

use crate::{deferred_read::DeferredRead, job::LedgerJob, new_campaign_ids::NewCampaignIds};

/// Result of reloading a campaign.
pub(crate) enum RecallTask {
    /// The campaign was opened.
    Opened(Box<CampaignSnapshot>),
    /// The campaign does not exist or was not opened.
    NotOpen,
    /// This program cannot read the campaign.
    Unreadable(EngineError),
    /// The read failed this time.
    Failed(EngineError),
}

/// Task of the writer thread with the channel of its answer.
pub(crate) enum WriterTask {
    Claim(Claim, ReplySender<Claimed>),
    /// Claims of one campaign that are decided in this order.
    Claims(Vec<(Claim, ReplySender<Claimed>)>),
    Command(Command, ReplySender<Reply>),
    /// Read of a campaign that the current commit changes. It is answered after the commit.
    Read(DeferredRead),
    /// Commit that changes only the probe's row.
    Probe(ReplySender<ProbeResult>),
    Ledger(Box<dyn LedgerJob>),
    /// New campaigns: entered in a batch; if they have many shares, these are written first, between batches.
    Enter(Box<NewCampaignIds>),
    /// Reloaded campaign that the writer requested, or that stays in memory from now on.
    Recalled(CampaignId, RecallTask),
}

impl WriterTask {
    pub(crate) fn refuse(self, error: &EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error.clone())),
            Self::Claims(claims) => {
                for (_, answer) in claims {
                    answer.send(Err(error.clone()));
                }
            }
            Self::Command(_, answer) => answer.send(Err(error.clone())),
            Self::Read(errand) => errand.refuse(error),
            Self::Probe(answer) => answer.send(Err(error.clone())),
            Self::Ledger(job) => job.answer(Err(error)),
            Self::Enter(campaigns) => campaigns.answer(Err(error)),
            Self::Recalled(..) => {}
        }
    }
}
