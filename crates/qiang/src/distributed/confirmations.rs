//! Bounds of claims and commands that wait for the ledger's confirmation.

use std::sync::Arc;

use parking_lot::Mutex;
use qiang_core::{
    fair_share::{FairShares, OwnerDigest},
    id::CampaignId,
};

/// Maximum number of claims that wait for the ledger. One owner's campaigns may use half of it, and one campaign a
/// quarter. Further claims are refused before they are decided.
const WAITING_MAX: usize = 8_192;
/// Maximum number of commands that wait for the ledger, with the same shares. It is separate, so that claims leave
/// permits for payments.
const COMMANDS_MAX: usize = 4_096;

/// Permits by campaign. All campaigns that this node does not know yet share one count.
type Shares = Arc<Mutex<FairShares<Option<CampaignId>>>>;

pub(super) struct ConfirmationPermits {
    claims: Shares,
    commands: Shares,
}

/// A permit for a request that may wait. Dropping it returns the permit.
pub(super) struct ConfirmationPermit {
    shares: Shares,
    campaign: Option<CampaignId>,
}

impl ConfirmationPermits {
    pub(super) fn new() -> Self {
        let shares = |max| Arc::new(Mutex::new(FairShares::new(max)));
        Self {
            claims: shares(WAITING_MAX),
            commands: shares(COMMANDS_MAX),
        }
    }

    /// A permit for a claim of this campaign and owner; `None` if one of them has its share already. `campaign` is
    /// `None` if this node does not know it.
    pub(super) fn enter(
        &self,
        campaign: Option<(CampaignId, OwnerDigest)>,
    ) -> Option<ConfirmationPermit> {
        ConfirmationPermit::enter(&self.claims, campaign)
    }

    /// A permit for a command, by the rules of [`Self::enter`].
    pub(super) fn enter_command(
        &self,
        campaign: Option<(CampaignId, OwnerDigest)>,
    ) -> Option<ConfirmationPermit> {
        ConfirmationPermit::enter(&self.commands, campaign)
    }
}

impl ConfirmationPermit {
    fn enter(shares: &Shares, campaign: Option<(CampaignId, OwnerDigest)>) -> Option<Self> {
        let (campaign, owner) = campaign.unzip();
        let fits = shares.lock().enter(campaign, owner, 1);
        fits.then(|| Self {
            shares: Arc::clone(shares),
            campaign,
        })
    }
}

impl Drop for ConfirmationPermit {
    fn drop(&mut self) {
        self.shares.lock().leave(&self.campaign, 1);
    }
}
