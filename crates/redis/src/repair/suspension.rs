//! Suspension of campaigns, so that the others of the partition grant again. A repair takes a campaign out of service
//! if the ledger cannot read its rows. It does the same if Redis has lost the campaign and the ledger has entries of it
//! in quarantine.
//!
//! Each repaired shard of a spread campaign is taken out of service. Shards that lost nothing stay. Once the ledger has
//! all of the campaign, a node halts the partitions without a shard, and their repair rebuilds the shards together
//! (`campaigns/damaged_keys.rs`).
//!
//! Such a campaign is recorded in `unreadable:ID`, and the repair starts again. The answers that nodes have offered
//! about it go to quarantine, so that rows and quarantine have all evidence about it. Then its keys are removed, like
//! those of a damaged campaign (`damage.rs`), and no script finds it. It is reloaded once the ledger can read it and
//! its quarantine is redriven.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairAttempt},
};

use super::{Evidence, engine_error_from_ledger, group::HeldEntries, missing, spread::Member};
use crate::{
    connection::unavailable,
    engine::RedisEngine,
    partitions::Partitions,
    quarantined::{incompleteness, quarantined_entries},
    repair::rebuild::{NotedChange, Rebuild},
    repair_offer::Loss,
};

/// Prefix of a partition's fields that name campaigns out of service.
const NOTED: &str = "unreadable:";
/// Maximum attempts to quarantine answers; each fails if another process moves the ledger's position.
const ATTEMPTS_MAX: usize = 20;

/// The loss of a partition, and the evidence when a repair begins.
pub(super) struct LossEvidence<'a> {
    pub(super) attempt: &'a RepairAttempt,
    pub(super) loss: &'a Loss,
    pub(super) noted: &'a NotedChange,
    /// Entries that nodes have offered.
    pub(super) kept: &'a [Entry],
}

impl LossEvidence<'_> {
    /// Reason why no campaign may be taken out of service: Redis may have evidence about it that neither the ledger's
    /// rows nor its quarantine has.
    fn refusal(&self) -> Option<String> {
        let LossEvidence { loss, noted, .. } = self;
        if noted.unnamed > 0 {
            return Some(format!("{} lost entries are unknown", noted.unnamed));
        }
        if loss.answers_from < loss.from || noted.settled < noted.head {
            return Some("unsettled entries were deleted from the log".to_owned());
        }
        let is_forked = loss.from <= noted.head;
        is_forked.then(|| "the log has other entries in place of the lost ones".to_owned())
    }
}

impl Partitions {
    /// Campaigns of a partition that are out of service, or that a repair takes out of service.
    pub(crate) async fn noted_campaigns(
        &self,
        partition: PartitionId,
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        let mut names = redis::cmd("HKEYS");
        names.arg(self.keys().partition(partition));
        let names: Vec<String> = self.query_unfenced(partition, &names).await?;
        let noted = names.iter().filter_map(|name| name.strip_prefix(NOTED));
        Ok(noted.filter_map(|id| id.parse().ok()).collect())
    }
}

impl RedisEngine {
    /// Campaigns that stay out of service, among those recorded by earlier attempts and repairs. From then on the
    /// answers that nodes have offered about them are in quarantine.
    pub(super) async fn suspended(
        &self,
        rebuild: &Rebuild<'_>,
        ledger: &dyn Ledger,
        known: &LossEvidence<'_>,
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        let (partition, mut suspended) = (rebuild.partition, BTreeSet::new());
        for campaign in self.noted_campaigns(partition).await? {
            let Some(reason) = self.suspension(ledger, partition, campaign).await? else {
                rebuild.forget_suspension(campaign).await?;
                continue;
            };
            if self.is_out_of_service(partition, campaign).await? {
                // No lost entry is about it.
                suspended.insert(campaign);
                continue;
            }
            if let Some(refusal) = self.refusal(known) {
                return Err(unavailable(format!(
                    "campaign {campaign} cannot be taken out of service, because {refusal}: {reason}"
                )));
            }
            quarantine_answers(rebuild, ledger, known, (campaign, reason.as_str())).await?;
            suspended.insert(campaign);
        }
        Ok(suspended)
    }

    /// Reason why no campaign may be taken out of service.
    pub(super) fn refusal(&self, known: &LossEvidence<'_>) -> Option<String> {
        match self.node.recalls.ledger() {
            None => Some("this process reloads no campaigns".to_owned()),
            Some(_) => known.refusal(),
        }
    }

    /// Campaigns of a partition that are out of service, or that a repair takes out of service.
    pub(super) async fn noted_campaigns(
        &self,
        partition: PartitionId,
    ) -> Result<BTreeSet<CampaignId>, EngineError> {
        self.node.partitions.noted_campaigns(partition).await
    }

    /// Whether an earlier repair has taken a campaign out of service, and Redis still records it.
    async fn is_out_of_service(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let fields = [format!("{NOTED}{campaign}"), format!("damaged:{campaign}")];
        let mut get = redis::cmd("HMGET");
        get.arg(partitions.keys().partition(partition)).arg(&fields);
        let found = partitions.query_unfenced(partition, &get).await?;
        let (noted, damaged): (Option<String>, Option<String>) = found;
        let is_noted = |field: Option<String>| field.is_some_and(|text| text != "?");
        let are_gone = is_noted(noted) && is_noted(damaged);
        Ok(are_gone && !partitions.has_part(campaign, partition).await?)
    }

    /// Reason why a recorded campaign stays out of service; `None` if the ledger can read it and has all its entries.
    async fn suspension(
        &self,
        ledger: &dyn Ledger,
        partition: PartitionId,
        campaign: CampaignId,
    ) -> Result<Option<String>, EngineError> {
        let partitions = &self.node.partitions;
        let outline = partitions.parts_of_unreadable(ledger, campaign).await?;
        let of_it = match outline {
            Some((parts, _)) if parts > 1 => partitions.of_parts(campaign, parts).collect(),
            _ => vec![partition],
        };
        incompleteness(ledger, campaign, &of_it).await
    }

    /// Takes a campaign out of service in all held partitions of its shards, if it is in one of them. Returns whether
    /// it is; `None` if the next attempt must do that.
    pub(super) async fn suspend_everywhere(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        campaign: CampaignId,
        evidence: &[Evidence],
    ) -> Result<Option<bool>, EngineError> {
        let is_suspended = |it: &Evidence| it.suspended.contains(&campaign);
        if !evidence.iter().any(is_suspended) {
            return Ok(Some(false));
        }
        let partitions = &self.node.partitions;
        let outline = partitions.parts_of_unreadable(ledger, campaign).await?;
        let parts = outline.map_or(1, |(parts, _)| parts);
        let mut has_noted = false;
        for (held, own) in held.iter().zip(evidence) {
            let rebuild = &held.rebuild;
            let place = partitions.index_of(rebuild.partition, campaign, parts);
            if place.is_some() && !is_suspended(own) {
                rebuild.note_suspension(campaign).await?;
                has_noted = true;
            }
        }
        if has_noted {
            return Ok(None);
        }
        for (held, own) in held.iter().zip(evidence) {
            if !is_suspended(own) {
                continue;
            }
            let suspend = held
                .rebuild
                .suspend(campaign, own.position, &own.noted.epoch);
            suspend.await?;
            tracing::error!(
                partition = held.rebuild.partition.0,
                %campaign,
                "a campaign is out of service until the ledger can read it and its quarantine is redriven"
            );
        }
        Ok(Some(true))
    }

    /// Records a campaign that the ledger cannot read, so that the next attempt takes it out of service. False if the
    /// held partitions have nothing of it.
    pub(super) async fn note_unreadable(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        (campaign, reason): (CampaignId, &str),
        evidence: &[Evidence],
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let outline = partitions.parts_of_unreadable(ledger, campaign).await?;
        let Some((parts, is_opened)) = outline else {
            return Ok(false);
        };
        let (mut has_happened, mut here) = (is_opened, Vec::new());
        for (held, own) in held.iter().zip(evidence) {
            let rebuild = &held.rebuild;
            if partitions
                .index_of(rebuild.partition, campaign, parts)
                .is_none()
            {
                continue;
            }
            here.push(rebuild);
            has_happened = has_happened
                || own.kept.contains_key(&campaign)
                || own.noted.unnamed > 0
                || own.quarantined.others.contains(&campaign)
                || partitions.has_part(campaign, rebuild.partition).await?;
        }
        if !has_happened {
            return Ok(false); // It is opened as any other draft, once it can be read.
        }
        for rebuild in &here {
            tracing::error!(
                partition = rebuild.partition.0,
                %campaign,
                reason,
                "the ledger cannot read a campaign; the repair takes it out of service"
            );
            rebuild.note_suspension(campaign).await?;
        }
        Ok(!here.is_empty())
    }

    /// Records a campaign that Redis has lost and that has entries in quarantine. Without these entries, it would grant
    /// again what users have. The same holds if another shard of it is out of service: the shards are rebuilt together.
    /// False if it need not or cannot be taken out of service.
    pub(super) async fn note_quarantined(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        members: &[Member],
        evidence: &[Evidence],
    ) -> Result<bool, EngineError> {
        let Some((_, first)) = members.first() else {
            return Ok(false);
        };
        let (campaign, parts) = (first.facts.campaign, first.facts.parts);
        let is_lost = |(place, part): &Member| {
            let is_quarantined = evidence[*place].quarantined.others.contains(&campaign);
            part.snapshot.is_none() && part.closed.is_none() && is_quarantined
        };
        let mut must_leave = members.iter().any(is_lost);
        if !must_leave && parts > 1 {
            let partitions = &self.node.partitions;
            let here: Vec<_> = held.iter().map(|held| held.rebuild.partition).collect();
            let others = partitions.of_parts(campaign, parts);
            for other in others.filter(|other| !here.contains(other)) {
                must_leave = must_leave
                    || self.is_out_of_service(other, campaign).await?
                        && self.suspension(ledger, other, campaign).await?.is_some();
            }
        }
        if !must_leave
            || members
                .iter()
                .any(|(place, _)| !evidence[*place].can_suspend)
        {
            return Ok(false);
        }
        for (place, _) in members {
            let rebuild = &held[*place].rebuild;
            tracing::error!(
                partition = rebuild.partition.0,
                %campaign,
                "Redis has lost a campaign with entries in quarantine; the repair takes it out of service"
            );
            rebuild.note_suspension(campaign).await?;
        }
        Ok(true)
    }
}

impl Rebuild<'_> {
    async fn note_suspension(&self, campaign: CampaignId) -> Result<(), EngineError> {
        let fields = [format!("{NOTED}{campaign}"), "?".to_owned()];
        self.put_fields("set", &fields).await
    }

    async fn forget_suspension(&self, campaign: CampaignId) -> Result<(), EngineError> {
        self.put_fields("del", &[format!("{NOTED}{campaign}")])
            .await
    }
}

/// Quarantines the answers that nodes have offered about a campaign, unless they are there already. An entry keeps its
/// position, or gets the next one if the ledger's position has passed it.
async fn quarantine_answers(
    rebuild: &Rebuild<'_>,
    ledger: &dyn Ledger,
    known: &LossEvidence<'_>,
    (campaign, reason): (CampaignId, &str),
) -> Result<(), EngineError> {
    let (partition, noted) = (rebuild.partition, known.noted);
    let places = (noted.head, noted.settled);
    let lost = missing::count_missing(ledger, partition, known.loss, places, Some(noted)).await?;
    let mut answers: BTreeMap<Seq, &Entry> = BTreeMap::new();
    for entry in known.kept {
        if entry.campaign == campaign && lost.contains(entry.seq) {
            let other = answers.insert(entry.seq, entry);
            if other.is_some_and(|other| other != entry) {
                return Err(unavailable(format!(
                    "nodes have answered entry {} of campaign {campaign} differently",
                    entry.seq
                )));
            }
        }
    }
    let Some(first) = answers.keys().next().copied() else {
        return Ok(());
    };
    for _ in 0..ATTEMPTS_MAX {
        // Read before the quarantine: an entry that another repairer adds after this moves the position past it.
        let mut position = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let mut there = quarantined_entries(partition, ledger).await?;
        there.retain(|entry| entry.campaign == campaign && entry.seq >= first);
        let mut left = Vec::new();
        for answer in answers.values() {
            let is_same = |it: &Entry| (it.at, &it.event) == (answer.at, &answer.event);
            match there.iter().position(is_same) {
                Some(place) => drop(there.swap_remove(place)),
                None => left.push(*answer),
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        for answer in left {
            rebuild.check().await?;
            let seq = answer.seq.max(position + 1);
            if seq > position + 1 {
                let moved = ledger
                    .settle_past(known.attempt, position, &[], seq - 1)
                    .await;
                moved.map_err(engine_error_from_ledger)?;
            }
            let entry = Entry {
                seq,
                ..answer.clone()
            };
            match ledger.quarantine(partition, &entry, reason).await {
                Ok(moved) if moved == seq => position = seq,
                // Another process has moved the position, so the quarantine is read again.
                Ok(_) | Err(LedgerError::Damaged { .. }) => break,
                Err(error) => return Err(engine_error_from_ledger(error)),
            }
        }
    }
    Err(unavailable(format!(
        "cannot quarantine the answers about campaign {campaign}"
    )))
}
