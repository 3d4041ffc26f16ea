//! Paths of campaigns.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use qiang_wire::ids::CampaignId;

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

/// Encodes a text as a path segment or a query value (RFC 3986).
pub(crate) fn encoded(text: &str) -> String {
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    match text {
        // URL parsers interpret segments of dots as relative paths.
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        _ => utf8_percent_encode(text, &RESERVED).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_place() {
        let check = |id: &str, path: &str| {
            assert_eq!(encoded(id), path);
        };
        check("ann", "ann");
        check("a/../b?c#d%", "a%2F..%2Fb%3Fc%23d%25");
        check("..", "%2E%2E");
        check("a@b.c", "a%40b.c");
    }
}
