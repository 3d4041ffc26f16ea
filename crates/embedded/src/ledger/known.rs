//! What a writer remembers of campaigns from one slice of settlement to the next, so that it does not read each of them
//! again.
//!
//! Only what settles changes what is remembered, except whether a webhook may want a campaign's events. So a campaign
//! is forgotten when its phase, its parts or its terms change, and all are when anything but this settles, when
//! webhooks change, and after a repair.

use std::collections::{HashMap, HashSet};

use qiang_core::{
    id::CampaignId,
    settlement::{CampaignChange, KnownCampaign, Plan},
};

/// Campaigns in one of the two generations: some 4 MiB.
const GENERATION_MAX: usize = 16_384;

/// Campaigns as they are after the last commit.
#[derive(Default)]
pub(crate) struct KnownCampaigns {
    young: HashMap<CampaignId, KnownCampaign>,
    /// Those that go next: who is not asked for while the young ones become as many as they may be.
    old: HashMap<CampaignId, KnownCampaign>,
}

impl KnownCampaigns {
    /// Takes a campaign out. Who does not change it puts it back.
    pub(super) fn take(&mut self, id: CampaignId) -> Option<KnownCampaign> {
        self.young.remove(&id).or_else(|| self.old.remove(&id))
    }

    /// Puts back those campaigns that were not changed.
    pub(super) fn put_back(&mut self, campaigns: Vec<KnownCampaign>, changed: &HashSet<i64>) {
        for known in campaigns {
            if changed.contains(&known.campaign_ref) {
                continue;
            }
            if self.young.len() >= GENERATION_MAX {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(known.id, known);
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The campaigns, by their `ref`, that are otherwise after a plan than they were known before it, but for their counts.
pub(super) fn changed_by(plan: &Plan<'_>) -> HashSet<i64> {
    let is_changed = |change: &&CampaignChange| change.phase.is_some() || change.parts.is_some();
    let changes = plan.parts.iter().chain(&plan.campaigns);
    let changes = changes.filter(is_changed).map(|change| change.campaign);
    let terms = plan.terms.iter().map(|terms| terms.campaign);
    let spread = plan.spread.iter().map(|spread| spread.campaign);
    changes.chain(terms).chain(spread).collect()
}

#[cfg(test)]
mod tests {
    use qiang_core::settlement::KnownCampaign;

    use super::*;

    fn known(n: usize) -> KnownCampaign {
        let id = format!("{n:08x}-0000-7000-8000-000000000000");
        let (kind, owner, currency) = ("sale".to_owned(), "owner".to_owned(), "CNY".to_owned());
        let (campaign_ref, phase) = (n as i64, "scheduled".to_owned());
        let columns = (
            campaign_ref,
            id,
            kind,
            owner,
            currency,
            1,
            None,
            1,
            phase,
            None,
            0,
        );
        KnownCampaign::of(columns).unwrap()
    }

    fn take(remembered: &mut KnownCampaigns, n: usize) -> Option<i64> {
        let taken = remembered.take(known(n).id);
        taken.map(|known| known.campaign_ref)
    }

    #[test]
    fn two_generations_are_remembered() {
        let mut remembered = KnownCampaigns::default();
        let nothing = HashSet::new();
        for n in 0..GENERATION_MAX {
            remembered.put_back(vec![known(n)], &nothing);
        }
        remembered.put_back(vec![known(GENERATION_MAX)], &nothing);
        for n in [0, 1, GENERATION_MAX] {
            assert_eq!(take(&mut remembered, n), Some(n as i64));
        }
        remembered.put_back(vec![known(0), known(1)], &HashSet::from([1]));
        assert_eq!(take(&mut remembered, 1), None, "it was changed");
        for n in GENERATION_MAX + 1..2 * GENERATION_MAX + 1 {
            remembered.put_back(vec![known(n)], &nothing);
        }
        assert_eq!(take(&mut remembered, 2), None);
        assert_eq!(take(&mut remembered, 0), Some(0));
        remembered.clear();
        assert_eq!(take(&mut remembered, 2 * GENERATION_MAX), None);
    }
}
