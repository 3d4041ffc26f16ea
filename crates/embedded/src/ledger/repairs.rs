//! The record of repairs.

use qiang_core::{
    campaign::CampaignKind,
    event::{PartitionId, Seq},
    ports::{LedgerError, RepairAttempt, RepairRecord, WithheldRecord},
    reconcile::PartFacts,
    rows::{RepairColumns, WithheldColumns, WithheldNumbersColumns},
    settlement::ClosedPart,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use super::bound_values::{BoundValues, execute_rows};
use crate::error::DataFileError;

/// Whether a repair of at least these entries is finished.
fn is_finished(
    conn: &Connection,
    (partition, epoch): (u16, &str),
    lost_to: Seq,
) -> Result<bool, DataFileError> {
    let sql = "SELECT count(*) FROM repairs \
               WHERE partition = ?1 AND epoch = ?2 AND lost_to >= ?3 AND upto IS NOT NULL";
    let values = params![partition, epoch, lost_to as i64];
    Ok(conn
        .prepare_cached(sql)?
        .query_row(values, |row| row.get(0))?)
}

/// Number and repairer of a partition's last attempt; 0 and empty if there was none.
fn last(conn: &Connection, partition: PartitionId) -> Result<(u64, String), DataFileError> {
    let sql = "SELECT number, repairer FROM repair_attempts WHERE partition = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row([partition.0], |row| {
        Ok((row.get::<_, i64>(0)?.max(0).unsigned_abs(), row.get(1)?))
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// Number of a partition's last attempt; 0 if there was none.
pub(crate) fn last_attempt(
    conn: &Connection,
    partition: PartitionId,
) -> Result<u64, DataFileError> {
    let (number, _) = last(conn, partition)?;
    Ok(number)
}

/// Whether this is the partition's last attempt, and the number of that one.
fn is_last(conn: &Connection, attempt: &RepairAttempt) -> Result<(bool, u64), DataFileError> {
    let (number, repairer) = last(conn, attempt.partition)?;
    let is_last = number == attempt.number && repairer == attempt.repairer;
    Ok((is_last, number))
}

/// Refuses any attempt but the last one.
pub(crate) fn check_attempt(
    conn: &Connection,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    match is_last(conn, attempt)? {
        (true, _) => Ok(()),
        (false, _) => Err(stale(attempt)),
    }
}

fn stale(attempt: &RepairAttempt) -> DataFileError {
    let partition = attempt.partition.0;
    DataFileError::Refused(LedgerError::StaleRepairAttempt { partition })
}

/// Makes an attempt the last one if it follows the last one so far.
pub(crate) fn claim(conn: &Connection, attempt: &RepairAttempt) -> Result<(), DataFileError> {
    let (is_last, last) = is_last(conn, attempt)?;
    if is_last {
        return Ok(());
    }
    if last + 1 != attempt.number {
        return Err(stale(attempt));
    }
    let sql =
        "INSERT OR REPLACE INTO repair_attempts (partition, number, repairer) VALUES (?1, ?2, ?3)";
    let (number, repairer) = (attempt.number as i64, &attempt.repairer);
    conn.prepare_cached(sql)?
        .execute(params![attempt.partition.0, number, repairer])?;
    Ok(())
}

/// Records that a repair has begun. A repair that is finished stays so, unless it has more to repair now.
pub(crate) fn begin(
    conn: &Connection,
    repair: &RepairRecord,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    check_attempt(conn, attempt)?;
    let partition = repair.partition.0;
    if is_finished(conn, (partition, &repair.epoch), repair.lost_to)? {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM repairs WHERE partition = ?1 AND epoch = ?2")?
        .execute(params![partition, repair.epoch])?;
    // This repair finds the units again that an unfinished repair withholds. The record itself stays: the entries that
    // it names are missing until a repair that knows of them is finished.
    for table in ["withheld", "withheld_numbers"] {
        let delete = format!(
            "DELETE FROM {table} WHERE partition = ?1 \
             AND epoch IN (SELECT epoch FROM repairs WHERE partition = ?1 AND upto IS NULL)"
        );
        conn.prepare_cached(&delete)?.execute([partition])?;
    }
    conn.prepare_cached(
        "INSERT INTO repairs (partition, epoch, follows, at, lost_from, lost_to, unnamed, reason) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params_from_iter(repair.columns().map(BoundValues)))?;
    Ok(())
}

/// Records that a repair is finished, and with it the unfinished ones that it followed.
pub(crate) fn finish(
    conn: &Connection,
    epoch: &str,
    upto: Seq,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    check_attempt(conn, attempt)?;
    let partition = attempt.partition;
    let sql =
        "UPDATE repairs SET upto = max(coalesce(upto, 0), ?3) WHERE partition = ?1 AND epoch = ?2";
    conn.prepare_cached(sql)?
        .execute(params![partition.0, epoch, upto as i64])?;
    conn.prepare_cached("UPDATE repairs SET upto = lost_to WHERE partition = ?1 AND upto IS NULL")?
        .execute([partition.0])?;
    Ok(())
}

/// Sets the count of units that users have of a part of a campaign to what its rows say; `units` is what they said when
/// they were read.
pub(crate) fn recount(
    conn: &Connection,
    part: &PartFacts,
    units: u64,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    let partition = attempt.partition;
    let mut counted = conn.prepare_cached(
        "SELECT c.ref, iif(c.parts = 1, c.granted, p.granted), iif(c.parts = 1, c.phase, p.phase) IS 'closed' \
         FROM campaigns c LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = ?2 WHERE c.id = ?1",
    )?;
    let id = part.campaign.to_string();
    let found = counted.query_row(params![id, partition.0], |row| {
        let counted: Option<i64> = row.get(1)?;
        Ok((row.get::<_, i64>(0)?, counted, row.get::<_, bool>(2)?))
    });
    let Some((campaign, Some(counted), is_closed)) = found.optional()? else {
        return Ok(());
    };
    if counted == units as i64 {
        return Ok(());
    }
    check_attempt(conn, attempt)?;
    let held = match part.kind {
        CampaignKind::RedPacket => units as i64,
        CampaignKind::Sale => {
            let mut held = conn.prepare_cached(
                "SELECT coalesce(sum(quantity - returned_in_parts), 0) FROM orders \
                 WHERE campaign = ?1 AND (number - 1) % ?2 = ?3 AND state IN ('held', 'paid')",
            )?;
            held.query_row(params![campaign, part.parts, part.index], |row| row.get(0))?
        }
    };
    let granted = held - counted;
    if granted == 0 {
        return Ok(());
    }
    let returned = if is_closed { -granted } else { 0 };
    for (table, of) in [
        ("campaigns", "ref = ?3"),
        ("parts", "campaign = ?3 AND partition = ?4"),
    ] {
        let add = format!(
            "UPDATE {table} SET granted = granted + ?1, returned = returned + ?2 WHERE {of}"
        );
        let mut add = conn.prepare_cached(&add)?;
        match table {
            "parts" => add.execute(params![granted, returned, campaign, partition.0])?,
            _ => add.execute(params![granted, returned, campaign])?,
        };
    }
    Ok(())
}

/// Records the units that a repair withholds of a campaign, unless the repair is finished.
pub(crate) fn withhold(
    conn: &Connection,
    withheld: &WithheldRecord,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    check_attempt(conn, attempt)?;
    if is_finished(conn, (withheld.partition.0, &withheld.epoch), 0)? {
        return Ok(());
    }
    let id = withheld.campaign.to_string();
    let mut statement = conn.prepare_cached("SELECT ref FROM campaigns WHERE id = ?1")?;
    let campaign: Option<i64> = statement.query_row([&id], |row| row.get(0)).optional()?;
    let campaign = campaign
        .ok_or_else(|| DataFileError::damaged(format!("campaign {id} is not in the ledger")))?;
    let (partition, epoch) = (withheld.partition.0, &withheld.epoch);
    for table in ["withheld", "withheld_numbers"] {
        let delete =
            format!("DELETE FROM {table} WHERE partition = ?1 AND epoch = ?2 AND campaign = ?3");
        conn.prepare_cached(&delete)?
            .execute(params![partition, epoch, campaign])?;
    }
    let (units, amount) = (withheld.units as i64, withheld.amount_minor);
    conn.prepare_cached(
        "INSERT INTO withheld (partition, epoch, campaign, units, amount) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![partition, epoch, campaign, units, amount])?;
    let enter = "INSERT INTO withheld_numbers (partition, epoch, campaign, first_number, last_number, step) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    execute_rows(conn, enter, withheld.number_rows(campaign))
}

/// Records that the withheld units of a partition are released.
pub(crate) fn release(
    conn: &Connection,
    now: Timestamp,
    partition: PartitionId,
) -> Result<(), DataFileError> {
    conn.prepare_cached(
        "UPDATE withheld SET released_at = ?1 WHERE partition = ?2 AND released_at IS NULL",
    )?
    .execute(params![now.as_millis(), partition.0])?;
    Ok(())
}

/// Records that the withheld units of a closed campaign, or of a shard of one, are returned.
pub(super) fn give_back(
    conn: &Connection,
    partition: PartitionId,
    closed: &ClosedPart,
) -> Result<(), DataFileError> {
    conn.prepare_cached(
        "UPDATE withheld SET released_at = ?1 \
         WHERE partition = ?2 AND campaign = ?3 AND released_at IS NULL",
    )?
    .execute(params![closed.at, partition.0, closed.campaign])?;
    Ok(())
}

/// The last repairs of a partition.
pub(crate) fn list(
    conn: &Connection,
    partition: PartitionId,
    limit: u32,
) -> Result<Vec<RepairRecord>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT partition, epoch, follows, at, lost_from, lost_to, unnamed, reason, upto FROM repairs \
         WHERE partition = ?1 ORDER BY at DESC, epoch LIMIT ?2",
    )?;
    let rows = statement.query_map(params![partition.0, limit], |row| {
        RepairColumns::try_from(row)
    })?;
    rows.map(|row| Ok(RepairRecord::from_columns(row?)?))
        .collect()
}

/// Units of a partition that are or were withheld.
pub(crate) fn withheld(
    conn: &Connection,
    partition: PartitionId,
) -> Result<Vec<WithheldRecord>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT w.partition, w.epoch, c.id, w.units, w.amount, w.released_at \
         FROM withheld w JOIN campaigns c ON c.ref = w.campaign WHERE w.partition = ?1 ORDER BY c.id, w.epoch",
    )?;
    let rows = statement.query_map([partition.0], |row| WithheldColumns::try_from(row))?;
    let rows = rows.collect::<Result<_, _>>()?;
    let mut statement = conn.prepare_cached(
        "SELECT n.epoch, c.id, n.first_number, n.last_number, n.step \
         FROM withheld_numbers n JOIN campaigns c ON c.ref = n.campaign WHERE n.partition = ?1 \
         ORDER BY n.first_number",
    )?;
    let numbers =
        statement.query_map([partition.0], |row| WithheldNumbersColumns::try_from(row))?;
    let numbers = numbers.collect::<Result<_, _>>()?;
    Ok(WithheldRecord::all(rows, numbers)?)
}
