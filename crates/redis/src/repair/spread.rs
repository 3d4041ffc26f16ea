//! Repair of one campaign in the repaired partitions: its only shard, or all shards that lost something.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use qiang_core::{
    campaign::CampaignKind,
    event::PartitionId,
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError},
    reconcile::{PartFacts, Repair, SpreadSurvey, Survey},
};

use super::{
    APPEND_MAX, Evidence, engine_error_from_ledger,
    group::HeldEntries,
    order_restoration,
    parts::{Lost, SurvivingShards},
    sides::{BothSides, CampaignRead},
    stock::SaleStock,
    terms::LastTerms,
};
use crate::{
    connection::unavailable, engine::RedisEngine, intake::reload_queue::ReloadNeed,
    protocol::reply::share, repair::rebuild::records, shards::snapshot::settled_rows,
};

/// A shard that is repaired: its partition's index in the group, and the shard on both sides.
pub(super) type Member = (usize, BothSides);

impl RedisEngine {
    /// Reads the shards of a campaign in the held partitions, in the order of shards. Only the repair of this campaign
    /// itself changes them, so they may be read ahead.
    pub(super) async fn read_campaign(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        campaign: CampaignId,
    ) -> Result<CampaignRead, EngineError> {
        let partitions = &self.node.partitions;
        let home = partitions.home(campaign);
        let settled = match ledger.settled_part(campaign, home).await {
            Err(LedgerError::Damaged { reason }) => return Ok(CampaignRead::Unreadable(reason)),
            settled => settled.map_err(engine_error_from_ledger)?,
        };
        let Some(settled) = settled else {
            // Only Redis has the campaign, so there is nothing to compare it with.
            return Ok(CampaignRead::Members(Vec::new()));
        };
        let (parts, kind) = partitions.parts_in(campaign, &settled).await?;
        let is_here = |held: &HeldEntries<'_>| {
            let index = partitions.index_of(held.rebuild.partition, campaign, parts);
            index.is_some()
        };
        if !held.iter().any(is_here) {
            return Ok(CampaignRead::Members(Vec::new()));
        }
        for partition in partitions.of_parts(campaign, parts).skip(1) {
            match ledger.settled_part(campaign, partition).await {
                Err(LedgerError::Damaged { reason }) => {
                    return Ok(CampaignRead::Unreadable(reason));
                }
                part => part.map_err(engine_error_from_ledger)?,
            };
        }
        let rows = match settled_rows(ledger, campaign, kind).await {
            Err(LedgerError::Damaged { reason }) => return Ok(CampaignRead::Unreadable(reason)),
            rows => rows.map_err(engine_error_from_ledger)?,
        };
        // Each partition has its own connection, so the reads run in parallel.
        let (mut places, mut reads) = (Vec::new(), Vec::new());
        for (place, held) in held.iter().enumerate() {
            let partition = held.rebuild.partition;
            if let Some(index) = partitions.index_of(partition, campaign, parts) {
                places.push(place);
                reads.push(self.read_part(ledger, partition, campaign, index, &rows));
            }
        }
        let read = places.into_iter().zip(try_join_all(reads).await?);
        let mut members: Vec<Member> = read
            .filter_map(|(place, part)| Some((place, part?)))
            .collect();
        members.sort_by_key(|(_, part)| part.facts.index);
        Ok(CampaignRead::Members(members))
    }

    /// Repairs the shards of a campaign; returns each repair with its partition's index in the group.
    pub(super) async fn repair_campaign(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        mut members: Vec<Member>,
        evidence: &[Evidence],
    ) -> Result<Vec<(usize, Repair)>, EngineError> {
        let partitions = &self.node.partitions;
        let Some((first, part)) = members.first().map(|(place, part)| (*place, part)) else {
            return Ok(Vec::new());
        };
        let campaign = part.facts.campaign;
        let happened = |(place, part): &Member| {
            let evidence = &evidence[*place];
            part.is_known() || evidence.kept.contains_key(&campaign) || evidence.noted.unnamed > 0
        };
        let has_happened = members.iter().any(happened);
        if part.facts.parts == 1 {
            if !has_happened {
                // It is opened as any other draft.
                self.skip_of_drafts(held, ledger, &mut members, evidence)
                    .await?;
                return Ok(Vec::new());
            }
            self.restore(held, ledger, &mut members, evidence).await?;
            recount(held, ledger, &mut members, evidence).await?;
            let terms = LastTerms::read_last_terms(&members, evidence, None);
            let (own, part) = (&evidence[first], &members[0].1);
            let stock =
                (part.facts.kind == CampaignKind::Sale).then(|| SaleStock::from_sides(part, own));
            let part = &mut members[0].1;
            if let Some(stock) = stock {
                stock.give(part);
            }
            own.journal.withhold_again(part);
            terms.give(part);
            let mut repair = survey_of(part, own).repair();
            terms.append(&mut repair, part.now);
            if let Some(stock) = stock {
                stock.append(&mut repair, part.now);
            }
            journal_of(held, &members[0], &repair, own, ledger).await?;
            let fields = terms.fields(&members[0].1);
            self.write(held, &members[0], &repair, &fields, own).await?;
            return Ok(vec![(first, repair)]);
        }
        let rebuild = &held[first].rebuild;
        let parts = part.facts.parts;
        let mut lost: Vec<Lost> = Vec::new();
        for (place, _) in &members {
            // Each transfer that was begun is an entry, so its number is at most the last entry's.
            let end = *evidence[*place].end.lock().await;
            lost.push((held[*place].rebuild.partition, end));
        }
        for index in 0..parts {
            let other = partitions.for_part(campaign, index);
            if lost.iter().all(|(lost, _)| *lost != other) {
                // An evicted shard is read like the others.
                let wanted = (campaign, ReloadNeed::Repair);
                self.node.recall_these(ledger, &[other], wanted).await?;
                self.node.check_part(ledger, (other, campaign)).await?;
            }
        }
        self.reject_transfers(held, ledger, (&members, &mut lost))
            .await?;
        let elsewhere = partitions
            .elsewhere(rebuild.token(), &part.campaign, parts, &lost)
            .await?;
        // Shards that are not opened yet are opened with the others, unless there is evidence about them.
        let is_draft = !has_happened && (elsewhere.unopened > 0 || elsewhere.there == 0);
        let repaired = match is_draft {
            true => {
                let skip = self.skip_of_drafts(held, ledger, &mut members, evidence);
                skip.await.map(|()| Vec::new())
            }
            false => {
                let all = (members, &lost[..], &elsewhere);
                self.repair_spread(held, ledger, all, evidence).await
            }
        };
        partitions.thaw(rebuild.token(), campaign, &elsewhere).await;
        repaired
    }

    /// Makes the shards that lost nothing reject the transfers of the others. If such a shard knows a later transfer,
    /// another process has done the repair since, or the ledger was set back. Then transfers continue after that one.
    async fn reject_transfers(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        (members, lost): (&[Member], &mut [Lost]),
    ) -> Result<(), EngineError> {
        let partitions = &self.node.partitions;
        let Some((first, part)) = members.first() else {
            return Ok(());
        };
        let token = held[*first].rebuild.token();
        let campaign = (part.facts.campaign, part.facts.parts);
        while let Some((partition, last)) =
            partitions.reject_transfers(token, campaign, lost).await?
        {
            for ((place, _), own) in members.iter().zip(lost.iter_mut()) {
                if own.0 == partition {
                    let HeldEntries {
                        rebuild, attempt, ..
                    } = &held[*place];
                    rebuild.check().await?;
                    ledger
                        .claim_repair(attempt)
                        .await
                        .map_err(engine_error_from_ledger)?;
                    // A later attempt that finds the same transfer names a higher one than this.
                    own.1 = last + attempt.number;
                }
            }
        }
        Ok(())
    }

    async fn repair_spread(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        (mut members, lost, elsewhere): (Vec<Member>, &[Lost], &SurvivingShards),
        evidence: &[Evidence],
    ) -> Result<Vec<(usize, Repair)>, EngineError> {
        self.restore(held, ledger, &mut members, evidence).await?;
        recount(held, ledger, &mut members, evidence).await?;
        for ((place, part), (partition, _)) in members.iter_mut().zip(lost) {
            self.remember_all(*partition, part).await?;
            evidence[*place].journal.withhold_as_before(part);
        }
        let terms = LastTerms::read_last_terms(&members, evidence, elsewhere.terms);
        for (_, part) in &mut members {
            terms.give(part);
        }
        let (place, part) = &members[0];
        // The first shard has the stock, whether or not it has lost something.
        let is_of_first = part.facts.index == 0 && part.facts.kind == CampaignKind::Sale;
        let stock = is_of_first
            .then(|| SaleStock::from_sides(part, &evidence[*place]).at_least(elsewhere.units));
        let supply = match (stock, elsewhere.stock) {
            (Some(stock), _) => stock.units,
            (None, Some(units)) => units,
            (None, None) => part.campaign.supply(),
        };
        let (free, now) = (part.free.clone(), part.now);
        let surveys = members.iter().map(|(place, part)| Survey {
            withheld: part.withheld,
            withheld_shares: part.withheld_shares.clone(),
            ..survey_of(part, &evidence[*place])
        });
        let mut repairs = SpreadSurvey {
            supply,
            elsewhere: elsewhere.units,
            elsewhere_shares: elsewhere.shares.clone(),
            free,
            parts: surveys.collect(),
        }
        .repair();
        // Each repaired log gets the terms, because a shard is settled by the terms in its own log.
        for repair in &mut repairs {
            terms.append(repair, now);
        }
        if let Some((first, stock)) = repairs.first_mut().zip(stock) {
            stock.append(first, now);
        }
        let sent = elsewhere.sent.iter();
        let sent = sent.map(|(partition, last)| (*partition, *last));
        let sent: Vec<Lost> = sent.chain(lost.iter().copied()).collect();
        let mut given = Vec::new();
        for own in lost {
            // Everything that the other shards have sent so far counts as arrived.
            let others = sent.iter().filter(|other| *other != own);
            let arrived =
                others.map(|(partition, last)| (format!("from:{}", partition.0), last.to_string()));
            let mut fields: Vec<_> = arrived.collect();
            fields.push(("sent".to_owned(), own.1.to_string()));
            given.push(fields);
        }
        for ((_, part), fields) in members.iter().zip(&mut given) {
            if part.facts.index == 0 {
                fields.push(("stock".to_owned(), supply.to_string()));
            }
            fields.extend(terms.fields(part));
        }
        for (member, repair) in members.iter().zip(&repairs) {
            journal_of(held, member, repair, &evidence[member.0], ledger).await?;
        }
        let mut written = Vec::new();
        for ((member, fields), repair) in members.iter().zip(&given).zip(&repairs) {
            written.push(self.write(held, member, repair, fields, &evidence[member.0]));
        }
        try_join_all(written).await?;
        let places = members.iter().map(|(place, _)| *place);
        Ok(places.zip(repairs).collect())
    }

    /// Makes shards of a sale that is a draft skip numbers when it opens, if their partitions lost everything: the
    /// ledger may have been set back to before its opening.
    async fn skip_of_drafts(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        members: &mut [Member],
        evidence: &[Evidence],
    ) -> Result<(), EngineError> {
        for (place, part) in members {
            let (held, evidence) = (&held[*place], &evidence[*place]);
            let Some(chance) = evidence.skips.filter(|_| part.snapshot.is_none()) else {
                continue;
            };
            let Some((record, upto)) = evidence.journal.record_for_draft(part, chance) else {
                continue;
            };
            held.rebuild.check().await?;
            let recorded = ledger.withhold(&record, &held.attempt).await;
            recorded.map_err(engine_error_from_ledger)?;
            let field = format!("skipped:{}", part.facts.campaign);
            let fields = [field, upto.to_string()];
            held.rebuild.put_fields("set", &fields).await?;
        }
        Ok(())
    }

    /// Restores rows that were deleted from the ledger.
    async fn restore(
        &self,
        held: &[HeldEntries<'_>],
        ledger: &dyn Ledger,
        members: &mut [Member],
        evidence: &[Evidence],
    ) -> Result<(), EngineError> {
        let rows: Vec<_> = evidence
            .iter()
            .map(|evidence| &evidence.restoration)
            .collect();
        order_restoration::restore(held, ledger, &self.node.partitions, members, &rows).await
    }

    /// Adds to a shard's state in Redis what it withholds, or was sending to another shard.
    async fn remember_all(
        &self,
        partition: PartitionId,
        part: &mut BothSides,
    ) -> Result<(), EngineError> {
        let Some(before) = &part.snapshot else {
            return Ok(());
        };
        let partitions = &self.node.partitions;
        let key = partitions.keys().transfers(partition, part.facts.campaign);
        let mut command = redis::cmd("HVALS");
        let moving: Vec<String> = partitions
            .query_unfenced(partition, command.arg(key))
            .await?;
        let unreadable = || unavailable("a transfer of units cannot be read");
        let mut shares = Vec::new();
        part.engine.supply += before.withheld.0;
        for text in before.withheld_shares.lines() {
            shares.push(share(text).ok_or_else(unreadable)?);
        }
        part.withheld_shares = shares.iter().map(|(number, _)| *number).collect();
        shares.append(&mut part.engine.shares);
        for transfer in &moving {
            let mut lines = transfer.split('\n').skip(1);
            let units = lines.next().and_then(|units| units.parse::<u64>().ok());
            part.engine.supply += units.ok_or_else(unreadable)?;
            for text in lines {
                shares.push(share(text).ok_or_else(unreadable)?);
            }
        }
        part.engine.shares = shares;
        Ok(())
    }

    /// Writes a shard, and appends what the log lacks.
    async fn write(
        &self,
        held: &[HeldEntries<'_>],
        (place, part): &Member,
        repair: &Repair,
        fields: &[(String, String)],
        evidence: &Evidence,
    ) -> Result<(), EngineError> {
        let rebuild = &held[*place].rebuild;
        let own = part.fields.iter();
        let own = own.map(|(field, value)| ((*field).to_owned(), value.clone()));
        let repaired = ("repaired".to_owned(), evidence.noted.epoch.clone());
        let fields: Vec<_> = own
            .chain(fields.iter().cloned())
            .chain([repaired])
            .collect();
        let before = part.snapshot.as_ref();
        let mut repair = repair.clone();
        if evidence.damaged.contains(&part.facts.campaign) {
            // Rows that Redis has may lack related rows.
            repair.changed = repair.rows.grants.keys().copied().collect();
        }
        let repair = &repair;
        rebuild
            .part(&part.meta, &part.facts, before, &fields, repair)
            .await?;
        let id = part.facts.campaign.to_string();
        for events in repair.append.chunks(APPEND_MAX) {
            let records = records(&part.meta, events);
            let mut end = evidence.end.lock().await;
            *end = rebuild.append(&id, *end, &records).await?;
        }
        Ok(())
    }
}

/// Whether an earlier attempt of this same repair has written the shard.
fn was_tried(part: &BothSides, evidence: &Evidence) -> bool {
    let before = part.snapshot.as_ref();
    before.and_then(|before| before.repaired.as_ref()) == Some(&evidence.noted.epoch)
}

/// Sets the ledger's counts of shards to the result of its rows, then reads what a closed shard returned. Counts that
/// rows contradict stay as they are, and do not stop the repair.
async fn recount(
    held: &[HeldEntries<'_>],
    ledger: &dyn Ledger,
    members: &mut [Member],
    evidence: &[Evidence],
) -> Result<(), EngineError> {
    for (place, part) in members {
        if was_tried(part, &evidence[*place]) {
            continue;
        }
        let HeldEntries {
            rebuild, attempt, ..
        } = &held[*place];
        let campaign = part.facts.campaign;
        rebuild.check().await?;
        let units = part.ledger.granted();
        match ledger.recount(part.facts, units, attempt).await {
            Err(error @ LedgerError::Damaged { .. }) => {
                tracing::warn!(%campaign, %error, "the rows of a campaign contradict its counts");
            }
            counted => counted.map_err(engine_error_from_ledger)?,
        }
        if part.closed.is_some() {
            let known = ledger.settled_part(campaign, rebuild.partition).await;
            part.closed = known
                .map_err(engine_error_from_ledger)?
                .and_then(|known| known.closed);
        }
    }
    Ok(())
}

/// Makes the ledger record what is withheld.
async fn journal_of(
    held: &[HeldEntries<'_>],
    (place, part): &Member,
    repair: &Repair,
    evidence: &Evidence,
    ledger: &dyn Ledger,
) -> Result<(), EngineError> {
    let record = evidence
        .journal
        .record_for(&part.facts, repair, part.withheld);
    if let Some(record) = record.filter(|_| !was_tried(part, evidence)) {
        held[*place].rebuild.check().await?;
        let withheld = ledger.withhold(&record, &held[*place].attempt).await;
        withheld.map_err(engine_error_from_ledger)?;
    }
    Ok(())
}

pub(super) fn is_lazy(facts: &PartFacts) -> bool {
    facts.kind == CampaignKind::RedPacket && !facts.fixed_shares
}

fn survey_of<'a>(part: &BothSides, evidence: &'a Evidence) -> Survey<'a> {
    let kept = evidence.kept.get(&part.facts.campaign);
    Survey {
        facts: part.facts,
        engine: part.engine.clone(),
        ledger: part.ledger.clone(),
        closed: part.closed,
        ledger_is_ahead: evidence.noted.ledger_is_ahead,
        in_flight: &[],
        kept: kept.map_or(&[], Vec::as_slice),
        // An attempt that stopped has already withheld the unnamed entries.
        unnamed: if was_tried(part, evidence) {
            0
        } else {
            evidence.noted.unnamed
        },
        accounted: match is_lazy(&part.facts) {
            true => evidence.journal.numbers(part.facts.campaign),
            false => BTreeSet::new(),
        },
        skips: evidence.skips.filter(|_| part.snapshot.is_none()),
        withheld: 0,
        withheld_shares: BTreeSet::new(),
        now: part.now,
    }
}
