//! Log positions of this node's grants that the ledger must confirm. A retry waits for its own position, and not for
//! the end of the log.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    id::CampaignId,
    outcome::Grant,
};

/// Maximum grants with remembered positions, the newest ones.
const PLACES_MAX: usize = 65_536;

type Key = (CampaignId, u32);

#[derive(Default)]
struct UnconfirmedPlaces {
    of: HashMap<Key, (PartitionId, Seq)>,
    /// In order of insertion. It may contain removed keys.
    order: VecDeque<Key>,
}

/// Positions of unconfirmed grants.
#[derive(Default)]
pub(crate) struct Unconfirmed(Mutex<UnconfirmedPlaces>);

impl Unconfirmed {
    /// Remembers a position that is not before a grant: the last entry of its batch.
    pub(crate) fn remember(&self, grant: &Grant, place: (PartitionId, Seq)) {
        let key = (grant.campaign, grant.number);
        let mut places = self.0.lock();
        if places.of.insert(key, place).is_none() {
            places.order.push_back(key);
        }
        while places.order.len() > PLACES_MAX {
            let oldest = places.order.pop_front();
            oldest.and_then(|key| places.of.remove(&key));
        }
    }

    pub(crate) fn place(&self, grant: &Grant) -> Option<(PartitionId, Seq)> {
        let places = self.0.lock();
        places.of.get(&(grant.campaign, grant.number)).copied()
    }

    pub(crate) fn forget(&self, grant: &Grant) {
        let mut places = self.0.lock();
        places.of.remove(&(grant.campaign, grant.number));
        let UnconfirmedPlaces { of, order } = &mut *places;
        while order.pop_front_if(|key| !of.contains_key(key)).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use qiang_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_newest_places_are_remembered() {
        let grant = |number| Grant {
            campaign: qiang_testkit::campaign::id(1),
            number,
            quantity: 1,
            amount_minor: 1,
            granted_at: Timestamp::from_millis(0),
            order: None,
        };
        let unconfirmed = Unconfirmed::default();
        let place = |number: u32| (PartitionId(0), Seq::from(number));
        for number in 1..=PLACES_MAX as u32 + 1 {
            unconfirmed.remember(&grant(number), place(number));
        }
        assert_eq!(unconfirmed.place(&grant(1)), None);
        assert_eq!(unconfirmed.place(&grant(2)), Some(place(2)));
        unconfirmed.forget(&grant(2));
        assert_eq!(unconfirmed.place(&grant(2)), None);
        let places = unconfirmed.0.lock();
        assert_eq!(places.order.front().map(|key| key.1), Some(3));
        assert_eq!(places.of.len(), PLACES_MAX - 1);
    }
}
