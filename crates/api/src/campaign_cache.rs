//! What never changes about a campaign, remembered so that answers need not ask the ledger.

use std::collections::HashMap;

use parking_lot::RwLock;
use qiang_core::{
    campaign::{AckLevel, Campaign, CampaignKind},
    id::CampaignId,
    money::Currency,
    time::Window,
};

/// Campaigns remembered at a time; past it, all are forgotten and read anew as they are asked for.
const REMEMBERED_MAX: usize = 65_536;

/// What answers need to know of a campaign, and never changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CampaignMeta {
    pub(crate) kind: CampaignKind,
    pub(crate) currency: Currency,
    pub(crate) ack: AckLevel,
    pub(crate) window: Window,
}

impl From<&Campaign> for CampaignMeta {
    fn from(campaign: &Campaign) -> Self {
        Self {
            kind: campaign.kind(),
            currency: campaign.currency(),
            ack: campaign.ack,
            window: campaign.window,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CampaignCache(RwLock<HashMap<CampaignId, CampaignMeta>>);

impl CampaignCache {
    pub(crate) fn get(&self, id: CampaignId) -> Option<CampaignMeta> {
        self.0.read().get(&id).copied()
    }

    pub(crate) fn insert(&self, id: CampaignId, meta: CampaignMeta) {
        let mut known = self.0.write();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(id, meta);
    }
}
