//! Comparison of a partition with the ledger on request: all live campaigns in one run, some rows at a time.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{
        EngineError, Ledger, ReconcileResult, RepairEngine as _, SampleCursor, SampleEngine as _,
        SampleResult,
    },
    reconcile::{CampaignComparison, CampaignDifference, Difference, DifferenceKind, NotCompared},
};

use crate::engine::RedisEngine;

/// Rows compared together.
const ROWS_MAX: u32 = 1_000;
/// Maximum differences reported. With this many, the operator must find their cause first.
const FOUND_MAX: usize = 10_000;
/// Maximum comparisons of a campaign's facts, which may change in between, and the pause between two.
const FACTS_LOOKS_MAX: u32 = 20;
const FACTS_PAUSE: Duration = Duration::from_millis(20);
/// Delay before differences are checked again, because claims are decided in between.
const AGAIN: Duration = Duration::from_millis(500);

impl RedisEngine {
    /// Compares the live campaigns of a partition, for at most `time_max`.
    pub(super) async fn walk(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        time_max: Duration,
    ) -> Result<ReconcileResult, EngineError> {
        let began = Instant::now();
        let mut found = ReconcileResult {
            is_complete: true,
            ..ReconcileResult::default()
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
                let sample = self
                    .check_campaign(partition, campaign, ledger, &here)
                    .await?;
                (found.rows, next) = (found.rows + sample.rows, sample.next);
                let seen = faults(sample.differences);
                if !seen.is_empty() {
                    tokio::time::sleep(AGAIN).await;
                    let again = self
                        .check_campaign(partition, campaign, ledger, &here)
                        .await?;
                    let again = faults(again.differences);
                    found.differences.extend(seen.intersection(&again).cloned());
                }
            }
            found.campaigns += 1;
        }
        Ok(found)
    }

    /// Facts of a campaign that differ twice, or the reason why they are not compared.
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

    async fn check_campaign(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
        here: &SampleCursor,
    ) -> Result<SampleResult, EngineError> {
        let sample = self.sample(partition, campaign, ledger, here, ROWS_MAX);
        let not_now = || {
            let reason = "the partition is not open, or too many of its entries are unsettled";
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
