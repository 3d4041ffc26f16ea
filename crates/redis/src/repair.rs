//! Repair of a partition after a loss. It rebuilds the partition from the ledger, the surviving log, answers that nodes
//! keep, and Redis' own rows. Then the partition grants again under a new epoch.
//!
//! 1. One process acquires the repair (`repair_begin`), together with those of all partitions that lost shards of the
//!    same spread campaigns (`group.rs`). The partitions are halted, so nothing else is written. The ledger numbers the
//!    attempt, and refuses writes of earlier ones.
//! 2. All nodes have put what they answered past the end of the log into `answers` (`offer.rs`), or have been silent
//!    for longer than the grace.
//! 3. The rest of the log is settled. If the ledger then lacks entries of evicted campaigns, it was set back, and has
//!    finished campaigns as open. Such a ledger is accepted only if an operator requests the repair. The ledger records
//!    the repair, and its position moves past everything that is lost: a lost entry that arrives later counts as
//!    settled.
//! 4. Each live campaign of the partition is read on both sides and united by [`qiang_core::reconcile`]. So are closed
//!    ones with entries that the ledger lacks (`late_campaigns.rs`). The ledger records what is withheld
//!    (`journal.rs`). Then Redis gets the rows that it lacks, the counters of the campaign, and the entries that
//!    neither log nor ledger has. The content of a spread campaign's shard follows from the other shards (`parts.rs`,
//!    `spread.rs`). A campaign that the ledger cannot read is taken out of service (`suspension.rs`).
//! 5. `repair_end` starts a new epoch and ends the halt.
//!
//! Each step is idempotent. If a repair stops, the next process repeats it from the state that it finds.

mod campaigns;
mod damage;
mod facts;
mod group;
mod journal;
mod late_campaigns;
mod missing;
mod operator;
mod order_restoration;
mod packet_totals;
mod parts;
pub(crate) mod rebuild;
mod sample;
pub(crate) mod sides;
mod spread;
mod stock;
mod suspension;
mod terms;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairAttempt, RepairEngine, RepairState},
    reconcile::{Difference, compare, compare_users},
};
use tokio::sync::Mutex;

pub use self::sides::Inspection;
use self::{
    group::HeldEntries, journal::WithheldJournal, order_restoration::OrderRestoration,
    sides::BothSides, suspension::LossEvidence,
};
use crate::{
    connection::{PartitionHealth, new_epoch, unavailable},
    engine::RedisEngine,
    protocol::log_record::cut_at_gap,
    repair::rebuild::{NotedChange, Rebuild},
    shards::snapshot::engine_error_from_ledger,
};

/// Live campaigns per read from the ledger.
const CAMPAIGNS_PAGE: u32 = 1_000;
/// Entries that one call appends.
const APPEND_MAX: usize = 500;

/// Knowledge about a partition's loss, apart from rows.
struct Evidence {
    /// The log continues after this entry, and the ledger's position is there. Appending locks it.
    end: Mutex<Seq>,
    /// Offered answers by campaign.
    kept: BTreeMap<CampaignId, Vec<Entry>>,
    /// State recorded when the repair began.
    noted: NotedChange,
    journal: WithheldJournal,
    /// Changes of sales by entries in quarantine.
    quarantined: stock::QuarantinedChanges,
    /// Campaigns that are written again completely.
    damaged: BTreeSet<CampaignId>,
    /// Closed campaigns that may have entries which the ledger lacks.
    late: BTreeSet<CampaignId>,
    restoration: OrderRestoration,
    /// Random number, if Redis has lost the whole state of the partition: then sales skip numbers.
    skips: Option<u32>,
    /// Campaigns that are taken out of service.
    suspended: BTreeSet<CampaignId>,
    /// Whether further campaigns may be taken out of service, and the ledger's position: no later entry is about them.
    can_suspend: bool,
    position: Seq,
}

#[async_trait]
impl RepairEngine for RedisEngine {
    fn release_kept(&self, settled: &[(PartitionId, Seq)]) {
        for partition in self.node.partitions.list() {
            let known = settled.iter().find(|(id, _)| *id == partition.id);
            // A repair moves the ledger's position before it appends restored entries. Until these are settled too,
            // earlier answers are kept.
            let known = known.filter(|(_, seq)| *seq >= partition.began());
            if let (Some((_, seq)), Some(term)) = (known, partition.current_term()) {
                self.node
                    .runtime(partition.id)
                    .unsettled_answers
                    .release_in(&term, *seq);
            }
        }
    }

    async fn halt_log_gap(&self, partition: PartitionId) -> Result<(), EngineError> {
        let partitions = &self.node.partitions;
        if partitions.state(partition) == PartitionHealth::Open
            && let Some(gap) = self.node.runtime(partition).log_gap.take()
        {
            partitions.halt_log_gap(partition, &gap).await?;
        }
        Ok(())
    }

    async fn has_lost(&self, partition: PartitionId) -> Result<bool, EngineError> {
        match self.node.partitions.state(partition) {
            PartitionHealth::Halted { lost: Some(_), .. } => {
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
        let group = self.group(partition, loss, ledger).await?;
        let Some(held) = self.hold(group, ledger, at_once).await? else {
            return Ok(RepairState::Waiting);
        };
        let repaired = self.repair_held(&held, ledger, at_once).await;
        if repaired.is_err() {
            // So that the next process need not wait until the lease expires.
            self.give_up(&held).await;
        }
        let mut reports = repaired?;
        Ok(RepairState::Repaired(
            reports.remove(&partition).unwrap_or_default(),
        ))
    }

    async fn live_campaigns(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<CampaignId>, EngineError> {
        let partitions = &self.node.partitions;
        let agenda = partitions.agenda(partition).await?;
        let mut campaigns: BTreeSet<CampaignId> = agenda.into_iter().collect();
        let mut after = None;
        loop {
            let page = ledger.live_campaigns(after, CAMPAIGNS_PAGE).await;
            let page = page.map_err(engine_error_from_ledger)?;
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            let is_last = page.len() < CAMPAIGNS_PAGE as usize;
            let here = page.iter().filter(|it| partitions.may_have(partition, it));
            campaigns.extend(here.map(|it| it.id));
            if is_last {
                break;
            }
        }
        Ok(campaigns.into_iter().collect())
    }

    async fn differences(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        ledger: &dyn Ledger,
    ) -> Result<Vec<Difference>, EngineError> {
        let from = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let both = self.both_sides(ledger, partition, campaign).await?;
        let Some(mut both) = both else {
            return Ok(Vec::new());
        };
        let in_flight = self.node.partitions.in_flight(partition, from).await?;
        for wrong in &mut both.wrong_users {
            let settled = both.ledger.grants.values();
            let own = settled.filter(|row| row.user == wrong.user);
            wrong.settled = own.map(|row| u64::from(row.units())).sum();
        }
        let users = compare_users(campaign, &both.wrong_users, &in_flight);
        let settling = if both.is_known { &in_flight[..] } else { &[] };
        let mut found = compare(campaign, &both.engine, &both.ledger, settling);
        found.extend(users);
        Ok(found)
    }
}

impl RedisEngine {
    /// Moves the ledger past everything that is lost, and collects the other evidence. Once the ledger's position is
    /// there, no process can settle a lost entry that it read before.
    async fn evidence(
        &self,
        held: &HeldEntries<'_>,
        ledger: &dyn Ledger,
    ) -> Result<Evidence, EngineError> {
        let HeldEntries {
            rebuild,
            attempt,
            loss,
            all,
        } = held;
        let (partition, partitions) = (rebuild.partition, &self.node.partitions);
        let head = partitions.log_end(partition).await?;
        let settled = self.settle_rest(partition, ledger).await?;
        let before = rebuild.noted(loss).await?;
        // An earlier attempt has moved both ends past everything.
        let found = before.as_ref();
        let (log_end, in_ledger) = found.map_or((head, settled), |(it, _)| (it.head, it.settled));
        let late = self.late_campaigns(partition, (log_end, in_ledger)).await?;
        let damaged = self
            .drop_damaged(rebuild, ledger, in_ledger >= log_end, &late)
            .await?;
        let kept = partitions.read_offers(partition, loss).await?;
        let now = partitions.time(partition).await?;
        let noted = match before {
            Some((noted, true)) => noted,
            before => {
                let before = before.map(|(noted, _)| noted);
                let places = before
                    .as_ref()
                    .map_or((head, settled), |it| (it.head, it.settled));
                let named = kept.iter().map(|entry| entry.seq).collect();
                let missing =
                    missing::count_missing(ledger, partition, loss, places, before.as_ref())
                        .await?;
                let unnamed = missing.unnamed(&named, *all);
                let (epoch, tried) = match before {
                    Some(it) if it.unnamed == unnamed => (it.epoch, it.tried),
                    Some(mut it) => {
                        it.tried.push(it.epoch);
                        (new_epoch(), it.tried)
                    }
                    None => (new_epoch(), Vec::new()),
                };
                let (head, settled) = places;
                let found = NotedChange {
                    unnamed,
                    epoch,
                    tried,
                    ledger_is_ahead: settled > head,
                    accounted: head.max(settled).max(loss.to),
                    head,
                    settled,
                };
                rebuild.note(loss, &found).await?;
                found
            }
        };
        journal::begin(ledger, held, &noted, now).await?;
        self.settle_after_gap(ledger, attempt, Some(rebuild))
            .await?;
        let known = LossEvidence {
            attempt,
            loss,
            noted: &noted,
            kept: &kept,
        };
        let suspended = self.suspended(rebuild, ledger, &known).await?;
        let can_suspend = self.refusal(&known).is_none();
        // Quarantining answers may have moved the position.
        let settled = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        let end = head.max(settled).max(loss.to);
        let end = skip_to(ledger, attempt, end, Some(rebuild)).await?;
        rebuild.move_end(end).await?;
        Ok(Evidence {
            end: Mutex::new(end),
            kept: by_campaign(kept),
            quarantined: stock::in_quarantine(partition, ledger).await?,
            damaged,
            late,
            restoration: OrderRestoration::from_loss(loss, &noted, end),
            journal: WithheldJournal::read(ledger, partition, &noted.epoch).await?,
            // The same for each attempt at this repair.
            skips: loss.epoch.is_empty().then(|| chance_of(&noted.epoch)),
            suspended,
            can_suspend,
            position: end,
            noted,
        })
    }

    /// Refuses a ledger that was set back behind evicted campaigns, unless the log can bring it forward. It would
    /// reopen finished campaigns, and no other source has their grants.
    ///
    /// The end of a halt raises `left` past the entries that its repair has appended. If these are deleted before they
    /// are settled, the ledger cannot reach `left`, though it was not set back. So the ledger's highest position is
    /// enough: an eviction raises both.
    async fn check_ledger(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<(), EngineError> {
        let settled = self.settle_rest(partition, ledger).await?;
        let mut get = redis::cmd("HMGET");
        get.arg(self.node.partitions.keys().partition(partition));
        get.arg(&["left", "ledger_position"]);
        let found = self.node.partitions.query_unfenced(partition, &get).await?;
        let (left, position): (Option<Seq>, Option<Seq>) = found;
        let left = left.map(|left| position.map_or(left, |position| left.min(position)));
        match left.filter(|left| settled < *left) {
            None => Ok(()),
            Some(left) => Err(unavailable(format!(
                "the ledger has partition {} up to entry {settled}, and evicted campaigns have entries up to \
                 {left}: restore a later ledger, or accept this one with qiang partition repair {}",
                partition.0, partition.0
            ))),
        }
    }

    /// Settles the log after the ledger's position up to the first gap, and returns the position. After a gap, rows are
    /// better evidence than entries, if there are rows (`campaigns.rs`).
    async fn settle_rest(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Seq, EngineError> {
        let mut settled = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        loop {
            let mut entries = self
                .node
                .partitions
                .entries_behind(partition, settled)
                .await?;
            cut_at_gap(&mut entries);
            if entries.first().is_none_or(|entry| entry.seq != settled + 1) {
                return Ok(settled);
            }
            settled = match ledger.settle(partition, &entries).await {
                Err(LedgerError::Damaged { .. } | LedgerError::Overflow) => {
                    settle_singly(partition, ledger, &entries).await
                }
                settled => settled,
            }
            .map_err(engine_error_from_ledger)?;
        }
    }
}

/// Distance between everything known and the start of a new epoch: more entries than a process can have read and not
/// settled yet. A process that was stopped in between may bring entries that no other process observed. The ledger
/// distinguishes them from entries of the new epoch by position only.
const EPOCH_GAP: Seq = 1 << 20;

/// Moves the ledger's position over lost entries and the [`EPOCH_GAP`]. From then on no process can settle one of them.
/// The position must not pass entries that another process has appended: the ledger accepts only the last attempt, and
/// a repairer also checks in Redis that the repair is its own.
async fn skip_to(
    ledger: &dyn Ledger,
    attempt: &RepairAttempt,
    seq: Seq,
    repairer: Option<&Rebuild<'_>>,
) -> Result<Seq, EngineError> {
    let partition = attempt.partition;
    let seq = seq.saturating_add(EPOCH_GAP);
    loop {
        // If another process has settled something since, the move is repeated from there.
        let position = ledger
            .settled(partition)
            .await
            .map_err(engine_error_from_ledger)?;
        if position >= seq {
            return Ok(position);
        }
        if let Some(rebuild) = repairer {
            rebuild.check().await?;
        }
        let moved = ledger.settle_past(attempt, position, &[], seq).await;
        moved.map_err(engine_error_from_ledger)?;
    }
}

/// Settles entries one by one, and quarantines each that the ledger refuses.
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

/// Removes from a reloaded shard what repairs have withheld of it. For a lazy packet, returns the numbers that no
/// repair could name.
pub(crate) async fn withhold_again(
    ledger: &dyn Ledger,
    partition: PartitionId,
    part: &mut BothSides,
) -> Result<BTreeSet<u32>, EngineError> {
    let journal = WithheldJournal::read(ledger, partition, "").await?;
    journal.withhold_again(part);
    Ok(match spread::is_lazy(&part.facts) {
        true => journal.numbers(part.facts.campaign),
        false => BTreeSet::new(),
    })
}

/// Random number from the name of an epoch.
fn chance_of(epoch: &str) -> u32 {
    let digits = epoch.get(..8).unwrap_or_default();
    u32::from_str_radix(digits, 16).unwrap_or_default()
}

fn by_campaign(entries: Vec<Entry>) -> BTreeMap<CampaignId, Vec<Entry>> {
    let mut campaigns: BTreeMap<CampaignId, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        campaigns.entry(entry.campaign).or_default().push(entry);
    }
    campaigns
}
