//! Bounded capacity that several parties share, so that no party fills it.

use std::{collections::HashMap, hash::Hash};

/// Slots of a bounded capacity, counted per party. A party may take slots as long as it has fewer than are free. So one
/// party alone takes half of the capacity, and any number of parties leaves a share for the next.
#[derive(Debug)]
pub struct FairShares<K> {
    max: usize,
    taken: usize,
    of: HashMap<K, usize>,
}

impl<K: Eq + Hash> FairShares<K> {
    /// An empty capacity with this number of slots.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            taken: 0,
            of: HashMap::new(),
        }
    }

    /// Takes a slot if the party's share allows it; returns whether it did.
    #[must_use]
    pub fn enter(&mut self, party: K) -> bool {
        let own = self.of.get(&party).copied().unwrap_or(0);
        let fits = own < self.max.saturating_sub(self.taken);
        if fits {
            self.take(party);
        }
        fits
    }

    /// Takes a slot, even beyond the share and the capacity.
    pub fn take(&mut self, party: K) {
        self.taken += 1;
        *self.of.entry(party).or_default() += 1;
    }

    /// Releases a slot of the party.
    pub fn leave(&mut self, party: &K) {
        if let Some(own) = self.of.get_mut(party) {
            *own -= 1;
            self.taken -= 1;
            if *own == 0 {
                self.of.remove(party);
            }
        }
    }

    /// Releases all slots.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.of.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(shares: &mut FairShares<char>, party: char) -> usize {
        let mut count = 0;
        while shares.enter(party) {
            count += 1;
        }
        count
    }

    #[test]
    fn each_party_leaves_a_share_for_the_next() {
        let mut shares = FairShares::new(64);
        let taken = ['a', 'b', 'c', 'd'].map(|party| fill(&mut shares, party));
        assert_eq!(taken, [32, 16, 8, 4]);
        // Released slots are free for all parties, most of all for the party that has least.
        for _ in 0..32 {
            shares.leave(&'a');
        }
        // 'd' had 4 of the 28 taken slots. With 16 more it has 20, as many as are free.
        assert_eq!(fill(&mut shares, 'd'), 16);
        assert!(shares.enter('e') && shares.enter('a'));
        assert!(!shares.of.is_empty());
        shares.clear();
        assert_eq!(fill(&mut shares, 'b'), 32);
    }

    #[test]
    fn places_are_counted_beyond_the_room_and_back() {
        let mut shares = FairShares::new(1);
        shares.take('a');
        shares.take('a');
        assert!(!shares.enter('b'));
        shares.leave(&'a');
        assert!(!shares.enter('b'));
        shares.leave(&'a');
        // A party without slots releases none.
        shares.leave(&'a');
        assert!(shares.enter('b'));
        assert_eq!(shares.taken, 1);
    }
}
