//! A partition held against the ledger because somebody asks: what is live of it, some rows at a time, in one go.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{
        EngineError, Ledger, Reconciled, RepairEngine as _, Sample, SampleCursor, SampleEngine as _,
    },
    reconcile::{CampaignComparison, CampaignDifference, Difference, DifferenceKind, NotCompared},
};

use crate::engine::RedisEngine;

/// Rows that are looked at together.
const ROWS_MAX: u32 = 1_000;
/// Differences that are named. Whoever has so many looks for their cause first.
const FOUND_MAX: usize = 10_000;
/// Times that the facts of a campaign are compared, which may change meanwhile, and the pause between.
const FACTS_LOOKS_MAX: u32 = 20;
const FACTS_PAUSE: Duration = Duration::from_millis(20);
/// What differs is looked at again after so long: claims are decided meanwhile.
const AGAIN: Duration = Duration::from_millis(500);

impl RedisEngine {
    /// Goes through what is live of a partition, for so long at most.
    pub(super) async fn walk(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        time_max: Duration,
    ) -> Result<Reconciled, EngineError> {
        let began = Instant::now();
        let mut found = Reconciled {
            is_complete: true,
            ..Reconciled::default()
        };
        for campaign in self.live_campaigns(partition, ledger).await? {
            if began.elapsed() >= time_max {
                found.is_complete = false;
                return Ok(found);
            }
            match self.look_at_facts(partition, campaign, ledger).await? {
                Ok(differences) => found.campaign_differences.extend(differences),
                Err(reason) => {
                    found.is_complete = false;
                    if reason.is_unreadable() {
                        continue;
                    }
                }
            }
            let mut next = Some(SampleCursor::default());
            while let Some(here) = next {
                if began.elapsed() >= time_max || found.differences.len() >= FOUND_MAX {
                    found.is_complete = false;
                    return Ok(found);
                }
                let sample = self.look(partition, campaign, ledger, &here).await?;
                (found.rows, next) = (found.rows + sample.rows, sample.next);
                let seen = faults(sample.differences);
                if !seen.is_empty() {
                    tokio::time::sleep(AGAIN).await;
                    let again = self.look(partition, campaign, ledger, &here).await?;
                    let again = faults(again.differences);
                    found.differences.extend(seen.intersection(&again).cloned());
                }
            }
            found.campaigns += 1;
        }
        Ok(found)
    }

    /// Facts of a campaign that differ twice, or why they are not compared.
    async fn look_at_facts(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<Result<Vec<CampaignDifference>, NotCompared>, EngineError> {
        let mut seen: Option<Vec<CampaignDifference>> = None;
        let mut reason = NotCompared::Changing;
        for _ in 0..FACTS_LOOKS_MAX {
            let compared = self.compare_campaign(partition, campaign, ledger).await?;
            let differences = match compared {
                CampaignComparison::Absent
                | CampaignComparison::Unsettled(NotCompared::NotInEngine) => Vec::new(),
                CampaignComparison::Compared(compared) => compared.differences(),
                CampaignComparison::NotCompared(reason) => return Ok(Err(reason)),
                CampaignComparison::Unsettled(why) => {
                    reason = why;
                    tokio::time::sleep(FACTS_PAUSE).await;
                    continue;
                }
            };
            match seen {
                _ if differences.is_empty() => return Ok(Ok(differences)),
                Some(mut seen) => {
                    seen.retain(|difference| differences.contains(difference));
                    return Ok(Ok(seen));
                }
                None => seen = Some(differences),
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(Err(reason))
    }

    async fn look(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
        here: &SampleCursor,
    ) -> Result<Sample, EngineError> {
        let sample = self.sample(partition, campaign, ledger, here, ROWS_MAX);
        let not_now = || {
            let reason = "the partition is not open, or too much of it waits for the ledger";
            EngineError::unavailable(reason)
        };
        sample.await?.ok_or_else(not_now)
    }
}

fn faults(differences: Vec<Difference>) -> BTreeSet<Difference> {
    let differences = differences.into_iter();
    differences
        .filter(|it| it.kind != DifferenceKind::InFlight)
        .collect()
}
