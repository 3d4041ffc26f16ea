//! Counters of campaigns, per shard: from scripts, from a read replica, and summed.

use futures_util::future::join_all;

use crate::{
    connection::{eval, unavailable},
    partitions::Partitions,
    protocol::{campaign_meta::CachedCampaign, scripts::TALLY},
};
use qiang_core::{
    admission::AdmissionBound,
    campaign::{Phase, SaleSettings, Tally},
    event::PartitionId,
    id::CampaignId,
    ports::EngineError,
    time::{Timestamp, Window},
};

const VERSIONS: &str = include_str!("../lua/versions.lua");

/// Counters of a shard, and its state when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartTally {
    pub(crate) tally: Tally,
    pub(crate) now: Timestamp,
    pub(crate) version: u64,
    /// When claims are accepted, and the maximum units per user.
    pub(crate) window: Window,
    pub(crate) limit: u32,
    /// Revision of the sale's terms.
    pub(crate) revision: u64,
    /// The last ordinal that was issued. A sale may skip ordinals, so it may exceed the number of grants.
    pub(crate) numbered: u32,
}

impl PartTally {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let phase = phase(words.next()?)?;
        let mut next = || words.next()?.parse::<i64>().ok();
        let mut unit = || u64::try_from(next()?).ok();
        let (supply, granted, remaining, returned) = (unit()?, unit()?, unit()?, unit()?);
        let (funded_minor, claimed_minor, remaining_minor, refunded_minor) =
            (next()?, next()?, next()?, next()?);
        let mut tally = Tally {
            phase,
            supply,
            granted,
            remaining,
            returned,
            withheld: 0,
            funded_minor,
            claimed_minor,
            remaining_minor,
            refunded_minor,
            withheld_minor: 0,
            grants: u32::try_from(next()?).ok()?,
            terms: None,
        };
        let now = Timestamp::from_millis(next()?);
        let _seq = next()?;
        let version = next()? as u64;
        let mut instant = || Some(Timestamp::from_millis(next()?));
        let window = Window::new(instant()?, instant()?).ok()?;
        let limit = u32::try_from(next()?).ok()?;
        let unit_price_minor = next()?;
        let revision = next()? as u64;
        let admission = AdmissionBound::from_percent(next()?.try_into().ok()?).ok()?;
        tally.withheld = next()?.try_into().ok()?;
        tally.withheld_minor = next()?;
        let numbered = u32::try_from(next()?).ok()?;
        // A packet has no price, and its terms never change.
        tally.terms = (unit_price_minor >= 0).then_some(SaleSettings {
            window,
            per_user_limit: limit,
            unit_price_minor,
            admission,
        });
        Some(Self {
            tally,
            now,
            version,
            window,
            limit,
            revision,
            numbered,
        })
    }
}

pub(crate) fn phase(word: &str) -> Option<Phase> {
    match word {
        "s" => Some(Phase::Scheduled),
        "l" => Some(Phase::Live),
        "p" => Some(Phase::Paused),
        "e" => Some(Phase::Ended),
        "c" => Some(Phase::Closed),
        _ => None,
    }
}

/// Counters of a campaign, from those of its shards; there is at least one. The campaign is paused if any shard is.
/// Else its phase is the earliest: scheduled before live, live before ended.
pub(crate) fn sum(parts: &[PartTally]) -> Option<Tally> {
    let order = |phase: &Phase| match phase {
        Phase::Paused => 0,
        Phase::Draft | Phase::Scheduled => 1,
        Phase::Live => 2,
        Phase::Ended => 3,
        Phase::Closed => 4,
    };
    // If a shard has not followed yet, the latest terms count.
    let latest = parts.iter().max_by_key(|part| part.revision);
    let terms = latest.and_then(|part| part.tally.terms);
    let tallies = parts.iter().map(|part| part.tally);
    tallies.reduce(|sum, part| Tally {
        phase: std::cmp::min_by_key(sum.phase, part.phase, order),
        supply: sum.supply + part.supply,
        granted: sum.granted + part.granted,
        remaining: sum.remaining + part.remaining,
        returned: sum.returned + part.returned,
        withheld: sum.withheld + part.withheld,
        funded_minor: sum.funded_minor + part.funded_minor,
        claimed_minor: sum.claimed_minor + part.claimed_minor,
        remaining_minor: sum.remaining_minor + part.remaining_minor,
        refunded_minor: sum.refunded_minor + part.refunded_minor,
        withheld_minor: sum.withheld_minor + part.withheld_minor,
        grants: sum.grants + part.grants,
        terms,
    })
}

impl Partitions {
    /// Counters of each shard.
    pub(crate) async fn part_tallies(
        &self,
        meta: &CachedCampaign,
    ) -> Result<Vec<PartTally>, EngineError> {
        let parts = self.for_campaign(meta);
        let tallies = parts.map(|partition| self.part_tally(meta, partition));
        join_all(tallies).await.into_iter().collect()
    }

    async fn part_tally(
        &self,
        meta: &CachedCampaign,
        partition: PartitionId,
    ) -> Result<PartTally, EngineError> {
        let reply = self
            .call(partition, &TALLY, meta.id, None, &|command| command)
            .await?;
        let read = reply.is_ok().then(|| PartTally::parse(&reply.text()));
        let part = read.flatten().ok_or_else(|| no_numbers(meta, partition))?;
        self.clock(partition).observe(part.now);
        Ok(part)
    }

    /// Versions of campaigns or their shards in one partition, in their order; `None` if Redis lacks one.
    pub(crate) async fn versions(
        &self,
        partition: PartitionId,
        campaigns: impl Iterator<Item = CampaignId>,
    ) -> Result<Vec<Option<u64>>, EngineError> {
        let key = |campaign| self.keys().campaign(partition, campaign);
        let keys: Vec<String> = campaigns.map(key).collect();
        let versions: Vec<String> = self.query(partition, &eval(VERSIONS, &keys)).await?;
        let versions = versions.iter().map(|version| version.parse().ok());
        Ok(versions.collect())
    }

    /// Counters of a campaign that is not spread, from a read replica, if one answers.
    pub(crate) async fn tally_from_replica(&self, meta: &CachedCampaign) -> Option<Tally> {
        let home = self.home(meta.id);
        let keys = self.keys().for_script(home, "reads", meta.id);
        let mut command = redis::cmd("EVAL_RO");
        command.arg(&TALLY.text).arg(TALLY.keys);
        command.arg(&keys[..TALLY.keys]);
        // A replica may lag, so only the epoch is checked.
        command
            .arg(format!("epoch {}", self.get(home).epoch()?))
            .arg(0)
            .arg(self.context.script_time())
            .arg(0)
            .arg(0)
            .arg(meta.id.to_string());
        let answer = self.context.directory.query_replica(&command).await;
        let (status, text): (String, String) = answer?;
        let part = (status == "ok")
            .then(|| PartTally::parse(&text))
            .flatten()?;
        Some(part.tally)
    }
}

pub(crate) fn no_numbers(meta: &CachedCampaign, partition: PartitionId) -> EngineError {
    unavailable(format!(
        "campaign {} has no counters in partition {}",
        meta.id, partition.0
    ))
}
