//! Where grants stand in the log that the ledger has to confirm.

use qiang_core::{
    campaign::AckLevel,
    event::{Entry, Event, Seq},
    id::CampaignId,
};

/// Where a grant stands in the log whose campaign asks for the level `ledger`.
pub(crate) type Place = (Seq, CampaignId, u32);

/// The place of an entry, if it is a grant that the ledger has to confirm.
pub(crate) fn place_of(entry: &Entry, ack: impl FnOnce() -> AckLevel) -> Option<Place> {
    let Event::Granted { number, .. } = &entry.event else {
        return None;
    };
    (ack() == AckLevel::Ledger).then_some((entry.seq, entry.campaign, *number))
}
