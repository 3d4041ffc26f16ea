//! Entries that are set aside: kept, counted, listed, and settled after all.

use std::collections::BTreeMap;

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{LedgerError, QuarantineCount, QuarantinedEntry},
    quarantine::Blockers,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::settle;
use crate::{error::StoreError, log::Refs};

const COLUMNS: &str = "partition, seq, entry, reason, waits_for, at";

/// What is set aside of the campaigns of one run of entries.
#[derive(Default)]
pub(super) struct Asides(BTreeMap<CampaignId, Blockers>);

impl Asides {
    /// Sets an entry aside if it has to wait for one that is; tells whether it did.
    pub(super) fn keep(
        &mut self,
        conn: &Connection,
        partition: PartitionId,
        entry: &Entry,
    ) -> Result<bool, StoreError> {
        let blockers = match self.0.entry(entry.campaign) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(blockers(conn, partition, entry.campaign, Seq::MAX)?)
            }
        };
        let Some(before) = waits_for(conn, blockers, entry)? else {
            return Ok(false);
        };
        let reason = format!("it waits for entry {before}");
        put(conn, entry.at, partition, entry, &reason, Some(before))?;
        blockers.add(entry);
        Ok(true)
    }
}

/// The entry that this one waits for. Of a campaign that the ledger does not have, everything waits for the first.
fn waits_for(
    conn: &Connection,
    blockers: &Blockers,
    entry: &Entry,
) -> Result<Option<Seq>, StoreError> {
    let before = blockers.before(entry);
    let Some(first) = blockers.first().filter(|_| before.is_none()) else {
        return Ok(before);
    };
    let mut statement = conn.prepare_cached("SELECT 1 FROM campaigns WHERE id = ?1")?;
    let known = statement.exists([entry.campaign.to_string()])?;
    Ok((!known).then_some(first))
}

/// What is set aside of a campaign in a partition, before a place.
fn blockers(
    conn: &Connection,
    partition: PartitionId,
    campaign: CampaignId,
    before: Seq,
) -> Result<Blockers, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, entry FROM set_aside WHERE campaign = ?1 AND partition = ?2 AND seq < ?3 ORDER BY seq",
    )?;
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![campaign.to_string(), partition.0, before])?;
    let mut blockers = Blockers::default();
    while let Some(row) = rows.next()? {
        blockers.add(&entry_of(row.get(0)?, &row.get::<_, String>(1)?)?);
    }
    Ok(blockers)
}

/// Sets the entry behind the position aside.
pub(crate) fn quarantine(
    conn: &Connection,
    now: Timestamp,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, StoreError> {
    let position = settle::position(conn, partition)?;
    if entry.seq <= position {
        return Ok(position);
    }
    if entry.seq != position + 1 {
        let reason = format!("entry {} was to be set aside at {position}", entry.seq);
        return Err(StoreError::Refused(LedgerError::Damaged { reason }));
    }
    put(conn, now, partition, entry, reason, None)?;
    settle::move_position(conn, partition, entry.seq)?;
    Ok(entry.seq)
}

fn put(
    conn: &Connection,
    now: Timestamp,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
    waits_for: Option<Seq>,
) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    insert.execute(params![
        partition.0,
        entry.seq as i64,
        entry.campaign.to_string(),
        entry.to_text(),
        reason,
        waits_for.map(|seq| seq as i64),
        now.as_millis(),
    ])?;
    Ok(())
}

/// Settles an entry that is set quarantine, if nothing is before it that it has to wait for.
pub(crate) fn redrive(
    conn: &Connection,
    refs: &mut Refs,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, StoreError> {
    let place = params![partition.0, seq as i64];
    let mut statement =
        conn.prepare_cached("SELECT entry FROM set_aside WHERE partition = ?1 AND seq = ?2")?;
    let found: Option<String> = statement.query_row(place, |row| row.get(0)).optional()?;
    let Some(text) = found else {
        return Ok(false);
    };
    let entry = entry_of(seq as i64, &text)?;
    let blockers = blockers(conn, partition, entry.campaign, seq)?;
    if let Some(before) = waits_for(conn, &blockers, &entry)? {
        let reason = format!("entry {seq} waits for entry {before}");
        return Err(StoreError::Refused(LedgerError::Damaged { reason }));
    }
    settle::carry_late(conn, refs, partition, &entry)?;
    let place = params![partition.0, seq as i64];
    let mut delete =
        conn.prepare_cached("DELETE FROM set_aside WHERE partition = ?1 AND seq = ?2")?;
    delete.execute(place)?;
    Ok(true)
}

/// How many entries of a partition are set aside.
pub(crate) fn count(
    conn: &Connection,
    partition: PartitionId,
) -> Result<QuarantineCount, StoreError> {
    let mut statement = conn.prepare_cached(
        "SELECT count(*) - count(waits_for), count(waits_for) FROM set_aside WHERE partition = ?1",
    )?;
    let counted = statement.query_row([partition.0], |row| {
        let (refused, waiting): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(QuarantineCount {
            refused: refused as u64,
            waiting: waiting as u64,
        })
    });
    Ok(counted?)
}

/// Entries that are set quarantine, by partition and place.
pub(crate) fn list(
    conn: &Connection,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, StoreError> {
    let (partition, seq) = after.map_or((-1, 0), |(p, seq)| (i64::from(p.0), seq as i64));
    let sql = format!(
        "SELECT {COLUMNS} FROM set_aside WHERE (partition, seq) > (?1, ?2) ORDER BY partition, seq LIMIT ?3"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![partition, seq, limit])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        list.push(row_of(row)?);
    }
    Ok(list)
}

fn row_of(row: &Row<'_>) -> Result<QuarantinedEntry, StoreError> {
    Ok(QuarantinedEntry {
        partition: PartitionId(row.get(0)?),
        entry: entry_of(row.get(1)?, &row.get::<_, String>(2)?)?,
        reason: row.get(3)?,
        waits_for: row.get::<_, Option<i64>>(4)?.map(|seq| seq as Seq),
        at: Timestamp::from_millis(row.get(5)?),
    })
}

fn entry_of(seq: i64, text: &str) -> Result<Entry, StoreError> {
    let entry = Entry::from_text(text)
        .ok()
        .filter(|entry| entry.seq as i64 == seq);
    entry.ok_or_else(|| {
        StoreError::damaged(format!("entry {seq}, which is in quarantine, is no entry"))
    })
}
