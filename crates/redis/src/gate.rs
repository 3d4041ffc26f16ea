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
    book::Claim, campaign::Phase, event::PartitionId, id::CampaignId, outcome::Outcome,
    ports::EngineError, time::Timestamp,
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
    cause: Cause,
    /// Of each part.
    versions: Vec<u64>,
    /// Fingerprints of the users who have a grant.
    holders: HashSet<u64>,
}

/// Why a campaign grants nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    NotStarted,
    SoldOut,
    Paused,
    Closed,
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
        inactive
            .cause
            .answer(&meta, claim.quantity, clock.now(), clock.margin_ms())
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
            let mut refreshing = self.refreshing.lock();
            let inactive = self.inactive.read();
            let known = inactive.get(&meta.id);
            // A campaign that was not open has opened since, without an invalidation.
            if refreshing.contains_key(&meta.id)
                || known.is_some_and(|it| it.cause != Cause::NotStarted)
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
        let before = self.partitions.part_tallies(meta).await?;
        let Some(cause) = Cause::of(&before) else {
            return Ok(None);
        };
        if cause == Cause::SoldOut && meta.parts > 1 && !self.partitions.is_dry(meta).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        if granted > HOLDERS_MAX {
            return Ok(None);
        }
        let mut holders = HashSet::with_capacity(granted);
        for partition in self.partitions.of_campaign(meta) {
            self.load_holders(meta, partition, &mut holders).await?;
        }
        let after = self.partitions.part_tallies(meta).await?;
        let state = |part: &PartTally| (part.version, part.tally.grants);
        Ok(before
            .iter()
            .map(state)
            .eq(after.iter().map(state))
            .then(|| Inactive {
                cause,
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

impl Cause {
    /// Why a campaign with these parts grants nothing, if it does not.
    fn of(parts: &[PartTally]) -> Option<Self> {
        let all = |phase: Phase| parts.iter().all(|part| part.tally.phase == phase);
        let dry = parts.iter().all(|part| part.tally.remaining == 0);
        match parts.first()?.tally.phase {
            phase if !all(phase) => None,
            Phase::Closed => Some(Self::Closed),
            Phase::Paused => Some(Self::Paused),
            Phase::Scheduled => Some(Self::NotStarted),
            Phase::Live if dry => Some(Self::SoldOut),
            _ => None,
        }
    }

    /// The answer to a user without a grant; None when the time, as far as it is known, may have changed it.
    fn answer(
        self,
        meta: &CampaignMeta,
        quantity: u32,
        now: Timestamp,
        margin_ms: i64,
    ) -> Option<Outcome> {
        let (starts_at, ends_at) = (meta.window.starts_at(), meta.window.ends_at());
        let early = now.plus_millis(margin_ms) < starts_at;
        let open = now >= starts_at.plus_millis(margin_ms) && now < ends_at.plus_millis(-margin_ms);
        match self {
            Self::Paused => Some(Outcome::Paused),
            Self::Closed => Some(Outcome::Ended),
            Self::NotStarted => early.then_some(Outcome::NotStarted { starts_at }),
            Self::SoldOut => {
                (open && quantity <= meta.limit).then_some(Outcome::SoldOut { remaining: 0 })
            }
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
