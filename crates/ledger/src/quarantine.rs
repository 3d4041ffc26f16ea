//! Entries in quarantine: stored, counted and listed.

use std::collections::{HashMap, HashSet};

use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::CampaignId,
    ports::{QuarantineCount, QuarantinedEntry},
    quarantine::QuarantineBlockers,
    rows::{DiscardState, QuarantineRow, Value, entry_of, like_grant},
    settlement::KnownCampaign,
};

use crate::{
    dialect::{Dialect, Statement, fetch, fetch_of, fetch_one, sql},
    error::{WorkError, check_all},
};

const ANY_QUARANTINED: Statement =
    sql!(both r#"SELECT seq FROM set_aside WHERE "partition" = $1 LIMIT 1"#);
const FIRST_QUARANTINED: Statement = sql!("first_quarantined");
const QUARANTINED_OF: Statement = sql!(both include_str!("sql/quarantined_of.sql"));
const QUARANTINED_AT: Statement =
    sql!(both r#"SELECT entry FROM set_aside WHERE "partition" = $1 AND seq = $2 AND discard < 2"#);
const GRANT_QUARANTINED: Statement = sql!(both include_str!("sql/grant_quarantined.sql"));
const PUT_QUARANTINED: Statement = sql!("put_quarantined");
const DELETE_QUARANTINED: Statement =
    sql!(both r#"DELETE FROM set_aside WHERE "partition" = $1 AND seq = $2"#);
const COUNT_QUARANTINED: Statement = sql!(both include_str!("sql/count_quarantined.sql"));
const LIST_QUARANTINED: Statement = sql!("list_quarantined");

/// Quarantined entries that block each of these campaigns. If nothing is in quarantine, this takes one statement.
pub(crate) async fn blockers<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    ids: &[String],
    known: &[KnownCampaign],
) -> Result<HashMap<CampaignId, QuarantineBlockers>, WorkError> {
    let mut blockers = HashMap::new();
    let any = fetch_one::<D, (i64,)>(conn, &ANY_QUARANTINED, &[partition.into()]).await?;
    if any.is_none() {
        return Ok(blockers);
    }
    let known: HashSet<CampaignId> = known.iter().map(|known| known.id).collect();
    let rows: Vec<[Value<'_>; 1]> = ids.iter().map(|id| [id.as_str().into()]).collect();
    let first: Vec<(String, i64)> =
        fetch_of::<D, _, 1>(conn, &FIRST_QUARANTINED, &[partition.into()], &rows).await?;
    for (campaign, first) in first {
        let id: CampaignId = campaign
            .parse()
            .map_err(|_| WorkError::damaged(format!("entry {first} has a bad campaign")))?;
        let found = match known.contains(&id) {
            true => blockers_before::<D>(conn, partition, &campaign, i64::MAX).await?,
            false => QuarantineBlockers::for_unknown_campaign(first as Seq),
        };
        blockers.insert(id, found);
    }
    Ok(blockers)
}

/// Quarantined entries of a campaign before a position.
pub(crate) async fn blockers_before<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    campaign: &str,
    before: i64,
) -> Result<QuarantineBlockers, WorkError> {
    let values = [partition.into(), campaign.into(), before.into()];
    let mut blockers = QuarantineBlockers::default();
    for (entry, discard) in quarantined_entries::<D>(conn, &values).await? {
        match DiscardState::is_over(discard) {
            true => blockers.add_discarded(&entry),
            false => blockers.add(&entry),
        }
    }
    Ok(blockers)
}

/// Quarantined entries of a campaign in a partition before a position, each with the state of its discard.
pub(crate) async fn quarantined_entries<D: Dialect>(
    conn: &mut D::Connection,
    values: &[Value<'_>; 3],
) -> Result<Vec<(Entry, i64)>, WorkError> {
    let rows = fetch::<D, (i64, String, i64)>(conn, &QUARANTINED_OF, values).await?;
    let kept = |(seq, text, discard): (i64, String, i64)| Ok((entry_of(seq, &text)?, discard));
    rows.into_iter().map(kept).collect()
}

/// Quarantines entries.
pub(crate) async fn put<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    rows: &[QuarantineRow],
) -> Result<(), WorkError> {
    let rows = Vec::from_iter(rows.iter().map(|row| row.columns(partition)));
    D::execute_rows(conn, &PUT_QUARANTINED, &rows).await?;
    Ok(())
}

/// Quarantined entry at a position.
pub(crate) async fn get<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    seq: i64,
) -> Result<Option<Entry>, WorkError> {
    let values = [partition.into(), seq.into()];
    let found = fetch_one::<D, (String,)>(conn, &QUARANTINED_AT, &values).await?;
    let entry = found.map(|(text,)| entry_of(seq, &text));
    Ok(entry.transpose()?)
}

/// Removes an entry from the quarantine.
pub(crate) async fn delete<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    seq: i64,
) -> Result<(), WorkError> {
    let deleted = D::execute(conn, &DELETE_QUARANTINED, &[partition.into(), seq.into()]).await?;
    Ok(check_all("quarantined entries", deleted, 1)?)
}

/// Whether the grant with this number is in quarantine.
pub(crate) async fn has_grant<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    campaign: CampaignId,
    number: u32,
) -> Result<bool, WorkError> {
    let (id, grant) = (campaign.to_string(), like_grant(campaign, number));
    let values = [
        i64::from(partition.0).into(),
        id.as_str().into(),
        grant.as_str().into(),
    ];
    let found = fetch_one::<D, (i64,)>(conn, &GRANT_QUARANTINED, &values).await?;
    Ok(found.is_some())
}

/// Number of quarantined entries of a partition.
pub(crate) async fn count<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<QuarantineCount, WorkError> {
    let partition = [i64::from(partition.0).into()];
    let counted = fetch_one::<D, (i64, i64)>(conn, &COUNT_QUARANTINED, &partition).await?;
    let (refused, waiting) = counted.unwrap_or_default();
    Ok(QuarantineCount {
        refused: refused.unsigned_abs(),
        waiting: waiting.unsigned_abs(),
    })
}

/// Quarantined entries by partition and position.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, WorkError> {
    type Columns = (i64, i64, String, String, Option<i64>, i64, i64);
    let (partition, seq) = after.map_or((-1, 0), |(partition, seq)| {
        (i64::from(partition.0), seq as i64)
    });
    let page = [
        partition.into(),
        partition.into(),
        seq.into(),
        i64::from(limit).into(),
    ];
    let rows = fetch::<D, Columns>(conn, &LIST_QUARANTINED, &page).await?;
    let listed = |(partition, seq, entry, reason, waits_for, at, discard): Columns| {
        let row = QuarantineRow {
            seq,
            campaign: String::new(),
            entry,
            reason,
            waits_for,
            at,
            discard,
        };
        Ok(row.listed(partition)?)
    };
    rows.into_iter().map(listed).collect()
}
