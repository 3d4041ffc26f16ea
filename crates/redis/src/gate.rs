//! The gate: what this node can answer by itself, so that most losers of a campaign do not reach Redis.
//!
//! A campaign is *inactive* when it grants nothing: not yet open, sold out, paused, or over. Then the set of users who
//! have a grant does not change either, so the node loads that set once, as fingerprints, and from then on refuses
//! everybody who is not in it. Redis publishes an invalidation whenever a campaign's state changes in a way that
//! matters here; a poll of the version stands behind it. What is loaded is bound to the versions of all parts before
//! and after.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use qiang_core::{
    book::Claim, campaign::Phase, event::PartitionId, gate::CampaignGate, id::CampaignId,
    outcome::Outcome, ports::EngineError, time::Timestamp,
};
use redis::Value;

use crate::{keys::fnv1a, meta::CampaignMeta, partitions::Partitions, tally::PartTally};

/// Grants of a campaign above which the gate leaves it to Redis: 8 bytes each.
const HOLDERS_MAX: usize = 4_000_000;
/// Inactive campaigns that are remembered; past it, all are loaded again when they are asked for.
const INACTIVE_MAX: usize = 4_096;
/// Users loaded at a time.
const SCAN_COUNT: usize = 2_000;
/// How often versions are polled, in case invalidations are lost.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);

/// What a node answers by itself.
pub(crate) struct Gate {
    partitions: Arc<Partitions>,
    inactive: RwLock<HashMap<CampaignId, Arc<Inactive>>>,
    /// Campaigns that are being loaded, and whether they were invalidated meanwhile.
    refreshing: Mutex<HashMap<CampaignId, bool>>,
}

/// A campaign that grants nothing.
#[derive(Debug)]
struct Inactive {
    state: CampaignGate,
    /// Of each part.
    versions: Vec<u64>,
    /// Fingerprints of the users who have a grant.
    holders: HashSet<u64>,
}

impl Inactive {
    /// Whether the holders are still all of them. A campaign with units left opens without an invalidation.
    fn has_all_holders(&self, now: Timestamp) -> bool {
        let CampaignGate { phase, window, .. } = self.state;
        let opens = phase == Phase::Scheduled && self.state.remaining > 0;
        !opens || now < window.starts_at()
    }
}

impl Gate {
    pub(crate) fn new(partitions: Arc<Partitions>) -> Self {
        Self {
            partitions,
            inactive: RwLock::default(),
            refreshing: Mutex::default(),
        }
    }

    /// The answer to a claim that needs no decision; None when Redis must be asked.
    pub(crate) fn answer(&self, claim: &Claim) -> Option<Outcome> {
        let partitions = &self.partitions;
        let meta = partitions.known_meta(claim.campaign)?;
        if claim.kind != meta.kind {
            return Some(Outcome::UnknownCampaign);
        }
        let partition = partitions.of_user(&meta, &claim.user);
        if claim.quantity == 0 || partitions.get(partition).is_halted() {
            return None;
        }
        let inactive = self.inactive.read().get(&meta.id).cloned()?;
        let fingerprint = fnv1a(claim.user.as_str().as_bytes());
        if inactive.holders.contains(&fingerprint) {
            return None;
        }
        let clock = &partitions.clock;
        let (now, margin_ms) = (clock.now(), clock.margin_ms());
        if !inactive.has_all_holders(now.plus_millis(margin_ms)) {
            return None;
        }
        inactive
            .state
            .answer_newcomer(claim.quantity, now, margin_ms)
    }

    /// Forgets a campaign: something about it has changed.
    pub(crate) fn invalidate(&self, campaign: CampaignId) {
        self.inactive.write().remove(&campaign);
        if let Some(invalidated) = self.refreshing.lock().get_mut(&campaign) {
            *invalidated = true;
        }
    }

    /// Forgets all campaigns: invalidations may have been lost.
    pub(crate) fn invalidate_all(&self) {
        self.inactive.write().clear();
        for invalidated in self.refreshing.lock().values_mut() {
            *invalidated = true;
        }
    }

    /// Loads, in the background, whether a campaign is inactive and who has a grant, unless that is known.
    pub(crate) fn refresh(self: &Arc<Self>, meta: &Arc<CampaignMeta>) {
        {
            let now = self.partitions.clock.now();
            let mut refreshing = self.refreshing.lock();
            let inactive = self.inactive.read();
            let known = inactive.get(&meta.id);
            if refreshing.contains_key(&meta.id)
                || known.is_some_and(|known| known.has_all_holders(now))
            {
                return;
            }
            refreshing.insert(meta.id, false);
        }
        let (gate, meta) = (Arc::clone(self), Arc::clone(meta));
        tokio::spawn(async move {
            let loaded = gate.load(&meta).await.ok().flatten();
            let mut refreshing = gate.refreshing.lock();
            let invalidated = refreshing.remove(&meta.id);
            if let (Some(loaded), Some(false)) = (loaded, invalidated) {
                let mut inactive = gate.inactive.write();
                if inactive.len() >= INACTIVE_MAX {
                    inactive.clear();
                }
                inactive.insert(meta.id, Arc::new(loaded));
            }
        });
    }

    /// Compares the versions of all inactive campaigns with Redis, in case invalidations are lost.
    pub(crate) async fn poll(&self) {
        let versions_of = |(id, it): (&CampaignId, &Arc<Inactive>)| (*id, it.versions.clone());
        let known: Vec<_> = self.inactive.read().iter().map(versions_of).collect();
        for (id, versions) in known {
            for (part, version) in (0..).zip(versions) {
                let partition = self.partitions.of_part(id, part);
                let mut command = redis::cmd("HGET");
                command
                    .arg(self.partitions.context.keys.campaign(partition, id))
                    .arg("version");
                let current: Result<Option<u64>, _> =
                    self.partitions.query(partition, &command).await;
                if current != Ok(Some(version)) {
                    self.invalidate(id);
                    break;
                }
            }
        }
    }

    async fn load(&self, meta: &CampaignMeta) -> Result<Option<Inactive>, EngineError> {
        let partitions = &self.partitions;
        let before = partitions.part_tallies(meta).await?;
        let tallies = before.iter().map(|part| &part.tally);
        let state = CampaignGate::of_parts(meta.window, meta.limit, tallies)
            .filter(|state| state.is_inactive(partitions.clock.now()));
        let Some(state) = state else {
            return Ok(None);
        };
        // Units may be moving between parts that have none.
        if state.remaining == 0 && meta.parts > 1 && !partitions.is_dry(meta).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        if granted > HOLDERS_MAX {
            return Ok(None);
        }
        let mut holders = HashSet::with_capacity(granted);
        for partition in partitions.of_campaign(meta) {
            self.load_holders(meta, partition, &mut holders).await?;
        }
        let after = partitions.part_tallies(meta).await?;
        let stamp = |part: &PartTally| (part.version, part.tally.grants);
        let is_unchanged = before.iter().map(stamp).eq(after.iter().map(stamp));
        Ok(is_unchanged.then(|| Inactive {
            state,
            versions: after.iter().map(|part| part.version).collect(),
            holders,
        }))
    }

    async fn load_holders(
        &self,
        meta: &CampaignMeta,
        partition: PartitionId,
        holders: &mut HashSet<u64>,
    ) -> Result<(), EngineError> {
        let key = self.partitions.context.keys.users(partition, meta.id);
        let mut cursor = "0".to_owned();
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
            let (next, fields): (String, Vec<Value>) =
                self.partitions.query(partition, &command).await?;
            for field in fields.iter().step_by(2) {
                if let Value::BulkString(user) = field {
                    holders.insert(fnv1a(user));
                }
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}

/// Whether the campaign of a claim that ended so may be inactive.
pub(crate) fn hints_inactive(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::SoldOut { .. } | Outcome::Paused | Outcome::Ended | Outcome::NotStarted { .. }
    )
}
