//! Where campaigns are.

use crate::ids::{CampaignId, encoded};

/// The path of a campaign of either kind.
pub(crate) fn path(id: &CampaignId, rest: &str) -> String {
    format!("/v1/campaigns/{}/{rest}", encoded(id.as_str()))
}

/// A kind of campaign, each with a path of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    RedPacket,
    Sale,
}

impl Kind {
    /// The path of a campaign.
    pub(crate) fn path(self, id: &CampaignId) -> String {
        let kind = match self {
            Self::RedPacket => "red-packets",
            Self::Sale => "sales",
        };
        format!("/v1/{kind}/{}", encoded(id.as_str()))
    }
}
