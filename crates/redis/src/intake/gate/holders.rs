//! Users with a grant of a campaign, as fingerprints. They are kept when the campaign is invalidated, because users are
//! never removed. When it sells out again, only orders made in between are read.

use std::{collections::HashSet, ops::Range, sync::Arc};

use parking_lot::Mutex;
use qiang_core::{campaign::CampaignKind, event::PartitionId, id::CampaignId, ports::EngineError};
use quick_cache::{Weighter, unsync::Cache};
use redis::Value;

use crate::{
    connection::fnv1a, partitions::Partitions, protocol::campaign_meta::CachedCampaign,
    shards::tally::PartTally,
};

/// Maximum holders kept, of all campaigns together: 8 bytes each, and as much again for their index.
const KEPT_MAX: usize = 8_000_000;
/// Maximum campaigns with kept holders. Past it, campaigns that were not loaded recently are forgotten.
const CAMPAIGNS_MAX: usize = 4_096;
/// Users or orders loaded at a time.
const LOADED_MAX: u32 = 2_000;

/// Fingerprints of users. They include all users with a grant, and possibly others.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders {
    fingerprints: HashSet<u64>,
    /// Loaded grants of each shard.
    parts: Vec<LoadedGrants>,
}

/// Number of loaded grants of a shard and its last ordinal, in one term of its partition. Within a term, no ordinal is
/// skipped. In another term grants may be missing, and their numbers may belong to other users.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoadedGrants {
    term: Arc<str>,
    grants: u32,
    numbered: u32,
}

/// Holders of campaigns, including campaigns that are no longer inactive.
pub(super) struct KeptHolders(Mutex<Cache<CampaignId, Arc<Holders>, HolderCount>>);

impl Default for KeptHolders {
    fn default() -> Self {
        let kept = Cache::with_weighter(CAMPAIGNS_MAX, KEPT_MAX as u64, HolderCount);
        Self(Mutex::new(kept))
    }
}

impl KeptHolders {
    /// Loads all users with a grant that is counted in `tallies`. `terms` must be read before `tallies`.
    pub(super) async fn load(
        &self,
        partitions: &Partitions,
        meta: &CachedCampaign,
        terms: &[Arc<str>],
        tallies: &[PartTally],
    ) -> Result<Arc<Holders>, EngineError> {
        let loaded = |(term, part): (&Arc<str>, &PartTally)| LoadedGrants {
            term: Arc::clone(term),
            grants: part.tally.grants,
            numbered: part.numbered,
        };
        let parts: Vec<_> = terms.iter().zip(tallies).map(loaded).collect();
        let kept = self.0.lock().remove(&meta.id);
        let kept = kept.map(|(_, holders)| holders).unwrap_or_default();
        let holders = if kept.parts == parts {
            kept
        } else {
            Arc::new(
                Arc::unwrap_or_clone(kept)
                    .grown(partitions, meta, parts)
                    .await?,
            )
        };
        self.keep(meta.id, &holders);
        Ok(holders)
    }

    pub(super) fn forget(&self, campaign: CampaignId) {
        self.0.lock().remove(&campaign);
    }

    fn keep(&self, campaign: CampaignId, holders: &Arc<Holders>) {
        self.0.lock().insert(campaign, Arc::clone(holders));
    }
}

/// Weighs a campaign by its holders, and so that at most [`CAMPAIGNS_MAX`] campaigns are kept.
#[derive(Clone)]
struct HolderCount;

impl Weighter<CampaignId, Arc<Holders>> for HolderCount {
    fn weight(&self, _: &CampaignId, holders: &Arc<Holders>) -> u64 {
        (holders.fingerprints.len() + KEPT_MAX / CAMPAIGNS_MAX) as u64
    }
}

impl Holders {
    pub(super) fn contain(&self, user: &str) -> bool {
        self.fingerprints.contains(&fnv1a(user.as_bytes()))
    }

    /// Adds the grants made since the last load. If a term has changed, loads all of them.
    async fn grown(
        mut self,
        partitions: &Partitions,
        meta: &CachedCampaign,
        parts: Vec<LoadedGrants>,
    ) -> Result<Self, EngineError> {
        let terms = |parts: &[LoadedGrants]| -> Vec<_> {
            parts.iter().map(|part| part.term.clone()).collect()
        };
        if terms(&self.parts) != terms(&parts) {
            self = Self::default();
        }
        for (index, partition) in (0..).zip(partitions.for_campaign(meta)) {
            let now = &parts[index];
            let before = self.parts.get(index).filter(|part| part.grants > 0);
            match before {
                Some(before) if meta.kind == CampaignKind::Sale => {
                    let made = before.numbered..now.numbered;
                    self.add_buyers(partitions, meta, (partition, index as u32), made)
                        .await?;
                }
                before if before.map_or(0, |part| part.grants) < now.grants => {
                    self.add_users(partitions, meta, partition).await?;
                }
                _ => {}
            }
        }
        self.parts = parts;
        Ok(self)
    }

    /// Adds the buyers of a shard's orders in this range.
    async fn add_buyers(
        &mut self,
        partitions: &Partitions,
        meta: &CachedCampaign,
        (partition, index): (PartitionId, u32),
        made: Range<u32>,
    ) -> Result<(), EngineError> {
        let key = partitions.keys().orders(partition, meta.id);
        for from in made.clone().step_by(LOADED_MAX as usize) {
            let until = made.end.min(from + LOADED_MAX);
            let mut command = redis::cmd("HMGET");
            command.arg(&key);
            for ordinal in from..until {
                command.arg(1 + index + u32::from(meta.parts) * ordinal);
            }
            let orders: Vec<Option<String>> = partitions.query(partition, &command).await?;
            // Order text: state, refunds due, user.
            let user = |order: &str| order.split('\t').nth(2).map(|user| fnv1a(user.as_bytes()));
            let users = orders.iter().flatten().filter_map(|order| user(order));
            self.fingerprints.extend(users);
        }
        Ok(())
    }

    /// Adds all users of a shard who have a grant.
    async fn add_users(
        &mut self,
        partitions: &Partitions,
        meta: &CachedCampaign,
        partition: PartitionId,
    ) -> Result<(), EngineError> {
        let key = partitions.keys().users(partition, meta.id);
        let mut cursor = "0".to_owned();
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(&cursor).arg("COUNT").arg(LOADED_MAX);
            let (next, fields): (String, Vec<Value>) =
                partitions.query(partition, &command).await?;
            for field in fields.iter().step_by(2) {
                if let Value::BulkString(user) = field {
                    self.fingerprints.insert(fnv1a(user));
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
