//! Properties of a campaign that nodes cache.

use std::sync::Arc;

use qiang_core::{
    admission::AdmissionRatio,
    campaign::{AckLevel, CampaignKind},
    fair_share::OwnerDigest,
    id::CampaignId,
    ports::CampaignRecord,
    time::{Timestamp, Window},
};

/// Fields of a campaign's hash from which [`CachedCampaign`] is read.
pub(crate) const FIELDS: [&str; 10] = [
    "kind", "starts", "ends", "limit", "hold", "parts", "ack", "admit", "opens", "owner",
];

/// Cached properties of a campaign. Window and limit of a sale are from the time of the read. Its admission follows the
/// replies to claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CachedCampaign {
    pub(crate) id: CampaignId,
    /// Its seller or sender.
    pub(crate) owner: OwnerDigest,
    pub(crate) kind: CampaignKind,
    /// Origin of grant times: the start with which the campaign was opened.
    pub(crate) origin: Timestamp,
    pub(crate) window: Window,
    pub(crate) limit: u32,
    pub(crate) hold_ms: i64,
    /// Number of its shards.
    pub(crate) parts: u16,
    pub(crate) ack: AckLevel,
    /// `None` admits all users.
    pub(crate) admission: Option<AdmissionRatio>,
}

/// A campaign that was looked for.
pub(crate) enum FoundCampaign {
    /// Redis has it, as far as this node knows.
    Here(Arc<CachedCampaign>),
    /// It was closed and evicted, and the ledger has all of it.
    Settled(Arc<CampaignRecord>),
    /// No engine ever opened it.
    Unknown,
}

impl CachedCampaign {
    /// Parses the values of [`FIELDS`].
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
            owner: value(9)?.parse().ok()?,
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
                    AdmissionRatio::from_percent(percent?.parse().ok()?).ok()?
                }
            },
        })
    }

    /// Time for an offset.
    pub(crate) fn at(&self, offset: &str) -> Option<Timestamp> {
        let offset = offset.parse().ok()?;
        Some(self.origin.plus_millis(offset))
    }
}
