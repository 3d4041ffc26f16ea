//! Paths of campaigns.

use qiang_wire::ids::CampaignId;
pub(crate) use qiang_wire::paths::encoded;

/// Path below a campaign of either kind.
pub(crate) fn path(id: &CampaignId, rest: &str) -> String {
    format!("/v1/campaigns/{}/{rest}", encoded(id.as_str()))
}

/// Kind of campaign. Each kind has its own path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathKind {
    RedPacket,
    Sale,
}

impl PathKind {
    /// Path of a campaign.
    pub(crate) fn path(self, id: &CampaignId) -> String {
        let kind = match self {
            Self::RedPacket => "red-packets",
            Self::Sale => "sales",
        };
        format!("/v1/{kind}/{}", encoded(id.as_str()))
    }
}
