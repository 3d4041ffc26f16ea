//! Paths of campaigns, and queries.

pub(crate) use qiang_wire::paths::encoded;
use qiang_wire::{ids::CampaignId, values::Timestamp};

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

/// Query of the given parameters, which are encoded.
pub(crate) fn query_of(given: impl Iterator<Item = (&'static str, Option<String>)>) -> String {
    let pairs = given.filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Parameters of a range of creation times.
pub(crate) fn times(
    after: Option<Timestamp>,
    before: Option<Timestamp>,
) -> [(&'static str, Option<String>); 2] {
    let text = |at: Option<Timestamp>| at.map(|at| encoded(&at.to_string()));
    [
        ("created_after", text(after)),
        ("created_before", text(before)),
    ]
}
