//! Bounds of claims and commands that wait for the ledger's confirmation.

use std::sync::Arc;

use parking_lot::Mutex;
use qiang_core::{fair_share::FairShares, id::CampaignId};

/// Claims that wait for the ledger at a time, of which one campaign has half at most; more are refused before they are
/// decided.
const WAITING_MAX: usize = 8_192;
/// The same of commands, so that claims leave room for payments.
const COMMANDS_MAX: usize = 4_096;

/// Who shares the room: campaigns, and all that this node does not know yet together.
type Shares = Arc<Mutex<FairShares<Option<CampaignId>>>>;

pub(super) struct Confirmations {
    claims: Shares,
    commands: Shares,
}

/// Room for a request that may have to wait; it ends with this.
pub(super) struct Room {
    shares: Shares,
    campaign: Option<CampaignId>,
}

impl Confirmations {
    pub(super) fn new() -> Self {
        let shares = |max| Arc::new(Mutex::new(FairShares::new(max)));
        Self {
            claims: shares(WAITING_MAX),
            commands: shares(COMMANDS_MAX),
        }
    }

    /// Room for a claim of a campaign, or of one that this node does not know; none if its share is full.
    pub(super) fn enter(&self, campaign: Option<CampaignId>) -> Option<Room> {
        Room::enter(&self.claims, campaign)
    }

    /// The same for a command.
    pub(super) fn enter_command(&self, campaign: Option<CampaignId>) -> Option<Room> {
        Room::enter(&self.commands, campaign)
    }
}

impl Room {
    fn enter(shares: &Shares, campaign: Option<CampaignId>) -> Option<Self> {
        let fits = shares.lock().enter(campaign);
        fits.then(|| Self {
            shares: Arc::clone(shares),
            campaign,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shares.lock().leave(&self.campaign);
    }
}
