//! Journal of repairs in the ledger. It is written before a repair takes effect. It is read if Redis has lost what an
//! earlier repair withheld.

use std::collections::{BTreeMap, BTreeSet};

use qiang_core::{
    campaign::{CampaignKind, Phase},
    event::PartitionId,
    id::CampaignId,
    ports::{EngineError, Ledger, NumberRange, RepairRecord, WithheldRecord},
    reconcile::{PartFacts, Repair, WithheldUnits},
    time::Timestamp,
};

use super::{engine_error_from_ledger, group::HeldEntries, missing, sides::BothSides};
use crate::{
    protocol::reply::share_text,
    repair::rebuild::{NotedChange, missing_ordinals, without},
    shards::skipped::OrdinalRuns,
};

/// Withheld units of a partition, by campaign.
pub(super) struct WithheldJournal {
    partition: PartitionId,
    /// Epoch of the running repair.
    epoch: String,
    withheld: BTreeMap<CampaignId, Vec<WithheldRecord>>,
}

impl WithheldJournal {
    pub(super) async fn read(
        ledger: &dyn Ledger,
        partition: PartitionId,
        epoch: &str,
    ) -> Result<Self, EngineError> {
        let mut withheld: BTreeMap<CampaignId, Vec<WithheldRecord>> = BTreeMap::new();
        for record in ledger
            .withheld(partition)
            .await
            .map_err(engine_error_from_ledger)?
        {
            withheld.entry(record.campaign).or_default().push(record);
        }
        Ok(Self {
            partition,
            epoch: epoch.to_owned(),
            withheld,
        })
    }

    fn of_other_repairs(&self, campaign: CampaignId) -> impl Iterator<Item = &WithheldRecord> {
        let records = self.withheld.get(&campaign).into_iter().flatten();
        records.filter(|record| record.epoch != self.epoch)
    }

    /// Records of earlier repairs whose units are still withheld.
    fn held(&self, campaign: CampaignId) -> impl Iterator<Item = &WithheldRecord> {
        let records = self.of_other_repairs(campaign);
        records.filter(|record| record.released_at.is_none())
    }

    /// Numbers that earlier repairs could not name. For packets: of a sale they may be millions.
    pub(super) fn numbers(&self, campaign: CampaignId) -> BTreeSet<u32> {
        numbers_of(self.of_other_repairs(campaign))
    }

    /// Withholds again what earlier repairs withheld of a shard, is not released, and Redis has lost.
    pub(super) fn withhold_again(&self, part: &mut BothSides) {
        self.number_on(part);
        let before = part.snapshot.as_ref();
        let (facts, engine) = (part.facts, &mut part.engine);
        if [part.ledger.phase, engine.rows.phase].contains(&Phase::Closed) {
            return;
        }
        let (units, minor) = before.map_or((0, 0), |before| before.withheld);
        let mut shares = before.map_or_else(String::new, |it| it.withheld_shares.clone());
        let held = || self.held(facts.campaign);
        let mut again = WithheldUnits::default();
        if facts.fixed_shares {
            let numbers = numbers_of(held());
            let granted = &part.ledger.grants;
            let is_held = |number: &u32| numbers.contains(number) && !granted.contains_key(number);
            let all = std::mem::take(&mut engine.shares).into_iter();
            (again.shares, engine.shares) = all.partition(|(number, _)| is_held(number));
            again.units = again.shares.len() as u64;
            again.amount_minor = again.shares.iter().map(|(_, amount)| amount).sum();
        } else {
            let all: u64 = held().map(|record| record.units).sum();
            let free = engine.supply.saturating_sub(part.ledger.granted());
            again.units = all.saturating_sub(units).min(free);
            if again.units > 0 {
                let all: i64 = held().map(|record| record.amount_minor).sum();
                again.amount_minor = all - minor;
            }
            if facts.kind == CampaignKind::RedPacket {
                // Even after a release, a unit without a number of its own stays withheld.
                let last = part.ledger.grants.last_key_value().map_or(0, |(n, _)| *n);
                let numbers = part
                    .campaign
                    .supply()
                    .saturating_sub(engine.numbered.max(last).into());
                again.units = again.units.max(free.saturating_sub(numbers));
            }
        }
        if again.units == 0 {
            return;
        }
        engine.supply -= again.units;
        engine.funded_minor -= again.amount_minor;
        for (number, amount) in &again.shares {
            shares.push_str(&share_text(*number, *amount));
            shares.push('\n');
        }
        let (units, minor) = (units + again.units, minor + again.amount_minor);
        part.fields.extend([
            ("withheld", units.to_string()),
            ("withheld_minor", minor.to_string()),
            ("withheld_shares", shares),
        ]);
    }

    /// As `withhold_again`, for a shard of a spread campaign, whose units are all redistributed. It withholds as many
    /// units as before, and the same shares. The shard's `withheld_shares` must be the shares withheld in Redis.
    pub(super) fn withhold_as_before(&self, part: &mut BothSides) {
        self.number_on(part);
        let before = part.snapshot.as_ref();
        part.withheld = before.map_or(0, |before| before.withheld.0);
        if [part.ledger.phase, part.engine.rows.phase].contains(&Phase::Closed) {
            part.withheld_shares.clear();
            return;
        }
        let held = || self.held(part.facts.campaign);
        if part.facts.fixed_shares {
            part.withheld_shares.extend(numbers_of(held()));
            return;
        }
        let units: u64 = held().map(|record| record.units).sum();
        part.withheld = part.withheld.max(units);
    }

    /// Numbers that no repair could name are never issued again, even if their units were released.
    fn number_on(&self, part: &mut BothSides) {
        let records = self.of_other_repairs(part.facts.campaign);
        let ranges = records.flat_map(|record| &record.numbers);
        if !part.facts.fixed_shares
            && let Some(last) = ranges.map(|range| range.last).max()
        {
            let last = part.facts.ordinal_of(last);
            part.engine.numbered = part.engine.numbered.max(last);
        }
    }

    /// Record of the ordinals that a sale's shard skips, which is a draft in the ledger. `None` if it skips none.
    pub(super) fn record_for_draft(
        &self,
        part: &mut BothSides,
        chance: u32,
    ) -> Option<(WithheldRecord, u32)> {
        let facts = part.facts;
        if facts.kind != CampaignKind::Sale {
            return None;
        }
        self.number_on(part);
        let last = part.engine.numbered;
        let upto = last.saturating_add(facts.ordinals_to_skip(last, chance));
        let runs = without(&[(1, upto)], &self.ordinals(&facts));
        let record = WithheldRecord {
            partition: self.partition,
            epoch: self.epoch.clone(),
            campaign: facts.campaign,
            units: 0,
            amount_minor: 0,
            numbers: ranges_of(&facts, &runs),
            released_at: None,
        };
        Some((record, upto))
    }

    /// Ordinals of a sale's shard that earlier repairs could not name.
    fn ordinals(&self, facts: &PartFacts) -> OrdinalRuns {
        let records = self.of_other_repairs(facts.campaign);
        let ranges = records.flat_map(|record| &record.numbers);
        let ordinals = ranges.map(|it| (facts.ordinal_of(it.first), facts.ordinal_of(it.last)));
        ordinals.collect()
    }

    /// Record of what a repair withholds of a campaign in addition to the `before` units. `None` if it withholds
    /// nothing new, and no earlier attempt of this repair did.
    pub(super) fn record_for(
        &self,
        facts: &PartFacts,
        repair: &Repair,
        before: u64,
    ) -> Option<WithheldRecord> {
        let known = match facts.kind {
            CampaignKind::RedPacket => self.numbers(facts.campaign),
            CampaignKind::Sale => BTreeSet::new(),
        };
        let (mut units, mut amount_minor) = (repair.withheld.units, repair.withheld.amount_minor);
        let rows = &repair.rows.grants;
        let is_new = |number: &u32| !rows.contains_key(number) && !known.contains(number);
        let numbers = match facts.kind {
            CampaignKind::Sale => {
                units = units.saturating_sub(before);
                let missing = missing_ordinals(facts, repair);
                ranges_of(facts, &without(&missing, &self.ordinals(facts)))
            }
            CampaignKind::RedPacket if facts.fixed_shares => {
                let shares = repair.withheld.shares.iter();
                let new: Vec<_> = shares
                    .filter(|(number, _)| !known.contains(number))
                    .collect();
                units = new.len() as u64;
                amount_minor = new.iter().map(|(_, amount)| amount).sum();
                let numbers: BTreeSet<u32> = new.iter().map(|(number, _)| *number).collect();
                NumberRange::from_numbers(numbers, 1)
            }
            CampaignKind::RedPacket => {
                NumberRange::from_numbers((1..=repair.numbered).filter(is_new), 1)
            }
        };
        let records = self.withheld.get(&facts.campaign).into_iter().flatten();
        let mut records = records.map(|record| &record.epoch);
        let again = records.any(|epoch| *epoch == self.epoch);
        (again || units > 0 || !numbers.is_empty()).then(|| WithheldRecord {
            partition: self.partition,
            epoch: self.epoch.clone(),
            campaign: facts.campaign,
            units,
            amount_minor,
            numbers,
            released_at: None,
        })
    }
}

fn ranges_of(facts: &PartFacts, ordinals: &[(u32, u32)]) -> Vec<NumberRange> {
    let range = |(first, last): &(u32, u32)| NumberRange {
        first: facts.number_of(*first),
        last: facts.number_of(*last),
        step: facts.parts.into(),
    };
    ordinals.iter().map(range).collect()
}

fn numbers_of<'r>(records: impl Iterator<Item = &'r WithheldRecord>) -> BTreeSet<u32> {
    let ranges = records.flat_map(|record| &record.numbers);
    ranges.flat_map(|range| range.iter()).collect()
}

/// Records the beginning of a repair.
pub(super) async fn begin(
    ledger: &dyn Ledger,
    HeldEntries { attempt, loss, .. }: &HeldEntries<'_>,
    noted: &NotedChange,
    now: Timestamp,
) -> Result<(), EngineError> {
    let missing = missing::in_neither(loss, (noted.head, noted.settled));
    let record = RepairRecord {
        partition: attempt.partition,
        epoch: noted.epoch.clone(),
        follows: loss.epoch.clone(),
        at: now,
        lost_from: *missing.start(),
        lost_to: *missing.end(),
        unnamed: noted.unnamed,
        reason: loss.reason.clone(),
        upto: None,
    };
    let begun = ledger.begin_repair(&record, attempt).await;
    begun.map_err(engine_error_from_ledger)
}
