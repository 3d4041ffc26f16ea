//! The gate: what this node can answer by itself, so that most losers of a campaign do not reach Redis.
//!
//! A campaign is *inactive* when it grants nothing: not yet open, sold out, paused, or over. Then the set of users who
//! have a grant does not change either, so the node fetches that set once, as fingerprints, and from then on refuses
//! everybody who is not in it. Redis publishes an invalidation whenever a campaign's state changes in a way that
//! matters here; a poll of the version stands behind it. What is fetched is bound to the versions of all parts before
//! and after.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use qiang_core::{
    book::Claim, campaign::Phase, event::PartitionId, id::CampaignId, outcome::Outcome,
    ports::EngineError,
};
use redis::Value;

use crate::{
    keys::fnv1a,
    meta::CampaignMeta,
    node::Node,
    reply::{self, PartTally},
    scripts::TALLY,
};

/// Grants of a campaign above which the gate leaves it to Redis: 8 bytes each.
const FINGERPRINTS_MAX: usize = 4_000_000;
/// Campaigns that are inactive at a time; past it, all are looked at anew.
const INACTIVE_MAX: usize = 4_096;
/// Users fetched at a time.
const SCAN_COUNT: usize = 2_000;
/// How often versions are looked at, should news be lost.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);
/// How far this node's idea of Redis' time may be off.
const TIME_MARGIN_MS: i64 = 200;

/// Why a campaign grants nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    NotStarted,
    SoldOut,
    Paused,
    Closed,
}

#[derive(Debug)]
struct Inactive {
    why: Why,
    /// Of each part.
    versions: Vec<u64>,
    /// Fingerprints of the users who have a grant.
    holders: HashSet<u64>,
}

/// What the gate knows.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    inactive: RwLock<HashMap<CampaignId, Arc<Inactive>>>,
    /// Campaigns that are being looked at, and whether there were news meanwhile.
    refreshing: Mutex<HashMap<CampaignId, bool>>,
}

impl Gate {
    /// Something about the campaign has changed.
    pub(crate) fn forget(&self, campaign: CampaignId) {
        self.inactive.write().remove(&campaign);
        if let Some(news) = self.refreshing.lock().get_mut(&campaign) {
            *news = true;
        }
    }

    /// News may have been lost.
    pub(crate) fn forget_all(&self) {
        self.inactive.write().clear();
        for news in self.refreshing.lock().values_mut() {
            *news = true;
        }
    }
}

impl Node {
    /// The answer to a claim that needs no decision.
    pub(crate) fn peek(&self, claim: &Claim) -> Option<Outcome> {
        let meta = self.meta.get(claim.campaign)?;
        if claim.kind != meta.kind {
            return Some(Outcome::UnknownCampaign);
        }
        if claim.quantity == 0 || self.partition(self.of_user(&meta, &claim.user)).is_halted() {
            return None;
        }
        let now = self.now();
        let margin = match self.context.options.clock {
            Some(_) => 0,
            None => TIME_MARGIN_MS,
        };
        let (starts_at, ends_at) = (meta.window.starts_at(), meta.window.ends_at());
        let inactive = self.gate.inactive.read().get(&meta.id).cloned()?;
        if inactive
            .holders
            .contains(&fnv1a(claim.user.as_str().as_bytes()))
        {
            return None;
        }
        let inside = now >= starts_at.plus_millis(margin) && now < ends_at.plus_millis(-margin);
        match inactive.why {
            Why::Paused => Some(Outcome::Paused),
            Why::Closed => Some(Outcome::Ended),
            Why::NotStarted if now.plus_millis(margin) < starts_at => {
                Some(Outcome::NotStarted { starts_at })
            }
            Why::SoldOut if inside && claim.quantity <= meta.limit => {
                Some(Outcome::SoldOut { remaining: 0 })
            }
            Why::NotStarted | Why::SoldOut => None,
        }
    }

    /// Looks whether a campaign is inactive, and fetches who has a grant if it is.
    pub(crate) fn refresh(node: &Arc<Self>, meta: &Arc<CampaignMeta>) {
        {
            let mut refreshing = node.gate.refreshing.lock();
            let inactive = node.gate.inactive.read();
            let known = inactive.get(&meta.id);
            // What was not yet open has opened without anybody saying so.
            if refreshing.contains_key(&meta.id)
                || known.is_some_and(|it| it.why != Why::NotStarted)
            {
                return;
            }
            refreshing.insert(meta.id, false);
        }
        let (node, meta) = (Arc::clone(node), Arc::clone(meta));
        tokio::spawn(async move {
            let inactive = node.look(&meta).await.ok().flatten();
            let mut refreshing = node.gate.refreshing.lock();
            let news = refreshing.remove(&meta.id);
            if let (Some(inactive), Some(false)) = (inactive, news) {
                let mut all = node.gate.inactive.write();
                if all.len() >= INACTIVE_MAX {
                    all.clear();
                }
                all.insert(meta.id, Arc::new(inactive));
            }
        });
    }

    async fn look(&self, meta: &CampaignMeta) -> Result<Option<Inactive>, EngineError> {
        let before = self.part_tallies(meta).await?;
        let Some(why) = why(&before) else {
            return Ok(None);
        };
        if why == Why::SoldOut && meta.parts > 1 && !self.is_dry(meta).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        if granted > FINGERPRINTS_MAX {
            return Ok(None);
        }
        let mut holders = HashSet::with_capacity(granted);
        for part in 0..meta.parts {
            self.holders(meta, self.of_part(meta.id, part), &mut holders)
                .await?;
        }
        let after = self.part_tallies(meta).await?;
        let versions =
            |parts: &[PartTally]| parts.iter().map(|part| part.version).collect::<Vec<_>>();
        let same = versions(&before) == versions(&after)
            && before
                .iter()
                .zip(&after)
                .all(|(a, b)| a.tally.grants == b.tally.grants);
        Ok(same.then(|| Inactive {
            why,
            versions: versions(&after),
            holders,
        }))
    }

    async fn holders(
        &self,
        meta: &CampaignMeta,
        partition: PartitionId,
        holders: &mut HashSet<u64>,
    ) -> Result<(), EngineError> {
        let key = self.context.keys.users(partition, meta.id);
        let mut cursor = "0".to_owned();
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
            let (next, fields): (String, Vec<Value>) = self.read(partition, &command).await?;
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

    /// The numbers of every part.
    pub(crate) async fn part_tallies(
        &self,
        meta: &CampaignMeta,
    ) -> Result<Vec<PartTally>, EngineError> {
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for part in 0..meta.parts {
            let partition = self.of_part(meta.id, part);
            let reply = self
                .call(partition, &TALLY, meta.id, false, &|_| {})
                .await?;
            let tally = reply.is_ok().then(|| reply::tally(&reply.text())).flatten();
            let tally = tally.ok_or_else(|| EngineError::Unavailable {
                reason: format!("part {part} of campaign {} has no numbers", meta.id),
            })?;
            self.heard(tally.now);
            parts.push(tally);
        }
        Ok(parts)
    }

    /// Looks at the versions of all inactive campaigns, should news have been lost.
    pub(crate) async fn poll(&self) {
        let inactive: Vec<_> = {
            let inactive = self.gate.inactive.read();
            inactive
                .iter()
                .map(|(id, inactive)| (*id, inactive.versions.clone()))
                .collect()
        };
        for (id, versions) in inactive {
            for (part, version) in (0..).zip(versions) {
                let partition = self.of_part(id, part);
                let key = self.context.keys.campaign(partition, id);
                let command = redis::cmd("HGET").arg(key).arg("version").clone();
                let now: Result<Option<u64>, _> = self.read(partition, &command).await;
                if now != Ok(Some(version)) {
                    self.gate.forget(id);
                    break;
                }
            }
        }
    }
}

/// Why a campaign with these parts grants nothing, if it does not.
fn why(parts: &[PartTally]) -> Option<Why> {
    let all = |phase: Phase| parts.iter().all(|part| part.tally.phase == phase);
    if all(Phase::Closed) {
        return Some(Why::Closed);
    }
    if all(Phase::Paused) {
        return Some(Why::Paused);
    }
    if all(Phase::Scheduled) {
        return Some(Why::NotStarted);
    }
    let dry = parts.iter().all(|part| part.tally.remaining == 0);
    (all(Phase::Live) && dry).then_some(Why::SoldOut)
}
