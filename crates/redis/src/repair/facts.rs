//! Facts of campaigns: phase, supply and terms of a shard, compared with the ledger's row.
//!
//! The row is read between two equal reads of the ledger's position, so it is the row at that position. Entries of the
//! log from there to its end are applied to it. The engine's facts are read before and after the log, and the
//! partition's term is checked last. So an engine that has lost entries is not compared. The phases of all shards of a
//! spread campaign are settled at other positions. So they are read before and after the row of the campaign. The first
//! shard of a packet states shares and money of all shards.

use qiang_core::{
    campaign::{CampaignKind, Phase},
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{EngineError, Ledger, LedgerError, SettledPart},
    reconcile::{CampaignComparison, CampaignFacts, ComparedCampaign, NotCompared},
};

use super::{engine_error_from_ledger, packet_totals::packet_totals};
use crate::{partitions::Partitions, shards::snapshot::ShardHash};

/// With more unsettled entries nothing is compared, because reading them would take too long.
const IN_FLIGHT_MAX: Seq = 10_000;
/// Quarantined entries per read.
const QUARANTINE_PAGE: u32 = 1_000;

/// A shard of a campaign in the ledger.
struct SettledShard {
    part: SettledPart,
    /// The partition's position at which it was read.
    position: Seq,
}

/// Compares the facts of one shard, once.
pub(super) async fn compare(
    partitions: &Partitions,
    ledger: &dyn Ledger,
    partition: PartitionId,
    campaign: CampaignId,
) -> Result<CampaignComparison, EngineError> {
    use CampaignComparison::{Absent, NotCompared as Never, Unsettled};

    let Some(term) = partitions.get(partition).current_term() else {
        return Ok(match partitions.is_halted(partition) {
            true => Never(NotCompared::NotOpen),
            false => Unsettled(NotCompared::NotOpen),
        });
    };
    let settled = match read_row(ledger, partition, campaign).await {
        Ok(Some(settled)) => settled,
        Ok(None) => return Ok(Absent),
        Err(RowError::Unreadable(reason)) => {
            let is_here = partitions.has_part(campaign, partition).await?
                || partitions.home(campaign) == partition;
            return Ok(Never(match is_here {
                true => NotCompared::Unreadable(reason),
                false => NotCompared::UnreadableElsewhere(reason),
            }));
        }
        Err(RowError::Moved) => return Ok(Unsettled(NotCompared::Changing)),
        Err(RowError::Ledger(error)) => return Err(engine_error_from_ledger(error)),
    };
    let unreadable = || {
        let reason = "the campaign's hash in Redis".to_owned();
        Ok(Never(NotCompared::Unreadable(reason)))
    };
    let Ok(head) = read_head(partitions, partition, campaign).await? else {
        return unreadable();
    };
    let Some(head) = head else {
        return Ok(
            match is_lacking(partitions, &settled, partition, campaign) {
                true => Unsettled(NotCompared::NotInEngine),
                false => Absent,
            },
        );
    };
    let place = (head.meta.parts, head.facts.index);
    let Some(engine) = facts_of(&head) else {
        return unreadable();
    };
    let is_first_of_packet = engine.kind == CampaignKind::RedPacket && place.0 > 1 && place.1 == 0;
    let totals = match is_first_of_packet {
        true => packet_totals(partitions, campaign, place.0).await?,
        false => None,
    };
    let whole = CampaignFacts {
        supply: totals.map(|(shares, _)| shares).or(engine.supply),
        total_minor: totals.map(|(_, minor)| minor).or(engine.total_minor),
        ..engine
    };
    let parts_phase = match place {
        (1, _) | (_, 1..) => None,
        (parts, 0) => {
            let row_phase = settled.part.record.phase;
            match parts_phase(partitions, ledger, (campaign, parts), row_phase).await? {
                Some(phase) => Some(phase),
                None => return Ok(Unsettled(NotCompared::Changing)),
            }
        }
    };
    let compared = |in_flight: &[Entry], end: Seq| ComparedCampaign {
        parts_phase,
        granted: settled.part.record.granted,
        terms_before: head.terms_before,
        ..ComparedCampaign::new(
            (campaign, partition),
            place,
            (whole, settled.part.record.facts()),
            settled.part.phase,
            in_flight,
            (settled.position, end),
        )
    };
    let quick = compared(&[], settled.position);
    if quick.differences().is_empty() {
        return Ok(CampaignComparison::Compared(Box::new(quick)));
    }

    let in_flight = match read_log(partitions, partition, settled.position).await? {
        Ok(in_flight) => in_flight,
        Err(reason) => return Ok(Unsettled(reason)),
    };
    let again = read_head(partitions, partition, campaign).await?;
    let again = again.ok().flatten().and_then(|head| facts_of(&head));
    let position = ledger
        .settled(partition)
        .await
        .map_err(engine_error_from_ledger)?;
    // A server outside this node's term does not answer this.
    let mut end = redis::cmd("HGET");
    end.arg(partitions.keys().partition(partition)).arg("seq");
    let fenced: Result<Option<Seq>, EngineError> = partitions.query(partition, &end).await;
    if partitions.get(partition).current_term() != Some(term) {
        return Ok(Unsettled(NotCompared::NotOpen));
    }
    fenced?;
    if again != Some(engine) || position != settled.position {
        return Ok(Unsettled(NotCompared::Changing));
    }
    let end = in_flight.last().map_or(position, |entry| entry.seq);
    let found = compared(&in_flight, end);
    if !found.differences().is_empty() && is_quarantined(ledger, partition, campaign).await? {
        return Ok(Never(NotCompared::Quarantined));
    }
    Ok(CampaignComparison::Compared(Box::new(found)))
}

enum RowError {
    /// The partition was settled during the read.
    Moved,
    Unreadable(String),
    Ledger(LedgerError),
}

impl From<LedgerError> for RowError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Damaged { reason } => Self::Unreadable(reason),
            other => Self::Ledger(other),
        }
    }
}

/// Reads a campaign's row at one position of the partition; `None` if the ledger does not have it.
async fn read_row(
    ledger: &dyn Ledger,
    partition: PartitionId,
    campaign: CampaignId,
) -> Result<Option<SettledShard>, RowError> {
    let position = ledger.settled(partition).await?;
    let part = ledger.settled_part(campaign, partition).await?;
    match ledger.settled(partition).await? == position {
        true => Ok(part.map(|part| SettledShard { part, position })),
        false => Err(RowError::Moved),
    }
}

/// Reads a campaign's hash. The inner error is a hash that cannot be read.
async fn read_head(
    partitions: &Partitions,
    partition: PartitionId,
    campaign: CampaignId,
) -> Result<Result<Option<ShardHash>, ()>, EngineError> {
    match partitions.head_of(partition, campaign).await {
        Ok(head) => Ok(Ok(head)),
        // The hash exists, and a second read fails in the same way, so its content is invalid.
        Err(error) => match partitions.has_part(campaign, partition).await {
            Ok(true) => match partitions.head_of(partition, campaign).await {
                Ok(head) => Ok(Ok(head)),
                Err(again) if again.to_string() == error.to_string() => Ok(Err(())),
                Err(again) => Err(again),
            },
            _ => Err(error),
        },
    }
}

/// Whether the ledger has a shard as open that the engine lacks.
fn is_lacking(
    partitions: &Partitions,
    settled: &SettledShard,
    partition: PartitionId,
    campaign: CampaignId,
) -> bool {
    let part = &settled.part;
    let is_here = partitions
        .index_of(partition, campaign, part.parts)
        .is_some();
    is_here && !matches!(part.phase, Phase::Draft | Phase::Closed)
}

/// Entries after a position, without a gap up to the end of the log.
async fn read_log(
    partitions: &Partitions,
    partition: PartitionId,
    position: Seq,
) -> Result<Result<Vec<Entry>, NotCompared>, EngineError> {
    let end = partitions.log_end(partition).await?;
    if end < position {
        return Ok(Err(NotCompared::LogGap));
    }
    if end - position > IN_FLIGHT_MAX {
        return Ok(Err(NotCompared::Lag));
    }
    let entries = partitions.in_flight(partition, position).await?;
    let mut seqs = entries.iter().map(|entry| entry.seq);
    let follows = seqs.clone().eq((position + 1..).take(entries.len()));
    let last = seqs.next_back().unwrap_or(position);
    Ok(match follows && last >= end {
        true => Ok(entries),
        false => Err(NotCompared::LogGap),
    })
}

/// Phase of a spread campaign by the settled phases of its shards, if the campaign's row was in `row_phase` at the same
/// moment. `None` if one of them changed in between: settlement changes a shard and the row in one transaction.
async fn parts_phase(
    partitions: &Partitions,
    ledger: &dyn Ledger,
    (campaign, parts): (CampaignId, u16),
    row_phase: Phase,
) -> Result<Option<Phase>, EngineError> {
    let read = async || {
        let mut phases = Vec::with_capacity(parts.into());
        for index in 0..parts {
            let partition = partitions.for_part(campaign, index);
            let part = ledger.settled_part(campaign, partition).await;
            let phase = part
                .map_err(engine_error_from_ledger)?
                .map(|part| part.phase);
            phases.extend(phase.filter(|phase| *phase != Phase::Draft));
        }
        Ok::<_, EngineError>(phases)
    };
    let before = read().await?;
    let row = ledger
        .campaign(campaign)
        .await
        .map_err(engine_error_from_ledger)?;
    let is_same_row = row.is_some_and(|row| row.phase == row_phase);
    let is_one_moment = is_same_row && read().await? == before;
    Ok(is_one_moment.then(|| Phase::from_parts(parts.into(), &before)))
}

/// Whether entries about a campaign are in quarantine.
async fn is_quarantined(
    ledger: &dyn Ledger,
    partition: PartitionId,
    campaign: CampaignId,
) -> Result<bool, EngineError> {
    let mut after = (partition, 0);
    loop {
        let page = ledger.list_quarantined(Some(after), QUARANTINE_PAGE).await;
        let page = page.map_err(engine_error_from_ledger)?;
        let own = page.iter().take_while(|it| it.partition == partition);
        if own.clone().any(|it| it.entry.campaign == campaign) {
            return Ok(true);
        }
        match own.last() {
            Some(last) if page.len() == QUARANTINE_PAGE as usize => after.1 = last.entry.seq,
            _ => return Ok(false),
        }
    }
}

/// Facts of a campaign from its hash.
fn facts_of(head: &ShardHash) -> Option<CampaignFacts> {
    let meta = &head.meta;
    let is_sale = meta.kind == CampaignKind::Sale;
    let (revision, terms) = match (is_sale, head.terms) {
        (true, terms) => terms.map(|(revision, terms)| (revision, Some(terms)))?,
        (false, _) => (0, None),
    };
    let total_minor = head.funded_minor + head.withheld.1;
    Some(CampaignFacts {
        kind: meta.kind,
        phase: head.phase,
        supply: head.stock,
        total_minor: (!is_sale && meta.parts == 1).then_some(total_minor),
        window: terms.map_or(meta.window, |terms| terms.window),
        per_user_limit: terms.map_or(meta.limit, |terms| terms.per_user_limit),
        unit_price_minor: terms.map(|terms| terms.unit_price_minor),
        hold_ms: meta.hold_ms,
        admission: is_sale.then(|| meta.admission.into()),
        ack: meta.ack,
        terms_revision: revision,
    })
}
