//! Groups of partitions that share spread campaigns, and their repair by one process.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use qiang_core::{
    event::PartitionId,
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairAttempt, RepairEngine as _, RepairReport},
    reconcile::Repair,
};

use super::{Evidence, engine_error_from_ledger, sides::CampaignRead};
use crate::{
    connection::{PartitionHealth, unavailable},
    engine::RedisEngine,
    repair::rebuild::{REPAIRER_MS, Rebuild},
    repair_offer::Loss,
};

/// Interval at which a repairer renews its leases.
const RENEW_EVERY: Duration = Duration::from_millis(REPAIRER_MS / 5);
/// Campaigns that are repaired at a time, because a repair mostly waits for answers. All their rows are in memory.
const CAMPAIGNS_AT_A_TIME: usize = 8;

/// Maximum attempts of one repair, each of which may find campaigns that the ledger cannot read.
const ATTEMPTS_MAX: usize = 3;

/// A partition that this process repairs.
pub(super) struct HeldEntries<'a> {
    pub(super) rebuild: Rebuild<'a>,
    /// Attempt whose writes the ledger accepts.
    pub(super) attempt: RepairAttempt,
    pub(super) loss: Loss,
    /// Whether all nodes have offered their answers.
    pub(super) all: bool,
}

impl RedisEngine {
    /// Returns a partition with its loss, and the partitions that also lost something and have shards of the same
    /// campaigns. The content of one shard follows from the others.
    pub(super) async fn group(
        &self,
        partition: PartitionId,
        loss: Loss,
        ledger: &dyn Ledger,
    ) -> Result<BTreeMap<PartitionId, Loss>, EngineError> {
        let partitions = &self.node.partitions;
        let mut others = BTreeMap::new();
        for other in partitions.list().iter().map(|other| other.id) {
            let has_lost = matches!(
                partitions.state(other),
                PartitionHealth::Halted { lost: Some(_), .. }
            );
            if has_lost && other != partition {
                let loss = partitions.loss(other).await?;
                others.extend(loss.map(|loss| (other, loss)));
            }
        }
        let mut group = BTreeMap::from([(partition, loss)]);
        let mut next = vec![partition];
        let mut known: BTreeMap<CampaignId, Option<u16>> = BTreeMap::new();
        while let Some(partition) = next.pop().filter(|_| !others.is_empty()) {
            let loss = &group[&partition];
            for campaign in self.campaigns_to_repair(partition, ledger, loss).await? {
                let parts = match known.get(&campaign) {
                    Some(parts) => *parts,
                    None => self.parts_or_outline(ledger, campaign).await?,
                };
                known.insert(campaign, parts);
                let place = parts.and_then(|parts| partitions.index_of(partition, campaign, parts));
                for index in 0..place.map_or(0, |(parts, _)| parts) {
                    let other = partitions.for_part(campaign, index);
                    if let Some(loss) = others.remove(&other) {
                        group.insert(other, loss);
                        next.push(other);
                    }
                }
                if others.is_empty() {
                    break;
                }
            }
        }
        Ok(group)
    }

    /// Number of shards of a campaign, even if the ledger cannot read it.
    async fn parts_or_outline(
        &self,
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<Option<u16>, EngineError> {
        let partitions = &self.node.partitions;
        let home = partitions.home(campaign);
        let settled = match ledger.settled_part(campaign, home).await {
            Err(LedgerError::Damaged { .. }) => {
                let outline = partitions.parts_of_unreadable(ledger, campaign).await?;
                return Ok(outline.map(|(parts, _)| parts));
            }
            settled => settled.map_err(engine_error_from_ledger)?,
        };
        match settled {
            Some(settled) => {
                let (parts, _) = partitions.parts_in(campaign, &settled).await?;
                Ok(Some(parts))
            }
            None => Ok(None),
        }
    }

    /// Acquires the repair of partitions for this process. `None` if another process has one of them, or if nodes may
    /// still offer answers.
    pub(super) async fn hold(
        &self,
        group: BTreeMap<PartitionId, Loss>,
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<Option<Vec<HeldEntries<'_>>>, EngineError> {
        let partitions = &self.node.partitions;
        let (mut held, mut is_early) = (Vec::new(), false);
        // All processes acquire them in the same order.
        for (partition, loss) in group {
            let rebuild = Rebuild::new(partitions, partition);
            // Read before this process acquires the repair: if another process takes it over, this one cannot claim the
            // attempt.
            let last = ledger
                .last_attempt(partition)
                .await
                .map_err(engine_error_from_ledger);
            let begun = match last {
                Ok(_) => rebuild.begin().await,
                Err(_) => Ok(None),
            };
            let offers = partitions.has_all_offers(partition, &loss).await;
            let (last, waited, all) = match (last, begun, offers) {
                (Ok(last), Ok(Some(waited)), Ok(all)) => (last, waited, all),
                (last, begun, offers) => {
                    self.give_up(&held).await;
                    return last.and(begun).and(offers).map(|_| None);
                }
            };
            let attempt = RepairAttempt {
                partition,
                number: last + 1,
                repairer: rebuild.name().to_owned(),
            };
            // If the state is gone, so is the list of nodes. So nodes get time to appear.
            let all = all && !loss.epoch.is_empty();
            is_early |= !all && !at_once && waited < partitions.options().term_grace;
            held.push(HeldEntries {
                rebuild,
                attempt,
                loss,
                all,
            });
        }
        if is_early {
            self.give_up(&held).await;
            return Ok(None);
        }
        // Claimed before anything is read: a later attempt reads what this one has written.
        for own in &held {
            let claimed = ledger.claim_repair(&own.attempt).await;
            if let Err(error) = claimed {
                self.give_up(&held).await;
                return match error {
                    LedgerError::StaleRepairAttempt { .. } => Ok(None),
                    error => Err(engine_error_from_ledger(error)),
                };
            }
        }
        Ok(Some(held))
    }

    /// Releases partitions for the next process. If that fails, their leases expire.
    pub(super) async fn give_up(&self, held: &[HeldEntries<'_>]) {
        for held in held {
            let _: Result<(), EngineError> = held.rebuild.give_up().await;
        }
    }

    /// Repairs partitions that this process holds, and renews their leases until the repair ends.
    pub(super) async fn repair_held(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<BTreeMap<PartitionId, RepairReport>, EngineError> {
        let renew = async {
            loop {
                tokio::time::sleep(RENEW_EVERY).await;
                for held in held {
                    // A partition that is repaired by now has no repairer.
                    held.rebuild.begin().await?;
                }
            }
        };
        tokio::select! {
            reports = self.repair_all(held, ledger, at_once) => reports,
            lost = renew => lost,
        }
    }

    /// Repairs partitions. Starts again after campaigns were found that must be taken out of service.
    async fn repair_all(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<BTreeMap<PartitionId, RepairReport>, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(reports) = self.repair_once(held, ledger, at_once).await? {
                return Ok(reports);
            }
        }
        Err(unavailable(
            "the ledger cannot read further campaigns: the repair starts again",
        ))
    }

    /// One attempt; `None` if it has recorded campaigns that must be taken out of service.
    async fn repair_once(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<Option<BTreeMap<PartitionId, RepairReport>>, EngineError> {
        let began = tokio::time::Instant::now();
        for held in held {
            let (partition, attempt) = (held.rebuild.partition.0, held.attempt.number);
            tracing::debug!(partition, attempt, at_once, "repair: began");
        }
        if !at_once {
            // Checked before the ledger's position moves past the loss.
            for held in held {
                self.check_ledger(held.rebuild.partition, ledger).await?;
            }
        }
        let mut evidence = Vec::new();
        for held in held {
            evidence.push(self.evidence(held, ledger).await?);
        }
        let mut campaigns = BTreeSet::new();
        for (held, evidence) in held.iter().zip(&evidence) {
            let live = self.live_campaigns(held.rebuild.partition, ledger).await?;
            campaigns.extend(live);
            campaigns.extend(evidence.kept.keys());
            campaigns.extend(&evidence.damaged);
            campaigns.extend(&evidence.late);
            campaigns.extend(&evidence.suspended);
        }
        tracing::debug!(
            partitions = held.len(),
            campaigns = campaigns.len(),
            "repair: read what is left"
        );
        let mut reports: Vec<RepairReport> = evidence
            .iter()
            .map(|evidence| RepairReport {
                unnamed: evidence.noted.unnamed,
                out_of_service: evidence.suspended.len() as u64,
                ..RepairReport::default()
            })
            .collect();
        let evidence_now = &evidence[..];
        let mut repairs = stream::iter(campaigns)
            .map(async |campaign| {
                self.repair_or_note(held, ledger, campaign, evidence_now)
                    .await
            })
            .buffered(CAMPAIGNS_AT_A_TIME);
        let mut has_noted = false;
        while let Some(repaired) = repairs.try_next().await? {
            has_noted |= repaired.is_none();
            for (place, repair) in repaired.into_iter().flatten() {
                note(&repair, &mut reports[place]);
            }
        }
        drop(repairs);
        if has_noted {
            tracing::debug!("repair: begins again, without the campaigns that cannot be read");
            return Ok(None);
        }
        for ((held, report), evidence) in held.iter().zip(&reports).zip(&evidence) {
            let new = &evidence.noted.epoch;
            held.rebuild.check().await?;
            let end = *evidence.end.lock().await;
            let finished = ledger.finish_repair(new, end, &held.attempt);
            finished.await.map_err(engine_error_from_ledger)?;
            let epoch = (new.as_str(), evidence.noted.accounted);
            held.rebuild.end(&held.loss, epoch, report).await?;
            let partition = held.rebuild.partition.0;
            tracing::debug!(
                partition,
                epoch = new.as_str(),
                end,
                "repair: new epoch began"
            );
            self.node.partitions.get(held.rebuild.partition).suspect();
        }
        self.node.gate.invalidate_all();
        tracing::info!(
            partitions = held.len(),
            millis = began.elapsed().as_millis() as u64,
            "partitions repaired"
        );
        let ids = held.iter().map(|held| held.rebuild.partition);
        Ok(Some(ids.zip(reports).collect()))
    }

    /// Repairs one campaign, or takes it out of service; `None` if the next attempt must do that.
    async fn repair_or_note(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        campaign: CampaignId,
        evidence: &[Evidence],
    ) -> Result<Option<Vec<(usize, Repair)>>, EngineError> {
        match self
            .suspend_everywhere(held, ledger, campaign, evidence)
            .await?
        {
            Some(false) => {}
            Some(true) => return Ok(Some(Vec::new())),
            None => return Ok(None),
        }
        let members = match self.read_campaign(held, ledger, campaign).await? {
            CampaignRead::Members(members) => members,
            CampaignRead::Unreadable(reason) => {
                let unreadable = (campaign, reason.as_str());
                let noted = self.note_unreadable(held, ledger, unreadable, evidence);
                return Ok((!noted.await?).then(Vec::new));
            }
        };
        let noted = self.note_quarantined(held, ledger, &members, evidence);
        if noted.await? {
            return Ok(None);
        }
        let repaired = self.repair_campaign(held, ledger, members, evidence).await;
        let is_repaired = repaired.is_ok();
        tracing::debug!(%campaign, is_repaired, "repair: united a campaign");
        repaired.map(Some)
    }
}

fn note(repair: &Repair, report: &mut RepairReport) {
    report.campaigns += 1;
    report.restored += repair.changed.len() as u64;
    report.appended += repair.append.len() as u64;
    report.withheld += repair.withheld.units;
    report.conflicts.extend(repair.conflicts.iter().cloned());
}
