//! Repair of a partition that has lost something: it is rebuilt from the ledger, the log that survived, what nodes have
//! answered and keep, and Redis' own rows, and grants again under a new epoch.
//!
//! 1. One process takes the repair for itself (`repair_begin`). The partition is halted, so nothing else is written.
//! 2. All nodes have put what they answered past the end of the log into `kept` (`offer.rs`), or have been silent
//!    for longer than the grace.
//! 3. What the log still has is settled. The ledger writes the repair down, and its position moves past everything that
//!    is lost: whoever still brings one of the lost entries finds it settled.
//! 4. Every live campaign of the partition is read on both sides and united by [`qiang_core::reconcile`]. The ledger
//!    writes down what is withheld (`repair/journal.rs`). Rows that Redis lacks are written, then the campaign's
//!    numbers, then entries that neither log nor ledger has.
//! 5. `repair_end` makes a new epoch and ends the halt.
//!
//! Each step states what it wants to be so. A repair that breaks off is done again, by whoever comes next, from what is
//! there then.

mod campaigns;
mod journal;
mod parts;
mod sample;
mod sides;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use qiang_core::{
    campaign::{AckLevel, CampaignKind, Phase},
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairEngine, RepairReport, RepairState},
    reconcile::{Difference, EnginePart, PartFacts, PartRows, Repair, Survey, Withheld, compare},
    time::Timestamp,
};

pub use self::sides::Inspection;
use self::{journal::Journal, sides::BothSides};
use crate::{
    engine::RedisEngine,
    error::unavailable,
    meta::CampaignMeta,
    offer::Loss,
    open::fields_of,
    partition::PartitionState,
    partitions::Partitions,
    rebuild::{Rebuild, records},
    scripts::RELEASE,
    snapshot::{PartSnapshot, SettledSnapshot, facts_of, settled},
};

/// For how long a repair belongs to a process that was not heard of.
const REPAIRER_MS: u64 = 10_000;
/// Live campaigns that are read from the ledger at a time.
const CAMPAIGNS_PAGE: u32 = 1_000;
/// Entries that one call appends.
const APPEND_MAX: usize = 500;

/// What is known of a partition's loss, beside rows.
struct Evidence {
    /// The log goes on behind this entry, and the ledger is there.
    end: Seq,
    /// By campaign.
    kept: BTreeMap<CampaignId, Vec<Entry>>,
    unnamed: u64,
    /// The epoch that the repair begins.
    epoch: String,
}

#[async_trait]
impl RepairEngine for RedisEngine {
    fn release_kept(&self, settled: &[(PartitionId, Seq)]) {
        for partition in self.node.partitions.list() {
            let known = settled.iter().find(|(id, _)| *id == partition.id);
            if let (Some((_, seq)), Some(term)) = (known, partition.current_term()) {
                self.node.kept(partition.id).release_in(&term, *seq);
            }
        }
    }

    async fn has_lost(&self, partition: PartitionId) -> Result<bool, EngineError> {
        match self.node.partitions.state(partition) {
            PartitionState::Halted { lost: Some(_), .. } => {
                Ok(self.node.partitions.loss(partition).await?.is_some())
            }
            _ => Ok(false),
        }
    }

    async fn repair(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
        at_once: bool,
    ) -> Result<RepairState, EngineError> {
        let Some(loss) = self.node.partitions.loss(partition).await? else {
            return Ok(RepairState::Whole);
        };
        let rebuild = Rebuild::new(&self.node.partitions, partition);
        let Some(waited) = rebuild.begin(REPAIRER_MS).await? else {
            return Ok(RepairState::Waiting);
        };
        let all = self
            .node
            .partitions
            .has_all_offers(partition, &loss)
            .await?;
        let grace = self.node.partitions.options().term_grace;
        if !all && !at_once && waited < grace {
            rebuild.give_up().await?;
            return Ok(RepairState::Waiting);
        }
        let evidence = self.evidence(&rebuild, ledger, &loss, all).await?;
        let epoch = evidence.epoch.clone();
        let campaigns = self.live_campaigns(partition, ledger).await?;
        let report = self.rebuild(&rebuild, ledger, campaigns, evidence).await?;
        rebuild.end(&loss.epoch, &epoch, &report).await?;
        self.node.partitions.get(partition).suspect();
        self.node.gate.invalidate_all();
        Ok(RepairState::Repaired(report))
    }

    async fn live_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError> {
        let agenda = self.node.partitions.agenda(partition).await?;
        let mut campaigns: BTreeSet<CampaignId> = agenda.into_iter().collect();
        let mut after = None;
        loop {
            let page = ledger.live_campaigns(after, CAMPAIGNS_PAGE).await;
            let page = page.map_err(of_ledger)?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            campaigns.extend(page);
        }
        Ok(campaigns.into_iter().collect())
    }

    async fn differences(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<Difference>, EngineError> {
        let from = ledger.settled(partition).await.map_err(of_ledger)?;
        let both = self.both_sides(ledger, partition, campaign).await?;
        let Some((engine, known, is_known)) = both else {
            return Ok(Vec::new());
        };
        if !is_known {
            return Ok(compare(campaign, &engine, &known, &[]));
        }
        // Whatever has changed while rows were read is in the log behind the position before; or it is settled by now.
        let mut in_flight: Vec<Entry> = Vec::new();
        loop {
            let after = in_flight.last().map_or(from, |entry| entry.seq);
            let page = self
                .node
                .partitions
                .entries_behind(partition, after)
                .await?;
            if page.is_empty() {
                break;
            }
            in_flight.extend(page);
        }
        Ok(compare(campaign, &engine, &known, &in_flight))
    }
}

impl RedisEngine {
    /// Brings the ledger past everything that is lost, and gathers what else is known. Once the ledger's position is
    /// there, nobody settles an entry of the lost ones any more that he has read before.
    async fn evidence(
        &self,
        rebuild: &Rebuild<'_>,
        ledger: &dyn Ledger,
        loss: &Loss,
        all: bool,
    ) -> Result<Evidence, EngineError> {
        let (partition, partitions) = (rebuild.partition, &self.node.partitions);
        let head = partitions.log_end(partition).await?;
        let settled = self.settle_rest(partition, ledger).await?;
        let kept = partitions.kept(partition).await?;
        let of_ledger_alone = head + 1..=settled;
        let lost = (loss.from..=loss.to).filter(|seq| !of_ledger_alone.contains(seq));
        let named: BTreeSet<Seq> = kept.iter().map(|entry| entry.seq).collect();
        let unnamed = match all {
            true => 0,
            false => lost.filter(|seq| !named.contains(seq)).count() as u64,
        };
        let unnamed = unnamed + journal::left_unnamed(ledger, partition).await?;
        // A repair that begins again does not see any more what the ledger had of its own.
        let (unnamed, epoch) = rebuild.note_unnamed(loss, unnamed).await?;
        let now = partitions.time(partition).await?;
        journal::begin(ledger, partition, loss, (unnamed, &epoch), now).await?;
        let end = skip_to(ledger, partition, head.max(settled).max(loss.to)).await;
        let end = end.map_err(of_ledger)?;
        rebuild.move_end(end).await?;
        Ok(Evidence {
            end,
            kept: by_campaign(kept),
            unnamed,
            epoch,
        })
    }

    /// Settles what the log still has behind the ledger's position, as far as it follows without a gap; returns the
    /// position. Behind a gap, rows tell more than entries.
    async fn settle_rest(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Seq, EngineError> {
        let mut settled = ledger.settled(partition).await.map_err(of_ledger)?;
        loop {
            let entries = self
                .node
                .partitions
                .entries_behind(partition, settled)
                .await?;
            if entries.first().is_none_or(|entry| entry.seq != settled + 1) {
                return Ok(settled);
            }
            settled = match ledger.settle(partition, &entries).await {
                Err(LedgerError::Damaged { .. } | LedgerError::Overflow) => {
                    settle_singly(partition, ledger, &entries).await
                }
                settled => settled,
            }
            .map_err(of_ledger)?;
        }
    }

    async fn rebuild(
        &self,
        rebuild: &Rebuild<'_>,
        ledger: &dyn Ledger,
        campaigns: Vec<CampaignId>,
        mut evidence: Evidence,
    ) -> Result<RepairReport, EngineError> {
        let partition = rebuild.partition;
        let mut campaigns: BTreeSet<CampaignId> = campaigns.into_iter().collect();
        campaigns.extend(evidence.kept.keys());
        let mut report = RepairReport {
            unnamed: evidence.unnamed,
            ..RepairReport::default()
        };
        let journal = Journal::read(ledger, partition, &evidence.epoch).await?;
        for campaign in campaigns {
            let read = self
                .read_part(ledger, partition, campaign, &evidence)
                .await?;
            let Some((mut part, snapshot, now)) = read else {
                continue;
            };
            journal.withhold_again(&mut part, snapshot.as_ref());
            // An attempt that was broken off has withheld already what nobody can name.
            let repaired = snapshot.as_ref().and_then(|it| it.repaired.as_ref());
            let again = repaired == Some(&evidence.epoch);
            part.fields.push(("repaired", evidence.epoch.clone()));
            let (facts, meta) = (part.facts, part.meta.clone());
            let survey = Survey {
                facts,
                engine: part.engine,
                ledger: part.ledger,
                ledger_is_ahead: true,
                in_flight: &[],
                kept: evidence.kept.get(&campaign).map_or(&[], Vec::as_slice),
                unnamed: if again { 0 } else { evidence.unnamed },
                now,
            };
            let repair = survey.repair();
            let record = journal.of(&facts, &repair).filter(|_| !again);
            if let Some(record) = record {
                ledger.withhold(&record).await.map_err(of_ledger)?;
            }
            rebuild
                .part(&meta, &facts, snapshot.as_ref(), &part.fields, &repair)
                .await?;
            let id = campaign.to_string();
            for events in repair.append.chunks(APPEND_MAX) {
                let records = records(&meta, events);
                evidence.end = rebuild.append(&id, evidence.end, &records).await?;
            }
            self.note(&repair, &mut report);
        }
        let finished = ledger.finish_repair(partition, &evidence.epoch, evidence.end);
        finished.await.map_err(of_ledger)?;
        Ok(report)
    }

    fn note(&self, repair: &Repair, report: &mut RepairReport) {
        report.campaigns += 1;
        report.restored += repair.changed.len() as u64;
        report.appended += repair.append.len() as u64;
        report.withheld += u64::from(repair.withheld.units);
        report.conflicts.extend(repair.conflicts.iter().cloned());
    }
}

impl RedisEngine {
    /// Halts a partition by hand and has it united with the ledger, as after a loss of nothing: what is in the one and
    /// not in the other is added there. It grants again as soon as that is done.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer: a partition that has halted is repaired by whoever comes next. When
    /// the log has entries that are not settled of a campaign that the ledger does not have: nothing is done then.
    pub async fn unite(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<RepairState, EngineError> {
        let partitions = &self.node.partitions;
        self.check_campaigns(partition, ledger).await?;
        partitions
            .halt(partition, "it is reconciled with the ledger")
            .await?;
        let head = partitions.log_end(partition).await?;
        let mut set = redis::cmd("HSET");
        set.arg(partitions.keys().partition(partition));
        set.arg("lost_from").arg(head + 1).arg("lost_to").arg(head);
        let _: i64 = partitions.query_unfenced(partition, &set).await?;
        self.repair(partition, ledger, true).await
    }

    /// What is known of a partition in Redis: fields of its state, then each node with its last sighting.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn inspect(&self, partition: PartitionId) -> Result<Inspection, EngineError> {
        let (partitions, keys) = (&self.node.partitions, self.node.partitions.keys());
        let read = async |key: String| {
            let mut command = redis::cmd("HGETALL");
            partitions.query_unfenced(partition, command.arg(key)).await
        };
        let mut repairs = redis::cmd("LRANGE");
        repairs.arg(keys.repairs(partition)).arg(0).arg(-1);
        let mut withheld = BTreeMap::new();
        for campaign in partitions.agenda(partition).await? {
            let mut units = redis::cmd("HGET");
            units
                .arg(keys.campaign(partition, campaign))
                .arg("withheld");
            let units: Option<u32> = partitions.query_unfenced(partition, &units).await?;
            withheld.extend(units.map(|units| (campaign, units)));
        }
        Ok(Inspection {
            state: read(keys.partition(partition)).await?,
            nodes: read(keys.nodes(partition)).await?,
            repairs: partitions.query_unfenced(partition, &repairs).await?,
            withheld,
        })
    }

    /// Whether a partition has a campaign, or a part of it.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn has_part(
        &self,
        campaign: CampaignId,
        partition: PartitionId,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let mut exists = redis::cmd("EXISTS");
        exists.arg(partitions.keys().campaign(partition, campaign));
        let exists: i64 = partitions.query_unfenced(partition, &exists).await?;
        Ok(exists > 0)
    }

    /// Ends the halt of a partition that was halted by hand, or whose loss somebody takes as it is: nothing is
    /// repaired. False where it is not halted.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn resume_as_it_is(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<bool, EngineError> {
        let partitions = &self.node.partitions;
        let state = self.inspect(partition).await?.state;
        if !state.contains_key("halted") {
            return Ok(false);
        }
        let lost_to = state
            .get("lost_to")
            .and_then(|to| to.parse().ok())
            .unwrap_or(0);
        let head = partitions.log_end(partition).await?;
        self.settle_rest(partition, ledger).await?;
        let end = skip_to(ledger, partition, head.max(lost_to)).await;
        let epoch = state.get("epoch").map(String::as_str);
        partitions
            .resume(partition, epoch, end.map_err(of_ledger)?)
            .await
    }

    /// Gives back what repairs have withheld of a partition's campaigns; returns how many units that was. The ledger
    /// writes it down first.
    ///
    /// # Errors
    /// When Redis or the ledger does not answer, or the partition is not open.
    pub async fn release_withheld(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<u64, EngineError> {
        let released = ledger.release_withheld(partition).await;
        released.map_err(of_ledger)?;
        let mut units = 0;
        for campaign in self.node.partitions.agenda(partition).await? {
            let asked = (campaign, AckLevel::Memory);
            let released = self
                .node
                .partitions
                .change(partition, &RELEASE, asked, &|command| command)
                .await?;
            self.node.gate.invalidate(campaign);
            units += released.text().parse().unwrap_or(0);
        }
        Ok(units)
    }
}

/// Moves the ledger's position forward over entries that are lost: none of them is settled from then on, whoever still
/// brings one.
async fn skip_to(
    ledger: &dyn Ledger,
    partition: PartitionId,
    seq: Seq,
) -> Result<Seq, LedgerError> {
    let mut position = ledger.settled(partition).await?;
    while position < seq {
        // Where somebody has settled something meanwhile, it is tried again from there.
        position = ledger.settle_past(partition, position, &[], seq).await?;
    }
    Ok(position)
}

/// Settles entries one by one, and quarantines those that the ledger refuses.
async fn settle_singly(
    partition: PartitionId,
    ledger: &dyn Ledger,
    entries: &[Entry],
) -> Result<Seq, LedgerError> {
    let mut settled = 0;
    for entry in entries {
        settled = match ledger.settle(partition, std::slice::from_ref(entry)).await {
            Err(error @ (LedgerError::Damaged { .. } | LedgerError::Overflow)) => {
                ledger
                    .quarantine(partition, entry, &error.to_string())
                    .await?
            }
            settled => settled?,
        };
    }
    Ok(settled)
}

fn by_campaign(entries: Vec<Entry>) -> BTreeMap<CampaignId, Vec<Entry>> {
    let mut campaigns: BTreeMap<CampaignId, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        campaigns.entry(entry.campaign).or_default().push(entry);
    }
    campaigns
}

fn of_ledger(error: LedgerError) -> EngineError {
    unavailable(format!("the ledger: {error}"))
}
