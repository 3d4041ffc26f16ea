//! Compares facts of campaigns in all partitions, and repairs them from the side that the operator names.

use std::collections::{BTreeMap, BTreeSet};

use qiang::{
    Operator,
    maintenance::{CampaignFindings, Maintenance, RepairOutcome},
};
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    reconcile::{CampaignRefusal, CampaignSource, NotCompared},
};

use super::found::{
    AgreedCampaign, CampaignFindingRow, NotComparedRow, PendingCampaign, ReconcileFindings,
    RefusedCampaign, RepairedCampaign,
};

/// Findings about the campaigns of each partition.
pub(super) struct CampaignReport(BTreeMap<PartitionId, CampaignFindings>);

impl CampaignReport {
    /// Compares one campaign, or all live campaigns.
    pub(super) async fn compare(
        maintenance: &Maintenance,
        only: Option<CampaignId>,
    ) -> anyhow::Result<Self> {
        let mut found = Self(BTreeMap::new());
        for partition in maintenance.partitions() {
            found.compare_again(maintenance, partition, only).await?;
        }
        Ok(found)
    }

    /// Compares the campaigns of a changed partition again.
    pub(super) async fn compare_again(
        &mut self,
        maintenance: &Maintenance,
        partition: PartitionId,
        only: Option<CampaignId>,
    ) -> anyhow::Result<()> {
        let found = maintenance.compare_campaigns(partition, only).await?;
        self.0.insert(partition, found);
        Ok(())
    }

    /// Repairs campaigns that differ. A campaign with several shards is repaired by its first shard.
    pub(super) async fn repair(
        &mut self,
        maintenance: &Maintenance,
        (by, source): (&Operator, CampaignSource),
        found: &mut ReconcileFindings,
    ) -> anyhow::Result<()> {
        let mut changed = BTreeSet::new();
        // The last entry of each partition that must be settled.
        let mut entries = BTreeMap::new();
        let mut unsettled = Vec::new();
        for (partition, findings) in &self.0 {
            for differing in &findings.differing {
                changed.insert(*partition);
                let compared = &differing.compared;
                let repair = maintenance.repair_campaign(compared, source, by).await;
                if let Some((home, entry)) = repair.settled_with {
                    entries.insert(home, entry);
                    unsettled.push((home, compared.campaign));
                }
                let (partition, campaign) = (partition.0, compared.campaign.to_string());
                let is_overwritten = repair.is_overwritten;
                let refused = |campaign, reason| RefusedCampaign {
                    partition,
                    campaign,
                    reason,
                    applied: repair.applied.clone(),
                    is_overwritten,
                };
                match repair.outcome {
                    // The other campaigns are still repaired and listed.
                    RepairOutcome::Failed(error) => {
                        found.refused.push(refused(campaign, format!("{error:#}")));
                    }
                    RepairOutcome::Repaired => found.repaired_campaigns.push(RepairedCampaign {
                        partition,
                        campaign,
                        from: source.name(),
                        applied: repair.applied,
                    }),
                    RepairOutcome::Agreed => found.agreed_campaigns.push(AgreedCampaign {
                        partition,
                        campaign,
                        is_overwritten,
                    }),
                    // The repair of its first shard covers it. Remaining differences are reported below.
                    RepairOutcome::Refused(CampaignRefusal::NotFirst) => {}
                    RepairOutcome::Refused(reason) => {
                        found.refused.push(refused(campaign, reason.to_string()));
                    }
                }
            }
        }
        let pending = maintenance.pending_settlement(&entries).await?;
        unsettled.retain(|(home, _)| pending.contains(home));
        found.pending_campaigns = unsettled
            .into_iter()
            .map(|(home, campaign)| PendingCampaign {
                partition: home.0,
                campaign: campaign.to_string(),
            })
            .collect();
        for partition in changed {
            self.compare_again(maintenance, partition, None).await?;
        }
        let left = self.0.values().flat_map(|findings| &findings.differing);
        let left = left.filter(|differing| differing.compared.index > 0);
        found.refused.extend(left.map(|differing| RefusedCampaign {
            partition: differing.compared.partition.0,
            campaign: differing.compared.campaign.to_string(),
            reason: CampaignRefusal::NotFirst.to_string(),
            applied: Vec::new(),
            is_overwritten: false,
        }));
        Ok(())
    }

    /// Campaigns with unreadable rows. A halted partition does not report its own.
    pub(super) fn unreadable(&self) -> BTreeSet<CampaignId> {
        let found = self.0.values();
        found.flat_map(CampaignFindings::unreadable).collect()
    }

    /// Whether a repair of the partition's rows is not allowed yet. It would copy campaign facts from a side that the
    /// operator has not named, or fail at an unreadable campaign.
    pub(super) fn are_undecided(&self, partition: PartitionId) -> bool {
        let Some(found) = self.0.get(&partition) else {
            return false;
        };
        let may_differ = |reason: &NotCompared| {
            use NotCompared::{Changing, Lag, Quarantined};
            matches!(reason, Quarantined | Changing | Lag) || reason.is_unreadable()
        };
        let mut reasons = found.not_compared.iter().map(|(_, reason)| reason);
        !found.differing.is_empty() || reasons.any(may_differ)
    }

    /// Reports differences, and campaigns that were not compared.
    pub(super) fn tell(&self, found: &mut ReconcileFindings) {
        for (partition, findings) in &self.0 {
            let partition = partition.0;
            let differing = findings.differing.iter().flat_map(|it| &it.differences);
            let rows = differing.map(|difference| CampaignFindingRow {
                partition,
                kind: difference.kind.name(),
                campaign: difference.campaign.to_string(),
                engine: difference.engine.clone(),
                ledger: difference.ledger.clone(),
            });
            found.campaign_differences.extend(rows);
            let not_compared = findings.not_compared.iter();
            // The partition of its first shard reports it.
            let not_compared = not_compared
                .filter(|(_, reason)| !matches!(reason, NotCompared::UnreadableElsewhere(_)));
            let rows = not_compared.map(|(campaign, reason)| NotComparedRow {
                partition,
                campaign: campaign.map(|campaign| campaign.to_string()),
                reason: reason.to_string(),
            });
            found.not_compared.extend(rows);
        }
    }
}
