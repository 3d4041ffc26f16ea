//! The gate: what this node can answer by itself, so that a rush's losers do not reach Redis.
//!
//! A campaign is *quiet* when it grants nothing: not yet open, sold out, paused, or over. Then who has a grant does not
//! change either, so the node fetches that list once, as fingerprints, and from then on refuses everybody who is not on
//! it. Redis publishes news whenever a campaign's state changes in a way that matters here; a poll of the version stands
//! behind it. What is fetched is bound to the versions of all parts before and after.

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
    facts::Facts,
    keys::fnv1a,
    node::Node,
    reply::{self, PartTally},
    scripts::TALLY,
};

/// Grants of a campaign above which the gate leaves it to Redis: 8 bytes each.
const FINGERPRINTS_MAX: usize = 4_000_000;
/// Campaigns that are quiet at a time; past it, all are looked at anew.
const QUIET_MAX: usize = 4_096;
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
struct Quiet {
    why: Why,
    /// Of each part.
    versions: Vec<u64>,
    /// Fingerprints of the users who have a grant.
    holders: HashSet<u64>,
}

/// What the gate knows.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    quiet: RwLock<HashMap<CampaignId, Arc<Quiet>>>,
    /// Campaigns that are being looked at, and whether there were news meanwhile.
    studied: Mutex<HashMap<CampaignId, bool>>,
}

impl Gate {
    /// Something about the campaign has changed.
    pub(crate) fn forget(&self, campaign: CampaignId) {
        self.quiet.write().remove(&campaign);
        if let Some(news) = self.studied.lock().get_mut(&campaign) {
            *news = true;
        }
    }

    /// News may have been lost.
    pub(crate) fn forget_all(&self) {
        self.quiet.write().clear();
        for news in self.studied.lock().values_mut() {
            *news = true;
        }
    }
}

impl Node {
    /// The answer to a claim that needs no decision.
    pub(crate) fn peek(&self, claim: &Claim) -> Option<Outcome> {
        let facts = self.facts.get(claim.campaign)?;
        if claim.kind != facts.kind {
            return Some(Outcome::UnknownCampaign);
        }
        if claim.quantity == 0
            || self
                .partition(self.of_user(&facts, &claim.user))
                .is_halted()
        {
            return None;
        }
        let now = self.now();
        let margin = match self.wiring.options.clock {
            Some(_) => 0,
            None => TIME_MARGIN_MS,
        };
        let (starts_at, ends_at) = (facts.window.starts_at(), facts.window.ends_at());
        let quiet = self.gate.quiet.read().get(&facts.id).cloned()?;
        if quiet
            .holders
            .contains(&fnv1a(claim.user.as_str().as_bytes()))
        {
            return None;
        }
        let inside = now >= starts_at.plus_millis(margin) && now < ends_at.plus_millis(-margin);
        match quiet.why {
            Why::Paused => Some(Outcome::Paused),
            Why::Closed => Some(Outcome::Ended),
            Why::NotStarted if now.plus_millis(margin) < starts_at => {
                Some(Outcome::NotStarted { starts_at })
            }
            Why::SoldOut if inside && claim.quantity <= facts.limit => {
                Some(Outcome::SoldOut { remaining: 0 })
            }
            Why::NotStarted | Why::SoldOut => None,
        }
    }

    /// Looks whether a campaign is quiet, and fetches who has a grant if it is.
    pub(crate) fn study(node: &Arc<Self>, facts: &Arc<Facts>) {
        {
            let mut studied = node.gate.studied.lock();
            let quiet = node.gate.quiet.read();
            let known = quiet.get(&facts.id);
            // What was not yet open has opened without anybody saying so.
            if studied.contains_key(&facts.id) || known.is_some_and(|it| it.why != Why::NotStarted)
            {
                return;
            }
            studied.insert(facts.id, false);
        }
        let (node, facts) = (Arc::clone(node), Arc::clone(facts));
        tokio::spawn(async move {
            let quiet = node.look(&facts).await.ok().flatten();
            let mut studied = node.gate.studied.lock();
            let news = studied.remove(&facts.id);
            if let (Some(quiet), Some(false)) = (quiet, news) {
                let mut all = node.gate.quiet.write();
                if all.len() >= QUIET_MAX {
                    all.clear();
                }
                all.insert(facts.id, Arc::new(quiet));
            }
        });
    }

    async fn look(&self, facts: &Facts) -> Result<Option<Quiet>, EngineError> {
        let before = self.part_tallies(facts).await?;
        let Some(why) = why(&before) else {
            return Ok(None);
        };
        if why == Why::SoldOut && facts.parts > 1 && !self.is_dry(facts).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        if granted > FINGERPRINTS_MAX {
            return Ok(None);
        }
        let mut holders = HashSet::with_capacity(granted);
        for part in 0..facts.parts {
            self.holders(facts, self.of_part(facts.id, part), &mut holders)
                .await?;
        }
        let after = self.part_tallies(facts).await?;
        let versions =
            |parts: &[PartTally]| parts.iter().map(|part| part.version).collect::<Vec<_>>();
        let same = versions(&before) == versions(&after)
            && before
                .iter()
                .zip(&after)
                .all(|(a, b)| a.tally.grants == b.tally.grants);
        Ok(same.then(|| Quiet {
            why,
            versions: versions(&after),
            holders,
        }))
    }

    async fn holders(
        &self,
        facts: &Facts,
        partition: PartitionId,
        holders: &mut HashSet<u64>,
    ) -> Result<(), EngineError> {
        let key = self.wiring.keys.users(partition, facts.id);
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
    pub(crate) async fn part_tallies(&self, facts: &Facts) -> Result<Vec<PartTally>, EngineError> {
        let mut parts = Vec::with_capacity(usize::from(facts.parts));
        for part in 0..facts.parts {
            let partition = self.of_part(facts.id, part);
            let reply = self
                .call(partition, &TALLY, facts.id, false, &|_| {})
                .await?;
            let tally = reply.is_ok().then(|| reply::tally(&reply.text())).flatten();
            let tally = tally.ok_or_else(|| EngineError::Unavailable {
                reason: format!("part {part} of campaign {} has no numbers", facts.id),
            })?;
            self.heard(tally.now);
            parts.push(tally);
        }
        Ok(parts)
    }

    /// Looks at the versions of all quiet campaigns, should news have been lost.
    pub(crate) async fn poll(&self) {
        let quiet: Vec<_> = {
            let quiet = self.gate.quiet.read();
            quiet
                .iter()
                .map(|(id, quiet)| (*id, quiet.versions.clone()))
                .collect()
        };
        for (id, versions) in quiet {
            for (part, version) in (0..).zip(versions) {
                let partition = self.of_part(id, part);
                let key = self.wiring.keys.campaign(partition, id);
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
