//! Shares of red packets, also those written before their packet is entered. Until then they are invisible.

use std::{ops::Range, sync::LazyLock};

use qiang_core::book::Setup;
use rusqlite::{Connection, OptionalExtension as _, Statement, params};

use crate::error::DataFileError;

/// If the statement fails, its earlier rows stay: the surrounding transaction is rolled back as a whole. Otherwise
/// SQLite would copy each page before it changes it.
const PUT: &str = "INSERT OR FAIL INTO shares (campaign, number, amount) VALUES ";
const ROW: &str = "(?, ?, ?)";
/// Rows per statement, largest first: fewer calls of SQLite.
const ROWS: [u32; 4] = [32, 8, 2, 1];

/// Writes the shares of a red packet with these numbers.
pub(crate) fn put_shares(
    conn: &Connection,
    campaign_ref: i64,
    setup: &Setup,
    mut numbers: Range<u32>,
) -> Result<(), DataFileError> {
    static STATEMENTS: LazyLock<[String; 4]> =
        LazyLock::new(|| ROWS.map(|rows| format!("{PUT}{}", vec![ROW; rows as usize].join(", "))));
    for (rows, sql) in ROWS.into_iter().zip(&*STATEMENTS) {
        if numbers.len() < rows as usize {
            continue;
        }
        let mut statement = conn.prepare_cached(sql)?;
        while numbers.len() >= rows as usize {
            let next = numbers.start + rows;
            put(&mut statement, campaign_ref, setup, numbers.start..next)?;
            numbers.start = next;
        }
    }
    Ok(())
}

fn put(
    statement: &mut Statement<'_>,
    campaign_ref: i64,
    setup: &Setup,
    numbers: Range<u32>,
) -> rusqlite::Result<()> {
    for (place, number) in (1..).step_by(3).zip(numbers) {
        statement.raw_bind_parameter(place, campaign_ref)?;
        statement.raw_bind_parameter(place + 1, number)?;
        // The amounts of a lazy packet are not known yet.
        let amount = setup.shares.get(number as usize - 1);
        statement.raw_bind_parameter(place + 2, amount)?;
    }
    statement.raw_execute().map(drop)
}

/// The first `ref` that is neither used nor reserved.
pub(crate) fn next_ref(conn: &Connection) -> Result<i64, DataFileError> {
    let mut next = conn.prepare_cached(
        "SELECT 1 + max(coalesce((SELECT max(ref) FROM campaigns), 0), \
         coalesce((SELECT max(ref) FROM preparations), 0))",
    )?;
    Ok(next.query_row([], |row| row.get(0))?)
}

/// Reserves a `ref` for a campaign whose shares are written first.
pub(crate) fn reserve(conn: &Connection, campaign_ref: i64) -> Result<(), DataFileError> {
    conn.prepare_cached("INSERT INTO preparations (ref) VALUES (?1)")?
        .execute([campaign_ref])?;
    Ok(())
}

/// Ends a reservation: the campaign is entered, or all its rows are deleted.
pub(crate) fn end(conn: &Connection, campaign_ref: i64) -> Result<(), DataFileError> {
    conn.prepare_cached("DELETE FROM preparations WHERE ref = ?1")?
        .execute([campaign_ref])?;
    Ok(())
}

/// The first reserved `ref`.
pub(crate) fn first(conn: &Connection) -> Result<Option<i64>, DataFileError> {
    let mut first = conn.prepare_cached("SELECT min(ref) FROM preparations")?;
    Ok(first.query_row([], |row| row.get(0))?)
}

/// Deletes up to `limit` prepared shares of a campaign that was not entered, the last ones first. After the last share
/// the reservation ends.
pub(crate) fn delete_prepared_shares(
    conn: &Connection,
    campaign_ref: i64,
    limit: u32,
) -> Result<(), DataFileError> {
    let mut entered = conn.prepare_cached("SELECT 1 FROM campaigns WHERE ref = ?1")?;
    if entered.exists([campaign_ref])? {
        let reason = format!("campaign #{campaign_ref} is entered, and its shares are not");
        return Err(DataFileError::damaged(reason));
    }
    let mut last = conn.prepare_cached(
        "SELECT number FROM shares WHERE campaign = ?1 ORDER BY number DESC LIMIT 1",
    )?;
    let last: Option<u32> = last
        .query_row([campaign_ref], |row| row.get(0))
        .optional()?;
    let Some(last) = last else {
        return end(conn, campaign_ref);
    };
    let kept = last.saturating_sub(limit);
    conn.prepare_cached("DELETE FROM shares WHERE campaign = ?1 AND number > ?2")?
        .execute(params![campaign_ref, kept])?;
    match kept {
        0 => end(conn, campaign_ref),
        _ => Ok(()),
    }
}
