//! The gate: what this node can answer by itself, so that most losers of a campaign do not reach Redis.
//!
//! A campaign is *inactive* when it grants nothing: not yet open, sold out, paused, or over. Then the set of users who
//! have a grant does not change either, so the node loads that set once, as fingerprints, and from then on refuses
//! everybody who is not in it. Redis publishes an invalidation whenever a campaign's state changes in a way that
//! matters here; a poll of the version stands behind it. What is loaded is bound to the versions of all parts before
//! and after. A node that has not run for a moment compares versions before it answers again.

#[cfg(all(test, feature = "servers"))]
mod clock_tests;
mod holders;
mod known;
mod pulse;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use qiang_core::{
    book::Claim, campaign::Phase, event::PartitionId, gate::CampaignGate, id::CampaignId,
    outcome::Outcome, ports::EngineError, time::Timestamp,
};

pub(crate) use self::pulse::BEAT_EVERY;
use self::{
    holders::{Holders, KeptHolders},
    known::Known,
    pulse::Pulse,
};
use crate::{
    intake::{admission::FromGate, admission_permits::Signal},
    partitions::Partitions,
    protocol::campaign_meta::CampaignMeta,
    shards::tally::PartTally,
};

/// Grants of a campaign above which the gate leaves it to Redis.
const HOLDERS_MAX: usize = 4_000_000;
/// Inactive campaigns that are remembered; past it, those are forgotten that nobody has asked for lately.
const INACTIVE_MAX: usize = 4_096;
/// Campaigns that are loaded at a time.
const LOADS_MAX: usize = 64;
/// How often versions are polled, in case invalidations are lost.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);
/// Campaigns whose versions are read by one call.
const POLLED_MAX: usize = 500;
/// Such calls at a time.
const POLLS_MAX: usize = 32;

/// What a node answers by itself.
pub(crate) struct Gate {
    partitions: Arc<Partitions>,
    inactive: Known<CampaignId, Inactive>,
    holders: KeptHolders,
    pulse: Pulse,
    /// Those who wait for a place may be answered when a load has ended.
    signal: Arc<Signal>,
}

/// A campaign that grants nothing.
#[derive(Debug)]
struct Inactive {
    state: CampaignGate,
    /// Of each part: its partition's term, and its version in it.
    versions: Vec<(Arc<str>, u64)>,
    /// The users who have a grant.
    holders: Arc<Holders>,
}

impl Inactive {
    /// Whether the holders are still all of them. A campaign with units left opens without an invalidation: its first
    /// grant is one.
    fn has_all_holders(&self, now: Timestamp) -> bool {
        let CampaignGate { phase, window, .. } = self.state;
        let opens = phase == Phase::Scheduled && self.state.remaining > 0;
        !opens || now < window.starts_at()
    }
}

impl Gate {
    pub(crate) fn new(partitions: Arc<Partitions>, signal: Arc<Signal>) -> Self {
        Self {
            partitions,
            signal,
            inactive: Known::new(LOADS_MAX, INACTIVE_MAX),
            holders: KeptHolders::default(),
            pulse: Pulse::new(),
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
        if claim.quantity == 0 || !partitions.get(partition).is_open() {
            return None;
        }
        let inactive = self.inactive.get(&meta.id)?;
        if inactive.holders.contain(claim.user.as_str()) || !self.pulse.is_steady() {
            return None;
        }
        let clock = partitions.clock(partition);
        let (now, margin_ms) = (clock.trusted_now()?, clock.margin_ms());
        if !inactive.has_all_holders(now.plus_millis(margin_ms)) {
            return None;
        }
        inactive
            .state
            .answer_newcomer(claim.quantity, now, margin_ms)
    }

    /// Whether the user of a claim has a grant of a campaign that is inactive, as far as is known here.
    pub(crate) fn is_holder(&self, claim: &Claim) -> bool {
        let inactive = self.inactive.get(&claim.campaign);
        inactive.is_some_and(|known| known.holders.contain(claim.user.as_str()))
    }

    /// What is known about a claim that waits for a place.
    pub(crate) fn of_waiting(&self, claim: &Claim) -> Option<FromGate> {
        match self.is_holder(claim) {
            true => Some(FromGate::Holder),
            false => self.answer(claim).map(FromGate::Answer),
        }
    }

    /// Forgets a campaign: something about it has changed.
    pub(crate) fn invalidate(&self, campaign: CampaignId) {
        self.inactive.invalidate(campaign);
    }

    /// Forgets all campaigns: invalidations may have been lost.
    pub(crate) fn invalidate_all(&self) {
        self.inactive.invalidate_all();
    }

    /// Loads, in the background, whether a campaign is inactive and who has a grant, unless that is known.
    pub(crate) fn refresh(self: &Arc<Self>, meta: &Arc<CampaignMeta>) {
        let partitions = &self.partitions;
        let times = || {
            partitions
                .of_campaign(meta)
                .map(|id| partitions.clock(id).now())
        };
        if !self.inactive.begin(meta.id, |known| {
            times().all(|now| known.has_all_holders(now))
        }) {
            return;
        }
        let (gate, meta) = (Arc::clone(self), Arc::clone(meta));
        tokio::spawn(async move {
            let loaded = gate.load(&meta).await.ok().flatten();
            gate.inactive.end(meta.id, loaded);
            gate.signal.notify();
        });
    }

    /// Takes the pulse. After a long pause invalidations may be unread, and all versions are compared before anything
    /// is answered again.
    pub(crate) async fn beat(&self) {
        if !self.pulse.beat() {
            let began = Instant::now();
            self.poll().await;
            self.pulse.compared(began);
        }
    }

    /// Compares the versions of all inactive campaigns with Redis, in case invalidations are lost: each partition's
    /// together, and several partitions' at a time, so that one that does not answer delays no other.
    pub(crate) async fn poll(&self) {
        let versions = self
            .inactive
            .collect(|id, known| (*id, known.versions.clone()));
        let mut by_partition: BTreeMap<PartitionId, Vec<(CampaignId, u64)>> = BTreeMap::new();
        for (id, versions) in versions {
            for (part, (term, version)) in (0..).zip(versions) {
                let partition = self.partitions.of_part(id, part);
                let place = self.partitions.get(partition);
                if place.is_open() && place.term() == term {
                    let known = by_partition.entry(partition).or_default();
                    known.push((id, version));
                } else {
                    self.invalidate(id);
                }
            }
        }
        let mut polls = Vec::new();
        for (partition, known) in &by_partition {
            for known in known.chunks(POLLED_MAX) {
                polls.push(self.poll_partition(*partition, known));
            }
        }
        stream::iter(polls)
            .for_each_concurrent(POLLS_MAX, |poll| poll)
            .await;
    }

    /// Forgets those of a partition's campaigns that are not at these versions, or all if Redis cannot say in time.
    async fn poll_partition(&self, partition: PartitionId, known: &[(CampaignId, u64)]) {
        let current = self
            .partitions
            .versions(partition, known.iter().map(|(id, _)| *id));
        let current = tokio::time::timeout(POLL_EVERY, current).await;
        let current = current.ok().and_then(Result::ok).unwrap_or_default();
        for (n, (id, version)) in known.iter().enumerate() {
            if current.get(n) != Some(&Some(*version)) {
                self.invalidate(*id);
            }
        }
    }

    async fn load(&self, meta: &CampaignMeta) -> Result<Option<Inactive>, EngineError> {
        let partitions = &self.partitions;
        let term = |partition| partitions.get(partition).term();
        let terms: Vec<_> = partitions.of_campaign(meta).map(term).collect();
        let before = partitions.part_tallies(meta).await?;
        let tallies = before.iter().map(|part| &part.tally);
        // Of a spread sale those that count are on their way to the other parts.
        let latest = before.iter().max_by_key(|part| part.revision);
        let latest = latest.map(|part| (part.window, part.limit));
        let state = latest
            .and_then(|(window, limit)| CampaignGate::of_parts(window, limit, tallies))
            .filter(|state| {
                let mut times = partitions
                    .of_campaign(meta)
                    .map(|id| partitions.clock(id).now());
                times.all(|now| state.is_inactive(now))
            });
        let Some(state) = state else {
            return Ok(None);
        };
        // Units may be moving between parts that have none.
        if state.remaining == 0 && meta.parts > 1 && !partitions.is_dry(meta).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        // A clock that was set back takes a campaign behind its start that may be granting again a moment later,
        // without a change of its version: whoever has a grant of it could be told that it has not started.
        let was_open = state.phase == Phase::Scheduled && state.remaining > 0 && granted > 0;
        if granted > HOLDERS_MAX || was_open {
            return Ok(None);
        }
        let holders = self.holders.load(partitions, meta, &terms, &before).await?;
        let after = partitions.part_tallies(meta).await;
        let stamp = |part: &PartTally| (part.version, part.tally.grants);
        let is_unchanged =
            |after: &Vec<PartTally>| before.iter().map(stamp).eq(after.iter().map(stamp));
        let is_over =
            |after: &Vec<PartTally>| after.iter().any(|part| part.tally.phase == Phase::Closed);
        if !after
            .as_ref()
            .is_ok_and(|after| is_unchanged(after) || !is_over(after))
        {
            // The campaign may have left while they were read: then not all of them are known.
            self.holders.forget(meta.id);
        }
        let after = after?;
        let is_unchanged = is_unchanged(&after);
        let versions = after.iter().map(|part| part.version);
        Ok(is_unchanged.then(|| Inactive {
            state,
            versions: terms.into_iter().zip(versions).collect(),
            holders,
        }))
    }
}

/// Whether the campaign of a claim that ended so may be inactive.
pub(crate) fn hints_inactive(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::SoldOut { .. } | Outcome::Paused | Outcome::Ended | Outcome::NotStarted { .. }
    )
}
