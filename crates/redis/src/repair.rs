//! Repair of a partition that has lost something: it is rebuilt from the ledger, the log that survived, what nodes have
//! answered and keep, and Redis' own rows, and grants again under a new epoch.
//!
//! 1. One process takes the repair for itself (`repair_begin`), and those of all partitions that have lost parts of the
//!    same spread campaigns (`group.rs`). The partitions are halted, so nothing else is written. The ledger numbers the
//!    attempt, and accepts no writes of earlier ones.
//! 2. All nodes have put what they answered past the end of the log into `answers` (`offer.rs`), or have been silent
//!    for longer than the grace.
//! 3. What the log still has is settled. A ledger that is then behind what has left Redis was set back, and has as open
//!    what was over: it is taken at its word only where an operator asks for the repair. The ledger writes the repair
//!    down, and its position moves past everything that is lost: whoever still brings one of the lost entries finds it
//!    settled.
//! 4. Every live campaign of the partition is read on both sides and united by [`qiang_core::reconcile`], and closed
//!    ones with entries that the ledger does not have (`late_campaigns.rs`). The ledger writes down what is withheld
//!    (`journal.rs`). Rows that Redis lacks are written, then the campaign's numbers, then entries that neither log nor
//!    ledger has. What a part of a spread campaign has follows from what the others have (`parts.rs`, `spread.rs`).
//!    A campaign that the ledger cannot read is taken out of service (`suspension.rs`).
//! 5. `repair_end` makes a new epoch and ends the halt.
//!
//! Each step states what it wants to be so. A repair that breaks off is done again, by whoever comes next, from what is
//! there then.

mod campaigns;
mod damage;
mod facts;
mod group;
mod journal;
mod late_campaigns;
mod missing;
mod operator;
mod order_restoration;
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

use crate::connection::{PartitionState, new_epoch, unavailable};
use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, RepairAttempt, RepairEngine, RepairState},
    reconcile::{Difference, compare},
};
use tokio::sync::Mutex;

pub use self::sides::Inspection;
use self::{
    group::Held, journal::Journal, order_restoration::OrderRestoration, sides::BothSides,
    suspension::Known,
};
use crate::{
    engine::RedisEngine,
    protocol::log_record::cut_at_gap,
    repair::rebuild::{Noted, Rebuild},
    shards::snapshot::of_ledger,
};

/// Live campaigns that are read from the ledger at a time.
const CAMPAIGNS_PAGE: u32 = 1_000;
/// Entries that one call appends.
const APPEND_MAX: usize = 500;

/// What is known of a partition's loss, beside rows.
struct Evidence {
    /// The log goes on behind this entry, and the ledger is there. Whoever appends holds it.
    end: Mutex<Seq>,
    /// By campaign.
    kept: BTreeMap<CampaignId, Vec<Entry>>,
    /// What was found when the repair began.
    noted: Noted,
    journal: Journal,
    /// What entries in quarantine change about sales.
    quarantined: stock::Changes,
    /// Campaigns of which everything is written again.
    damaged: BTreeSet<CampaignId>,
    /// Closed campaigns that entries which the ledger does not have may be about.
    late: BTreeSet<CampaignId>,
    restoration: OrderRestoration,
    /// Campaigns that are taken out of service.
    suspended: BTreeSet<CampaignId>,
    /// Whether others may be, and up to where the ledger is: no later entry is about any of them.
    can_suspend: bool,
    position: Seq,
}

#[async_trait]
impl RepairEngine for RedisEngine {
    fn release_kept(&self, settled: &[(PartitionId, Seq)]) {
        for partition in self.node.partitions.list() {
            let known = settled.iter().find(|(id, _)| *id == partition.id);
            // A repair moves the ledger's position before it appends what it has restored: until that is settled too,
            // the answers before it are kept.
            let known = known.filter(|(_, seq)| *seq >= partition.began());
            if let (Some((_, seq)), Some(term)) = (known, partition.current_term()) {
                self.node.kept(partition.id).release_in(&term, *seq);
            }
        }
    }

    async fn halt_log_gap(&self, partition: PartitionId) -> Result<(), EngineError> {
        let partitions = &self.node.partitions;
        if partitions.state(partition) == PartitionState::Open
            && let Some(gap) = self.node.log_gap(partition).take()
        {
            partitions.halt_log_gap(partition, &gap).await?;
        }
        Ok(())
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
        let group = self.group(partition, loss, ledger).await?;
        let Some(held) = self.hold(group, ledger, at_once).await? else {
            return Ok(RepairState::Waiting);
        };
        let repaired = self.repair_held(&held, ledger, at_once).await;
        if repaired.is_err() {
            // Whoever comes next need not wait for this one.
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
        let agenda = self.node.partitions.agenda(partition).await?;
        let mut campaigns: BTreeSet<CampaignId> = agenda.into_iter().collect();
        let mut after = None;
        loop {
            let page = ledger.live_campaigns(after, CAMPAIGNS_PAGE).await;
            let page = page.map_err(of_ledger)?;
            let Some(last) = page.last() else { break };
            after = Some(*last);
            let is_last = page.len() < CAMPAIGNS_PAGE as usize;
            campaigns.extend(page);
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
        let from = ledger.settled(partition).await.map_err(of_ledger)?;
        let both = self.both_sides(ledger, partition, campaign).await?;
        let Some((engine, known, is_known)) = both else {
            return Ok(Vec::new());
        };
        if !is_known {
            return Ok(compare(campaign, &engine, &known, &[]));
        }
        let in_flight = self.node.partitions.in_flight(partition, from).await?;
        Ok(compare(campaign, &engine, &known, &in_flight))
    }
}

impl RedisEngine {
    /// Brings the ledger past everything that is lost, and gathers what else is known. Once the ledger's position is
    /// there, nobody settles an entry of the lost ones any more that he has read before.
    async fn evidence(
        &self,
        held: &Held<'_>,
        ledger: &dyn Ledger,
    ) -> Result<Evidence, EngineError> {
        let Held {
            rebuild,
            attempt,
            loss,
            all,
        } = held;
        let (partition, partitions) = (rebuild.partition, &self.node.partitions);
        let head = partitions.log_end(partition).await?;
        let settled = self.settle_rest(partition, ledger).await?;
        let before = rebuild.noted(loss).await?;
        // An attempt before this one has moved both ends past everything.
        let found = before.as_ref();
        let (log_end, in_ledger) = found.map_or((head, settled), |(it, _)| (it.head, it.settled));
        let late = self.late_campaigns(partition, (log_end, in_ledger)).await?;
        let damaged = self
            .drop_damaged(rebuild, ledger, in_ledger >= log_end, &late)
            .await?;
        let kept = partitions.kept(partition, loss).await?;
        let now = partitions.time(partition).await?;
        let noted = match before {
            Some((noted, true)) => noted,
            before => {
                let before = before.map(|(noted, _)| noted);
                let places = before
                    .as_ref()
                    .map_or((head, settled), |it| (it.head, it.settled));
                let named = kept.iter().map(|entry| entry.seq).collect();
                let missing = missing::of(ledger, partition, loss, places, before.as_ref()).await?;
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
                let found = Noted {
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
        let known = Known {
            attempt,
            loss,
            noted: &noted,
            kept: &kept,
        };
        let suspended = self.suspended(rebuild, ledger, &known).await?;
        let can_suspend = self.refusal(&known).is_none();
        // Answers that were put into quarantine may have moved it.
        let settled = ledger.settled(partition).await.map_err(of_ledger)?;
        let end = head.max(settled).max(loss.to);
        let end = skip_to(ledger, attempt, end, Some(rebuild)).await?;
        rebuild.move_end(end).await?;
        Ok(Evidence {
            end: Mutex::new(end),
            kept: by_campaign(kept),
            quarantined: stock::in_quarantine(partition, ledger).await?,
            damaged,
            late,
            restoration: OrderRestoration::of(loss, &noted, end),
            journal: Journal::read(ledger, partition, &noted.epoch).await?,
            suspended,
            can_suspend,
            position: end,
            noted,
        })
    }

    /// Refuses a ledger that was set back behind what has left the partition, and that the log cannot bring there: it
    /// would have campaigns granted anew that were over, and nobody else knows what they had granted.
    ///
    /// The end of a halt raises `left` past the entries that its repair has appended. If these are deleted before they
    /// are settled, the ledger cannot get there, though it was not set back. So the ledger's highest position is
    /// enough: a campaign that leaves raises both.
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
                "the ledger has partition {} up to entry {settled}, and campaigns have left Redis with entries up to \
                 {left}: restore a later ledger, or take this one at its word with qiang partition repair {}",
                partition.0, partition.0
            ))),
        }
    }

    /// Settles what the log still has behind the ledger's position, as far as it follows without a gap; returns the
    /// position. Behind a gap, rows tell more than entries, where there are any (`campaigns.rs`).
    async fn settle_rest(
        &self,
        partition: PartitionId,
        ledger: &dyn Ledger,
    ) -> Result<Seq, EngineError> {
        let mut settled = ledger.settled(partition).await.map_err(of_ledger)?;
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
            .map_err(of_ledger)?;
        }
    }
}

/// So far behind everything that is known a new epoch goes on: more than anybody can have read and not settled yet. A
/// process that was stopped between the two may bring entries that nobody else has observed, and the ledger tells them
/// from those of the new epoch by their places alone.
const EPOCH_GAP: Seq = 1 << 20;

/// Moves the ledger's position forward over entries that are lost, and the [`EPOCH_GAP`]: none of them is settled from
/// then on, whichever process still brings one. The position must not pass entries that another process has appended:
/// the ledger accepts the last attempt alone, and a repairer also asks Redis whether the repair is its own.
async fn skip_to(
    ledger: &dyn Ledger,
    attempt: &RepairAttempt,
    seq: Seq,
    repairer: Option<&Rebuild<'_>>,
) -> Result<Seq, EngineError> {
    let partition = attempt.partition;
    let seq = seq.saturating_add(EPOCH_GAP);
    loop {
        // Where another process has settled something since, it is tried again from there.
        let position = ledger.settled(partition).await.map_err(of_ledger)?;
        if position >= seq {
            return Ok(position);
        }
        if let Some(rebuild) = repairer {
            rebuild.check().await?;
        }
        let moved = ledger.settle_past(attempt, position, &[], seq).await;
        moved.map_err(of_ledger)?;
    }
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

/// Takes out of a part that is brought back what repairs have withheld of it. Returns the numbers that none of them
/// could name, if it is a lazy packet.
pub(crate) async fn withhold_again(
    ledger: &dyn Ledger,
    partition: PartitionId,
    part: &mut BothSides,
) -> Result<BTreeSet<u32>, EngineError> {
    let journal = Journal::read(ledger, partition, "").await?;
    journal.withhold_again(part);
    Ok(match spread::is_lazy(&part.facts) {
        true => journal.numbers(part.facts.campaign),
        false => BTreeSet::new(),
    })
}

fn by_campaign(entries: Vec<Entry>) -> BTreeMap<CampaignId, Vec<Entry>> {
    let mut campaigns: BTreeMap<CampaignId, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        campaigns.entry(entry.campaign).or_default().push(entry);
    }
    campaigns
}
