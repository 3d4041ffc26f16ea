//! The numbers of campaigns, part by part: as scripts reply them, from a read replica, and added up.

use crate::{
    error::unavailable, keys::SCRIPT_KEYS, meta::CampaignMeta, partitions::Partitions,
    scripts::TALLY,
};
use qiang_core::{
    campaign::{Phase, Tally},
    event::PartitionId,
    ports::EngineError,
    time::Timestamp,
};

/// A part's numbers, and how things stood when they were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartTally {
    pub(crate) tally: Tally,
    pub(crate) now: Timestamp,
    pub(crate) version: u64,
}

impl PartTally {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let phase = phase(words.next()?)?;
        let mut next = || words.next()?.parse::<i64>().ok();
        let mut unit = || u32::try_from(next()?).ok();
        let (supply, granted, remaining, returned) = (unit()?, unit()?, unit()?, unit()?);
        let (funded_minor, claimed_minor, remaining_minor, refunded_minor) =
            (next()?, next()?, next()?, next()?);
        let tally = Tally {
            phase,
            supply,
            granted,
            remaining,
            returned,
            funded_minor,
            claimed_minor,
            remaining_minor,
            refunded_minor,
            grants: u32::try_from(next()?).ok()?,
        };
        let now = Timestamp::from_millis(next()?);
        let _seq = next()?;
        let version = next()? as u64;
        Some(Self {
            tally,
            now,
            version,
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

/// A spread campaign's numbers. Of its parts' phases it has the earliest; a pause anywhere counts before `live`.
pub(crate) fn sum(parts: &[PartTally]) -> Tally {
    let order = |phase: &Phase| match phase {
        Phase::Draft | Phase::Scheduled => 0,
        Phase::Paused => 1,
        Phase::Live => 2,
        Phase::Ended => 3,
        Phase::Closed => 4,
    };
    let phases = parts.iter().map(|part| part.tally.phase);
    let mut total = Tally {
        phase: phases.min_by_key(order).unwrap_or(Phase::Closed),
        supply: 0,
        granted: 0,
        remaining: 0,
        returned: 0,
        funded_minor: 0,
        claimed_minor: 0,
        remaining_minor: 0,
        refunded_minor: 0,
        grants: 0,
    };
    for PartTally { tally, .. } in parts {
        total.supply += tally.supply;
        total.granted += tally.granted;
        total.remaining += tally.remaining;
        total.returned += tally.returned;
        total.funded_minor += tally.funded_minor;
        total.claimed_minor += tally.claimed_minor;
        total.remaining_minor += tally.remaining_minor;
        total.refunded_minor += tally.refunded_minor;
        total.grants += tally.grants;
    }
    total
}

impl Partitions {
    /// The numbers of every part.
    pub(crate) async fn part_tallies(
        &self,
        meta: &CampaignMeta,
    ) -> Result<Vec<PartTally>, EngineError> {
        let mut parts = Vec::with_capacity(usize::from(meta.parts));
        for partition in self.of_campaign(meta) {
            let reply = self
                .call(partition, &TALLY, meta.id, false, &|command| command)
                .await?;
            let read = reply.is_ok().then(|| PartTally::parse(&reply.text()));
            let part = read.flatten().ok_or_else(|| no_numbers(meta, partition))?;
            self.clock.observe(part.now);
            parts.push(part);
        }
        Ok(parts)
    }

    /// The numbers of a campaign that is not spread, from a read replica, where there are any and one answers.
    pub(crate) async fn tally_from_replica(&self, meta: &CampaignMeta) -> Option<Tally> {
        let home = self.home(meta.id);
        let keys = self.context.keys.of_script(home, "reads", meta.id);
        let mut command = redis::cmd("EVAL_RO");
        command.arg(&TALLY.text).arg(SCRIPT_KEYS).arg(&keys);
        // A replica may be behind: only the epoch is checked.
        command
            .arg(&self.get(home).epoch)
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

pub(crate) fn no_numbers(meta: &CampaignMeta, partition: PartitionId) -> EngineError {
    unavailable(format!(
        "campaign {} has no numbers in partition {}",
        meta.id, partition.0
    ))
}
