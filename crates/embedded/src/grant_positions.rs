//! Log positions of grants that wait for settlement.

use qiang_core::{
    campaign::AckLevel,
    event::{Entry, Event, Seq},
    id::CampaignId,
};

/// Position, campaign and number of a grant whose campaign has the acknowledgement level `ledger`.
pub(crate) type Place = (Seq, CampaignId, u32);

/// Returns the position of an entry if it is a grant that the ledger must confirm.
pub(crate) fn place_of(entry: &Entry, ack: impl FnOnce() -> AckLevel) -> Option<Place> {
    let Event::Granted { number, .. } = &entry.event else {
        return None;
    };
    (ack() == AckLevel::Ledger).then_some((entry.seq, entry.campaign, *number))
}
