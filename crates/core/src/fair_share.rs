//! Bounded capacity that owners and their campaigns share, so that none of them fills it.

use std::{collections::HashMap, fmt, hash::Hash, str::FromStr};

use sha2::{Digest as _, Sha256};

use crate::id::UserId;

/// Digest of a campaign's owner: the first eight bytes of the SHA-256 of the owner's id. Engines keep it with each
/// campaign in place of the id, which is up to 128 bytes. An owner would need 2^64 attempts to get another's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerDigest(u64);

impl OwnerDigest {
    /// Digest of this owner.
    #[must_use]
    pub fn of(owner: &UserId) -> Self {
        let hash: [u8; 32] = Sha256::digest(owner.as_str()).into();
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first))
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for OwnerDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for OwnerDigest {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// Slots of a bounded capacity, counted per owner and per party of an owner, such as a campaign.
///
/// An owner may take slots as long as it has fewer than are free. So one owner alone takes half of the capacity, and
/// any number of owners leaves a share for the next. By the same rule a party takes half of the slots that its owner
/// may still take: a quarter of the capacity if it is alone.
#[derive(Debug)]
pub struct FairShares<P> {
    max: usize,
    taken: usize,
    owners: HashMap<Option<OwnerDigest>, usize>,
    /// Each with its owner, so that a release needs no owner.
    parties: HashMap<P, (Option<OwnerDigest>, usize)>,
}

impl<P: Eq + Hash> FairShares<P> {
    /// An empty capacity with this number of slots.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            taken: 0,
            owners: HashMap::new(),
            parties: HashMap::new(),
        }
    }

    /// Takes `count` slots if the shares of the party and its owner allow it; returns whether it did. Parties whose
    /// owner is unknown (`None`) count as parties of one owner.
    #[must_use]
    pub fn enter(&mut self, party: P, owner: Option<OwnerDigest>, count: usize) -> bool {
        let of_owner = self.owners.get(&owner).copied().unwrap_or(0);
        let of_party = self.parties.get(&party).map_or(0, |(_, own)| *own);
        let free = self.max.saturating_sub(self.taken);
        // Slots that the owner may still take: each adds one to its own slots, and removes one from the free ones.
        let of_share = free.saturating_sub(of_owner).div_ceil(2);
        // One after the other, the last one must fit too.
        let fits = of_owner + 2 * count <= free + 1 && of_party + 2 * count <= of_share + 1;
        if fits {
            self.take(party, owner, count);
        }
        fits
    }

    /// Takes slots, even beyond the shares and the capacity.
    pub fn take(&mut self, party: P, owner: Option<OwnerDigest>, count: usize) {
        self.taken += count;
        let (owner, of_party) = self.parties.entry(party).or_insert((owner, 0));
        *of_party += count;
        *self.owners.entry(*owner).or_default() += count;
    }

    /// Releases slots of the party.
    pub fn leave(&mut self, party: &P, count: usize) {
        let Some((owner, of_party)) = self.parties.get_mut(party) else {
            return;
        };
        let (owner, count) = (*owner, count.min(*of_party));
        *of_party -= count;
        if *of_party == 0 {
            self.parties.remove(party);
        }
        self.taken -= count;
        if let Some(of_owner) = self.owners.get_mut(&owner) {
            *of_owner -= count;
            if *of_owner == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// Releases all slots.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.owners.clear();
        self.parties.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Option<OwnerDigest> {
        Some(OwnerDigest::of(&UserId::new(name).unwrap()))
    }

    fn fill(shares: &mut FairShares<&'static str>, party: &'static str) -> usize {
        let mut count = 0;
        while shares.enter(party, owner(&party[..1]), 1) {
            count += 1;
        }
        count
    }

    /// Parties `a1`, `a2`, … belong to the owner `a`.
    #[test]
    fn each_owner_leaves_a_share_for_the_next() {
        let mut shares = FairShares::new(64);
        let parties = ["a1", "a2", "a3", "a4", "a5", "a6", "a7"];
        let taken = parties.map(|party| fill(&mut shares, party));
        assert_eq!(taken, [16, 8, 4, 2, 1, 1, 0], "half of the capacity");
        let taken = ["b1", "b2", "c1", "d1"].map(|party| fill(&mut shares, party));
        assert_eq!(taken, [8, 4, 5, 4]);
        // Released slots are free for all parties, most of all for the party whose owner has least.
        shares.leave(&"a1", 16);
        shares.leave(&"a2", 8);
        let taken = ["d1", "a3", "e1"].map(|party| fill(&mut shares, party));
        assert_eq!(taken, [6, 4, 7]);
        shares.clear();
        assert!(shares.owners.is_empty() && shares.parties.is_empty());
        assert_eq!(fill(&mut shares, "b1"), 16);
    }

    #[test]
    fn several_slots_fit_together_or_not_at_all() {
        let mut shares = FairShares::new(64);
        assert!(!shares.enter("a1", owner("a"), 33) && !shares.enter("a1", owner("a"), 17));
        assert!(shares.enter("a1", owner("a"), 16) && !shares.enter("a1", owner("a"), 1));
        assert!(!shares.enter("a2", owner("a"), 9) && shares.enter("a2", owner("a"), 8));
        assert!(shares.enter("u1", None, 10) && !shares.enter("u2", None, 10));
        shares.leave(&"a1", 16);
        assert_eq!(shares.taken, 18);
    }

    #[test]
    fn slots_are_counted_beyond_the_capacity() {
        let mut shares = FairShares::new(1);
        shares.take("a1", owner("a"), 2);
        assert!(!shares.enter("b1", owner("b"), 1));
        shares.leave(&"a1", 1);
        assert!(!shares.enter("b1", owner("b"), 1));
        shares.leave(&"a1", 1);
        // A party without slots releases none.
        shares.leave(&"a1", 1);
        assert!(shares.enter("b1", owner("b"), 1));
        assert_eq!(shares.taken, 1);
    }

    #[test]
    fn a_digest_is_sixteen_digits() {
        // printf ann | sha256sum
        let (digest, text) = (owner("ann").unwrap(), "49915e0d7d4b402e");
        assert_eq!(
            (digest.to_string().as_str(), text.parse()),
            (text, Ok(digest))
        );
    }
}
