//! Discards of quarantined grants.

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::Discard,
    rows::{Contradiction, DiscardState, entry_of},
    settlement::{NOT_AN_ORDER, SettlementPlan},
};

use crate::{
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::WorkError,
    quarantine::quarantined_entries,
    settle, settled_positions,
};

const DISCARD_AT: Statement = sql!(both include_str!("sql/discard_at.sql"));
const DISCARDS: Statement = sql!(both include_str!("sql/discards.sql"));
const DISCARDED_OF: Statement = sql!(both include_str!("sql/discarded_of.sql"));
const MARK: Statement =
    sql!(both r#"UPDATE set_aside SET discard = $1 WHERE "partition" = $2 AND seq = $3"#);
const IS_DISCARDED: Statement = sql!(both
    r#"SELECT seq FROM set_aside WHERE "partition" = $1 AND seq = $2 AND discard >= 2"#);
const END: Statement = sql!(both
    r#"UPDATE set_aside SET discard = 3 WHERE "partition" = $1 AND seq = $2 AND discard = 2"#);

/// Row of the quarantine: entry text, state of its discard, entry that it waits for, and the discard state of that one.
type Kept = (String, i64, Option<i64>, Option<i64>);

async fn quarantined_at<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    seq: i64,
) -> Result<Option<Kept>, WorkError> {
    let values = [partition.into(), seq.into()];
    Ok(fetch_one::<D, Kept>(conn, &DISCARD_AT, &values).await?)
}

/// Records that a grant must be discarded. Returns false if it is not in quarantine.
pub(crate) async fn ask<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, WorkError> {
    let (source, at) = (i64::from(partition.0), seq as i64);
    if quarantined_at::<D>(conn, source, at).await?.is_none() {
        return Ok(false);
    }
    // With this lock no other transaction settles this partition or redrives its entries.
    settled_positions::lock_position::<D>(conn, source).await?;
    let Some((text, discard, waits_for, before)) = quarantined_at::<D>(conn, source, at).await?
    else {
        return Ok(false);
    };
    if discard != DiscardState::Not as i64 {
        return Ok(!DiscardState::is_over(discard));
    }
    let entry = entry_of(at, &text)?;
    let campaign = [entry.campaign.to_string()];
    let known = settle::known_campaigns::<D>(conn, source, &campaign).await?;
    Discard::check(&entry, &known, waits_for.zip(before))?;
    mark::<D>(conn, source, &entry, DiscardState::Asked).await?;
    Ok(true)
}

/// Whether an entry was discarded.
pub(crate) async fn is_discarded<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, WorkError> {
    let values = [i64::from(partition.0).into(), (seq as i64).into()];
    let found = fetch_one::<D, (i64,)>(conn, &IS_DISCARDED, &values).await?;
    Ok(found.is_some())
}

/// Grants with an unfinished discard, by partition and position.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    limit: u32,
) -> Result<Vec<Discard>, WorkError> {
    let limit = [i64::from(limit).into()];
    let rows = fetch::<D, (i64, i64, String)>(conn, &DISCARDS, &limit).await?;
    let discard = |(partition, seq, text): (i64, i64, String)| {
        let bad = |_| WorkError::damaged(format!("entry {seq} is in partition {partition}"));
        Ok(Discard {
            partition: PartitionId(partition.try_into().map_err(bad)?),
            entry: entry_of(seq, &text)?,
        })
    };
    rows.into_iter().map(discard).collect()
}

/// Discards a grant and every later step of its order. Returns false if its units are not restocked yet.
pub(crate) async fn discard<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, WorkError> {
    let (source, at) = (i64::from(partition.0), seq as i64);
    if quarantined_at::<D>(conn, source, at).await?.is_none() {
        return Ok(true);
    }
    // The first transaction with this lock has finished when another one reads the row.
    settled_positions::lock_position::<D>(conn, source).await?;
    let kept = quarantined_at::<D>(conn, source, at).await?;
    let asked = kept.filter(|(_, discard, _, _)| *discard == DiscardState::Asked as i64);
    let Some((text, ..)) = asked else {
        return Ok(true);
    };
    let campaign = [entry_of(at, &text)?.campaign.to_string()];
    let values = [source.into(), campaign[0].as_str().into(), i64::MAX.into()];
    let rows = quarantined_entries::<D>(conn, &values).await?;
    let found = Discard::sort(seq, &rows).ok_or_else(|| Contradiction::new(NOT_AN_ORDER))?;
    let known = settle::known_campaigns::<D>(conn, source, &campaign).await?;
    let Some(plan) = SettlementPlan::from_discard(partition, &found.steps, &known, found.closed)?
    else {
        return Ok(false);
    };
    if !found.again {
        settle::write::<D>(conn, partition, plan).await?;
    }
    for step in &found.steps[1..] {
        mark::<D>(conn, source, step, DiscardState::Done).await?;
    }
    mark::<D>(conn, source, &found.steps[0], DiscardState::Freed).await?;
    Ok(true)
}

/// Ends a discard: the entries that waited for the grant have been redriven.
pub(crate) async fn end<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    seq: Seq,
) -> Result<(), WorkError> {
    let values = [i64::from(partition.0).into(), (seq as i64).into()];
    D::execute(conn, &END, &values).await?;
    Ok(())
}

/// Discarded entries of a campaign in all partitions.
pub(crate) async fn discarded<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Vec<Entry>, WorkError> {
    let id = id.to_string();
    let rows = fetch::<D, (i64, String)>(conn, &DISCARDED_OF, &[id.as_str().into()]).await?;
    let entry = |(seq, text): (i64, String)| Ok(entry_of(seq, &text)?);
    rows.into_iter().map(entry).collect()
}

async fn mark<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    entry: &Entry,
    state: DiscardState,
) -> Result<(), WorkError> {
    let values = [
        (state as i64).into(),
        partition.into(),
        (entry.seq as i64).into(),
    ];
    D::execute(conn, &MARK, &values).await?;
    Ok(())
}
