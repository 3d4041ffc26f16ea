//! What nodes cache of a campaign.

use qiang_core::{
    admission::AdmissionRatio,
    campaign::{AckLevel, CampaignKind},
    id::CampaignId,
    time::{Timestamp, Window},
};

/// The fields of a campaign's hash that [`CampaignMeta`] is read from.
pub(crate) const FIELDS: [&str; 9] = [
    "kind", "starts", "ends", "limit", "hold", "parts", "ack", "admit", "opens",
];

/// What is known of a campaign. Window and limit of a sale are as they were when this was read. Its
/// admission follows the replies to claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CampaignMeta {
    pub(crate) id: CampaignId,
    pub(crate) kind: CampaignKind,
    /// What grants are dated from: the start with which it was opened.
    pub(crate) origin: Timestamp,
    pub(crate) window: Window,
    pub(crate) limit: u32,
    pub(crate) hold_ms: i64,
    /// Over how many partitions it is spread.
    pub(crate) parts: u16,
    pub(crate) ack: AckLevel,
    /// None admits everybody.
    pub(crate) admission: Option<AdmissionRatio>,
}

impl CampaignMeta {
    /// From the values of [`FIELDS`].
    pub(crate) fn read(id: CampaignId, values: &[Option<String>]) -> Option<Self> {
        let value = |at: usize| values.get(at)?.as_deref();
        let kind = match value(0)? {
            "red_packet" => CampaignKind::RedPacket,
            "sale" => CampaignKind::Sale,
            _ => return None,
        };
        let instant = |at: usize| Some(Timestamp::from_millis(value(at)?.parse().ok()?));
        Some(Self {
            id,
            kind,
            origin: instant(1)?,
            window: Window::new(instant(8).or(instant(1))?, instant(2)?).ok()?,
            limit: value(3)?.parse().ok()?,
            hold_ms: value(4)?.parse().ok()?,
            parts: value(5)?.parse().ok()?,
            ack: value(6)?.parse().ok()?,
            admission: match (kind, value(7)) {
                (CampaignKind::RedPacket, _) => None,
                (CampaignKind::Sale, percent) => {
                    AdmissionRatio::of_percent(percent?.parse().ok()?).ok()?
                }
            },
        })
    }

    /// The instant that an offset stands for.
    pub(crate) fn at(&self, offset: &str) -> Option<Timestamp> {
        let offset = offset.parse().ok()?;
        Some(self.origin.plus_millis(offset))
    }
}
