//! Cache of campaign rows between two slices of settlement, so that a slice does not read them again.
//!
//! Only settlement changes the cached columns, except whether a webhook may want a campaign's events. A campaign is
//! forgotten when its phase, its shards or its terms change. All campaigns are forgotten when anything but the writer's
//! own slice settles entries, when webhooks change, and after a repair.

use std::collections::{HashMap, HashSet};

use qiang_core::{
    id::CampaignId,
    settlement::{CampaignChange, KnownCampaign, SettlementPlan},
};

/// Campaigns in one of the two generations: about 4 MiB.
const GENERATION_MAX: usize = 16_384;

/// Campaigns as of the last commit.
#[derive(Default)]
pub(crate) struct KnownCampaigns {
    young: HashMap<CampaignId, KnownCampaign>,
    /// Older generation, dropped when the younger one is full.
    old: HashMap<CampaignId, KnownCampaign>,
}

impl KnownCampaigns {
    /// Removes and returns a campaign. A caller that does not change it calls [`put_back`](Self::put_back).
    pub(super) fn take(&mut self, id: CampaignId) -> Option<KnownCampaign> {
        self.young.remove(&id).or_else(|| self.old.remove(&id))
    }

    /// Stores campaigns again, except the changed ones.
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

    /// Forgets all campaigns.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// `ref`s of the campaigns that a plan changes in more than their counts.
pub(super) fn changed_by(plan: &SettlementPlan<'_>) -> HashSet<i64> {
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
        KnownCampaign::from_columns(columns).unwrap()
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
