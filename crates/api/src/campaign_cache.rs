//! What never changes about a campaign, remembered so that answers need not ask the ledger.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use qiang_core::{
    campaign::{AckLevel, Campaign, CampaignKind},
    id::CampaignId,
    money::Currency,
    time::Window,
};

use crate::audience::Audience;

/// Campaigns remembered at a time; past it, all are forgotten and read anew as they are asked for.
const REMEMBERED_MAX: usize = 65_536;

/// What answers need to know of a campaign, and never changes.
#[derive(Debug, Clone)]
pub(crate) struct CampaignMeta {
    pub(crate) kind: CampaignKind,
    pub(crate) currency: Currency,
    pub(crate) ack: AckLevel,
    pub(crate) window: Window,
    /// Who may take part, where that is not everybody; and who may see the draws.
    pub(crate) audience: Option<Arc<Audience>>,
}

impl CampaignMeta {
    pub(crate) fn new(campaign: &Campaign, audience: Option<Arc<Audience>>) -> Self {
        Self {
            kind: campaign.kind(),
            currency: campaign.currency(),
            ack: campaign.ack,
            window: campaign.window,
            audience,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CampaignCache {
    known: RwLock<HashMap<CampaignId, CampaignMeta>>,
    /// Whoever reads a campaign that is not known has it.
    pub(crate) loading: tokio::sync::Mutex<()>,
}

impl CampaignCache {
    pub(crate) fn get(&self, id: CampaignId) -> Option<CampaignMeta> {
        self.known.read().get(&id).cloned()
    }

    pub(crate) fn insert(&self, id: CampaignId, meta: CampaignMeta) {
        let mut known = self.known.write();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(id, meta);
    }
}
