//! Campaigns that do not exist, remembered for a moment. Repeated requests for them cost neither the ledger nor the
//! engine a read.

use qiang_core::{id::CampaignId, time::Timestamp};
use quick_cache::sync::Cache;

/// Maximum number of remembered campaigns. Above it, campaigns without recent requests are dropped.
const REMEMBERED_MAX: usize = 65_536;

/// Campaigns that neither the ledger nor the engine had, with the time of the read.
///
/// Ids cannot be guessed. So requests before the creation are accidents, or the creator chose the id. The node that
/// creates the campaign finds it at once, others after at most `limits.unknown_campaign_ttl_ms`.
#[derive(Debug)]
pub(crate) struct UnknownCampaigns {
    lasts_ms: i64,
    asked: Cache<CampaignId, Timestamp>,
}

impl UnknownCampaigns {
    pub(crate) fn new(lasts_ms: u32) -> Self {
        Self {
            lasts_ms: lasts_ms.into(),
            asked: Cache::new(REMEMBERED_MAX),
        }
    }

    /// Whether a campaign did not exist a moment ago.
    pub(crate) fn contain(&self, id: CampaignId, now: Timestamp) -> bool {
        let asked_at = self.asked.get(&id);
        asked_at.is_some_and(|at| self.lasts(at, now))
    }

    pub(crate) fn insert(&self, id: CampaignId, now: Timestamp) {
        if self.lasts_ms == 0 {
            return;
        }
        self.asked.insert(id, now);
    }

    pub(crate) fn forget(&self, id: CampaignId) {
        self.asked.remove(&id);
    }

    fn lasts(&self, asked_at: Timestamp, now: Timestamp) -> bool {
        (asked_at..asked_at.plus_millis(self.lasts_ms)).contains(&now)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> CampaignId {
        let version_7 = 0x0193_2c07_8e5a_7a3c_9f1e_0000_0000_0000;
        CampaignId::new(Uuid::from_u128(version_7 + n)).unwrap()
    }

    #[test]
    fn it_lasts_for_a_moment() {
        let unknown = UnknownCampaigns::new(1_000);
        let at = Timestamp::from_millis;
        unknown.insert(id(1), at(5_000));
        assert!(unknown.contain(id(1), at(5_999)));
        assert!(!unknown.contain(id(2), at(5_999)));
        assert!(!unknown.contain(id(1), at(6_000)));
        assert!(!unknown.contain(id(1), at(4_999)), "the clock was set back");
        unknown.forget(id(1));
        assert!(!unknown.contain(id(1), at(5_000)));
    }

    #[test]
    fn memory_is_bounded() {
        let unknown = UnknownCampaigns::new(1_000);
        let now = Timestamp::from_millis(5_000);
        unknown.insert(id(u128::MAX >> 70), now);
        for n in 0..200_000 {
            unknown.insert(id(n), now);
            let asked_for = unknown.contain(id(u128::MAX >> 70), now);
            assert!(asked_for, "a campaign in constant use, after {n}");
        }
        assert!(unknown.asked.len() <= REMEMBERED_MAX);
        let off = UnknownCampaigns::new(0);
        off.insert(id(1), now);
        assert!(off.asked.is_empty());
    }
}
