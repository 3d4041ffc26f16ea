//! Gate: answers claims that need no decision, so most unsuccessful claims of a campaign never reach Redis.
//!
//! A campaign is *inactive* while it grants nothing: not yet open, sold out, paused, or over. Then the set of users who
//! have a grant does not change either. So the node loads that set once, as fingerprints, and refuses all other users.
//! Redis publishes an invalidation whenever a campaign's state changes in a way that matters here. A poll of the
//! versions covers lost invalidations. Loaded data is valid only if the versions of all shards are equal before and
//! after the load. After a pause, a node compares versions before it answers again.

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
    known::BackgroundValues,
    pulse::Pulse,
};
use crate::{
    intake::{admission::FromGate, admission_permits::AdmissionSignal},
    partitions::Partitions,
    protocol::campaign_meta::CachedCampaign,
    shards::tally::PartTally,
};

/// Maximum grants of a campaign whose holders the gate loads; Redis answers claims of larger ones.
const HOLDERS_MAX: usize = 4_000_000;
/// Maximum inactive campaigns remembered. Past it, campaigns that were not requested recently are forgotten.
const INACTIVE_MAX: usize = 4_096;
/// Campaigns that are loaded at a time.
const LOADS_MAX: usize = 64;
/// Interval at which versions are polled, in case invalidations are lost.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);
/// Campaigns whose versions are read by one call.
const POLLED_MAX: usize = 500;
/// Maximum concurrent calls of a poll.
const POLLS_MAX: usize = 32;

/// Cache that answers claims on this node.
pub(crate) struct Gate {
    partitions: Arc<Partitions>,
    inactive: BackgroundValues<CampaignId, Inactive>,
    holders: KeptHolders,
    pulse: Pulse,
    /// Wakes claims that wait for an admission permit, because a finished load may answer them.
    signal: Arc<AdmissionSignal>,
}

/// A campaign that grants nothing.
#[derive(Debug)]
struct Inactive {
    state: CampaignGate,
    /// Per shard: its partition's term, and its version there.
    versions: Vec<(Arc<str>, u64)>,
    /// The users who have a grant.
    holders: Arc<Holders>,
}

impl Inactive {
    /// Whether `holders` is still complete. A campaign with units left opens without an invalidation; its first grant
    /// causes one.
    fn has_all_holders(&self, now: Timestamp) -> bool {
        let CampaignGate { phase, window, .. } = self.state;
        let opens = phase == Phase::Scheduled && self.state.remaining > 0;
        !opens || now < window.starts_at()
    }
}

impl Gate {
    pub(crate) fn new(partitions: Arc<Partitions>, signal: Arc<AdmissionSignal>) -> Self {
        Self {
            partitions,
            signal,
            inactive: BackgroundValues::new(LOADS_MAX, INACTIVE_MAX),
            holders: KeptHolders::default(),
            pulse: Pulse::new(),
        }
    }

    /// The answer to a claim that needs no decision; `None` if Redis must be asked.
    pub(crate) fn answer(&self, claim: &Claim) -> Option<Outcome> {
        let partitions = &self.partitions;
        let meta = partitions.known_meta(claim.campaign)?;
        if claim.kind != meta.kind {
            return Some(Outcome::UnknownCampaign);
        }
        let partition = partitions.for_user(&meta, &claim.user);
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

    /// Whether the user of a claim has a grant of an inactive campaign, as far as this node knows.
    pub(crate) fn is_holder(&self, claim: &Claim) -> bool {
        let inactive = self.inactive.get(&claim.campaign);
        inactive.is_some_and(|known| known.holders.contain(claim.user.as_str()))
    }

    /// Knowledge about a claim that waits for an admission permit.
    pub(crate) fn for_waiting_claim(&self, claim: &Claim) -> Option<FromGate> {
        match self.is_holder(claim) {
            true => Some(FromGate::Holder),
            false => self.answer(claim).map(FromGate::Answer),
        }
    }

    /// Forgets a campaign after a change.
    pub(crate) fn invalidate(&self, campaign: CampaignId) {
        self.inactive.invalidate(campaign);
    }

    /// Forgets all campaigns, because invalidations may have been lost.
    pub(crate) fn invalidate_all(&self) {
        self.inactive.invalidate_all();
    }

    /// Starts a background load of a campaign's state and holders, unless they are known.
    pub(crate) fn refresh(self: &Arc<Self>, meta: &Arc<CachedCampaign>) {
        let partitions = &self.partitions;
        let times = || {
            partitions
                .for_campaign(meta)
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

    /// Records that the process runs. After a long pause invalidations may be unread, so all versions are compared
    /// before the gate answers again.
    pub(crate) async fn beat(&self) {
        if !self.pulse.beat() {
            let began = Instant::now();
            self.poll().await;
            self.pulse.compared(began);
        }
    }

    /// Compares the versions of all inactive campaigns with Redis, in case invalidations are lost. Each call reads
    /// campaigns of one partition. Several calls run at a time, so an unreachable partition delays no other.
    pub(crate) async fn poll(&self) {
        let versions = self
            .inactive
            .collect(|id, known| (*id, known.versions.clone()));
        let mut by_partition: BTreeMap<PartitionId, Vec<(CampaignId, u64)>> = BTreeMap::new();
        for (id, versions) in versions {
            for (part, (term, version)) in (0..).zip(versions) {
                let partition = self.partitions.for_part(id, part);
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

    /// Forgets campaigns of a partition whose versions differ, or all of them if Redis does not answer in time.
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

    async fn load(&self, meta: &CachedCampaign) -> Result<Option<Inactive>, EngineError> {
        let partitions = &self.partitions;
        let term = |partition| partitions.get(partition).term();
        let terms: Vec<_> = partitions.for_campaign(meta).map(term).collect();
        let before = partitions.part_tallies(meta).await?;
        let tallies = before.iter().map(|part| &part.tally);
        // The latest terms of a spread sale may not have reached all shards.
        let latest = before.iter().max_by_key(|part| part.revision);
        let latest = latest.map(|part| (part.window, part.limit));
        let state = latest
            .and_then(|(window, limit)| CampaignGate::from_parts(window, limit, tallies))
            .filter(|state| {
                let mut times = partitions
                    .for_campaign(meta)
                    .map(|id| partitions.clock(id).now());
                times.all(|now| state.is_inactive(now))
            });
        let Some(state) = state else {
            return Ok(None);
        };
        // Units may be moving between shards that have none.
        if state.remaining == 0 && meta.parts > 1 && !partitions.is_dry(meta).await? {
            return Ok(None);
        }
        let granted: usize = before.iter().map(|part| part.tally.grants as usize).sum();
        // A clock that was set back moves a campaign before its start. It may grant again a moment later without a new
        // version. Then a user with a grant could receive "not started".
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
            // The campaign may have been evicted during the read, so holders may be missing.
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

/// Whether this outcome of a claim suggests that its campaign is inactive.
pub(crate) fn hints_inactive(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::SoldOut { .. } | Outcome::Paused | Outcome::Ended | Outcome::NotStarted { .. }
    )
}
