//! Log positions of grants that wait for settlement.

use qiang_core::{
    campaign::AckLevel,
    event::{Entry, Event, Seq},
    fair_share::OwnerDigest,
    id::CampaignId,
};

/// Position of a grant whose campaign has the acknowledgement level `ledger`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) seq: Seq,
    pub(crate) campaign: CampaignId,
    pub(crate) owner: OwnerDigest,
    /// Number of the grant.
    pub(crate) number: u32,
}

/// Acknowledgement level of a campaign, and its owner. `None` if the book does not have it.
pub(crate) type AckAndOwner = Option<(AckLevel, OwnerDigest)>;

/// Returns the position of an entry if it is a grant that the ledger must confirm.
pub(crate) fn place_of(entry: &Entry, known: impl FnOnce() -> AckAndOwner) -> Option<Place> {
    let Event::Granted { number, .. } = &entry.event else {
        return None;
    };
    let (_, owner) = known().filter(|(ack, _)| *ack == AckLevel::Ledger)?;
    Some(Place {
        seq: entry.seq,
        campaign: entry.campaign,
        owner,
        number: *number,
    })
}
