//! Discards of quarantined grants.

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::Discard,
    rows::{Contradiction, DiscardState, entry_of},
    settlement::{NOT_AN_ORDER, SettlementPlan},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::settle;
use crate::error::DataFileError;

/// Records that a grant must be discarded. Returns false if it is not in quarantine.
pub(crate) fn ask(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT a.entry, a.discard, a.waits_for, b.discard FROM set_aside a \
         LEFT JOIN set_aside b ON b.partition = a.partition AND b.seq = a.waits_for \
         WHERE a.partition = ?1 AND a.seq = ?2",
    )?;
    let found = statement.query_row(params![partition.0, seq as i64], |row| {
        <(String, i64, Option<i64>, Option<i64>)>::try_from(row)
    });
    let Some((text, discard, waits_for, before)) = found.optional()? else {
        return Ok(false);
    };
    if discard != DiscardState::Not as i64 {
        return Ok(!DiscardState::is_over(discard));
    }
    let entry = entry_of(seq as i64, &text)?;
    let known = settle::known_campaigns(conn, partition, &[entry.campaign])?;
    Discard::check(&entry, &known, waits_for.zip(before))?;
    mark(conn, partition, &entry, DiscardState::Asked)?;
    Ok(true)
}

/// Whether an entry was discarded.
pub(crate) fn is_discarded(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, DataFileError> {
    let sql = "SELECT 1 FROM set_aside WHERE partition = ?1 AND seq = ?2 AND discard >= 2";
    let mut find = conn.prepare_cached(sql)?;
    Ok(find.exists(params![partition.0, seq as i64])?)
}

/// Grants with an unfinished discard, by partition and position.
pub(crate) fn list(conn: &Connection, limit: u32) -> Result<Vec<Discard>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT partition, seq, entry FROM set_aside WHERE discard BETWEEN 1 AND 2 ORDER BY partition, seq LIMIT ?1",
    )?;
    let mut rows = statement.query([limit])?;
    let mut discards = Vec::new();
    while let Some(row) = rows.next()? {
        discards.push(Discard {
            partition: PartitionId(row.get(0)?),
            entry: entry_of(row.get(1)?, &row.get::<_, String>(2)?)?,
        });
    }
    Ok(discards)
}

/// Discards a grant and every later step of its order. Returns false if its units are not restocked yet.
pub(crate) fn discard(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, DataFileError> {
    let asked = "SELECT campaign FROM set_aside WHERE partition = ?1 AND seq = ?2 AND discard = 1";
    let mut statement = conn.prepare_cached(asked)?;
    let found = statement.query_row(params![partition.0, seq as i64], |row| {
        row.get::<_, String>(0)
    });
    let Some(campaign) = found.optional()? else {
        return Ok(true);
    };
    let rows = quarantined_entries(conn, partition, &campaign)?;
    let found = Discard::sort(seq, &rows).ok_or_else(|| Contradiction::new(NOT_AN_ORDER))?;
    let known = settle::known_campaigns(conn, partition, &[found.steps[0].campaign])?;
    let Some(plan) = SettlementPlan::from_discard(partition, &found.steps, &known, found.closed)?
    else {
        return Ok(false);
    };
    if !found.again {
        settle::write(conn, partition, plan, &known)?;
    }
    for step in &found.steps[1..] {
        mark(conn, partition, step, DiscardState::Done)?;
    }
    mark(conn, partition, &found.steps[0], DiscardState::Freed)?;
    Ok(true)
}

/// Ends a discard: the entries that waited for the grant have been redriven.
pub(crate) fn end(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<(), DataFileError> {
    let end = "UPDATE set_aside SET discard = 3 WHERE partition = ?1 AND seq = ?2 AND discard = 2";
    conn.prepare_cached(end)?
        .execute(params![partition.0, seq as i64])?;
    Ok(())
}

/// Discarded entries of a campaign in all partitions.
pub(super) fn discarded(conn: &Connection, id: CampaignId) -> Result<Vec<Entry>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry FROM set_aside WHERE campaign = ?1 AND discard >= 2 ORDER BY partition, seq",
    )?;
    let mut rows = statement.query([id.to_string()])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry_of(row.get(0)?, &row.get::<_, String>(1)?)?);
    }
    Ok(entries)
}

/// Quarantined entries of a campaign in a partition, each with the state of its discard.
fn quarantined_entries(
    conn: &Connection,
    partition: PartitionId,
    campaign: &str,
) -> Result<Vec<(Entry, i64)>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry, discard FROM set_aside WHERE campaign = ?1 AND partition = ?2 ORDER BY seq",
    )?;
    let mut rows = statement.query(params![campaign, partition.0])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        let entry = entry_of(row.get(0)?, &row.get::<_, String>(1)?)?;
        kept.push((entry, row.get(2)?));
    }
    Ok(kept)
}

fn mark(
    conn: &Connection,
    partition: PartitionId,
    entry: &Entry,
    state: DiscardState,
) -> Result<(), DataFileError> {
    let mark = "UPDATE set_aside SET discard = ?3 WHERE partition = ?1 AND seq = ?2";
    conn.prepare_cached(mark)?
        .execute(params![partition.0, entry.seq as i64, state as i64])?;
    Ok(())
}
