//! Entries in quarantine: stored, counted and listed.

use std::collections::{HashMap, HashSet};

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{QuarantineCount, QuarantinedEntry},
    quarantine::QuarantineBlockers,
    rows::{DiscardState, QuarantineRow, entry_of, like_grant},
    settlement::KnownCampaign,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::bound_values::execute_rows;
use crate::error::DataFileError;

/// Quarantined entries that block each of these campaigns. If nothing is in quarantine, this takes one statement.
pub(super) fn blockers(
    conn: &Connection,
    partition: PartitionId,
    ids: &[CampaignId],
    known: &[KnownCampaign],
) -> Result<HashMap<CampaignId, QuarantineBlockers>, DataFileError> {
    let mut all = HashMap::new();
    let mut any = conn.prepare_cached("SELECT 1 FROM set_aside WHERE partition = ?1 LIMIT 1")?;
    if !any.exists([partition.0])? {
        return Ok(all);
    }
    let known: HashSet<CampaignId> = known.iter().map(|known| known.id).collect();
    for id in ids {
        let found = blockers_before(conn, partition, *id, Seq::MAX)?;
        let found = match found.first() {
            Some(first) if !known.contains(id) => QuarantineBlockers::for_unknown_campaign(first),
            _ => found,
        };
        all.insert(*id, found);
    }
    Ok(all)
}

/// Quarantined entries of a campaign in a partition before a position.
pub(super) fn blockers_before(
    conn: &Connection,
    partition: PartitionId,
    campaign: CampaignId,
    before: Seq,
) -> Result<QuarantineBlockers, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry, discard FROM set_aside WHERE campaign = ?1 AND partition = ?2 AND seq < ?3 ORDER BY seq",
    )?;
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![campaign.to_string(), partition.0, before])?;
    let mut blockers = QuarantineBlockers::default();
    while let Some(row) = rows.next()? {
        let entry = entry_of(row.get(0)?, &row.get::<_, String>(1)?)?;
        match DiscardState::is_over(row.get(2)?) {
            true => blockers.add_discarded(&entry),
            false => blockers.add(&entry),
        }
    }
    Ok(blockers)
}

pub(super) fn put(
    conn: &Connection,
    partition: PartitionId,
    rows: &[QuarantineRow],
) -> Result<(), DataFileError> {
    let sql = "INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    execute_rows(conn, sql, rows.iter().map(|row| row.columns(partition)))
}

pub(super) fn get(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<Option<Entry>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT entry FROM set_aside WHERE partition = ?1 AND seq = ?2 AND discard < 2",
    )?;
    let place = params![partition.0, seq as i64];
    let found: Option<String> = statement.query_row(place, |row| row.get(0)).optional()?;
    Ok(found.map(|text| entry_of(seq as i64, &text)).transpose()?)
}

pub(super) fn delete(
    conn: &Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<(), DataFileError> {
    let mut delete =
        conn.prepare_cached("DELETE FROM set_aside WHERE partition = ?1 AND seq = ?2")?;
    delete.execute(params![partition.0, seq as i64])?;
    Ok(())
}

/// Whether the grant with this number is in quarantine.
pub(crate) fn has_grant(
    conn: &Connection,
    partition: PartitionId,
    campaign: CampaignId,
    number: u32,
) -> Result<bool, DataFileError> {
    let mut found = conn.prepare_cached(
        "SELECT 1 FROM set_aside WHERE partition = ?1 AND campaign = ?2 AND entry LIKE ?3",
    )?;
    let grant = like_grant(campaign, number);
    Ok(found.exists(params![partition.0, campaign.to_string(), grant])?)
}

/// Number of quarantined entries of a partition.
pub(crate) fn count(
    conn: &Connection,
    partition: PartitionId,
) -> Result<QuarantineCount, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT count(*) - count(waits_for), count(waits_for) FROM set_aside WHERE partition = ?1 AND discard < 2",
    )?;
    let counted = statement.query_row([partition.0], |row| {
        let (refused, waiting): (i64, i64) = row.try_into()?;
        Ok(QuarantineCount {
            refused: refused as u64,
            waiting: waiting as u64,
        })
    });
    Ok(counted?)
}

/// Quarantined entries by partition and position.
pub(crate) fn list(
    conn: &Connection,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, DataFileError> {
    let (partition, seq) = after.map_or((-1, 0), |(p, seq)| (i64::from(p.0), seq as i64));
    let mut statement = conn.prepare_cached(
        "SELECT partition, seq, campaign, entry, reason, waits_for, at, discard FROM set_aside \
         WHERE (partition, seq) > (?1, ?2) AND discard < 2 ORDER BY partition, seq LIMIT ?3",
    )?;
    let rows = statement.query_map(params![partition, seq, limit], row_of)?;
    let listed = |row: rusqlite::Result<(i64, QuarantineRow)>| {
        let (partition, row) = row?;
        Ok(row.listed(partition)?)
    };
    rows.map(listed).collect()
}

fn row_of(row: &Row<'_>) -> rusqlite::Result<(i64, QuarantineRow)> {
    let found = QuarantineRow {
        seq: row.get(1)?,
        campaign: row.get(2)?,
        entry: row.get(3)?,
        reason: row.get(4)?,
        waits_for: row.get(5)?,
        at: row.get(6)?,
        discard: row.get(7)?,
    };
    Ok((row.get(0)?, found))
}
