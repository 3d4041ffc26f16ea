//! The record of repairs.

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{RepairRecord, WithheldRecord},
    rows::{RepairColumns, WithheldColumns, WithheldNumbersColumns},
    settlement::ClosedPart,
    time::Timestamp,
};

use crate::{
    campaigns::campaign_row,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::StoreError,
};

const ENTER_REPAIR: Statement = sql!(both include_str!("sql/enter_repair.sql"));
const ENTER_WITHHELD: Statement = sql!(both include_str!("sql/enter_withheld.sql"));
const ENTER_WITHHELD_NUMBERS: Statement = sql!("enter_withheld_numbers");
const REPAIRS: Statement = sql!(both include_str!("sql/repairs.sql"));
const WITHHELD: Statement = sql!(both include_str!("sql/withheld.sql"));
const WITHHELD_NUMBERS: Statement = sql!(both include_str!("sql/withheld_numbers.sql"));
const DELETE_REPAIR: Statement =
    sql!(both r#"DELETE FROM repairs WHERE "partition" = $1 AND epoch = $2"#);
const DROP_WITHHELD: Statement = sql!(both include_str!("sql/drop_withheld.sql"));
const DROP_NUMBERS: Statement = sql!(both include_str!("sql/drop_withheld_numbers.sql"));
const END_OTHERS: Statement =
    sql!(both r#"UPDATE repairs SET upto = lost_to WHERE "partition" = $1 AND upto IS NULL"#);
const FINISH: Statement = sql!(both include_str!("sql/finish_repair.sql"));
const FINISHED: Statement = sql!(both include_str!("sql/finished_repair.sql"));
const DELETE_WITHHELD: Statement = sql!(both include_str!("sql/delete_withheld.sql"));
const DELETE_NUMBERS: Statement = sql!(both include_str!("sql/delete_numbers.sql"));
const RELEASE: Statement = sql!(both include_str!("sql/release.sql"));
const RETURN: Statement = sql!(both include_str!("sql/return_withheld.sql"));

/// Whether a repair of at least these entries is finished.
async fn is_finished<D: Dialect>(
    conn: &mut D::Connection,
    (partition, epoch): (PartitionId, &str),
    lost_to: Seq,
) -> Result<bool, StoreError> {
    let values = [
        i64::from(partition.0).into(),
        epoch.into(),
        (lost_to as i64).into(),
    ];
    let found = fetch_one::<D, (i64,)>(conn, &FINISHED, &values).await?;
    Ok(found.is_some())
}

/// Writes a repair down as one that has begun. One that is finished stays so, unless it has more to repair now.
pub(crate) async fn begin<D: Dialect>(
    conn: &mut D::Connection,
    repair: &RepairRecord,
) -> Result<(), StoreError> {
    if is_finished::<D>(conn, (repair.partition, &repair.epoch), repair.lost_to).await? {
        return Ok(());
    }
    let partition = i64::from(repair.partition.0);
    let key = [partition.into(), repair.epoch.as_str().into()];
    D::execute(conn, &DELETE_REPAIR, &key).await?;
    // What an unfinished repair withholds is found again by this one. The record itself stays: the entries that it
    // names are missing until a repair that knows of them is finished.
    for end in [&DROP_WITHHELD, &DROP_NUMBERS] {
        D::execute(conn, end, &[partition.into(), partition.into()]).await?;
    }
    D::execute(conn, &ENTER_REPAIR, &repair.columns()).await?;
    Ok(())
}

/// Records that a repair is finished, and with it the unfinished ones that it followed.
pub(crate) async fn finish<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    epoch: &str,
    upto: Seq,
) -> Result<(), StoreError> {
    let (upto, partition) = (upto as i64, i64::from(partition.0));
    let values = [upto.into(), upto.into(), partition.into(), epoch.into()];
    D::execute(conn, &FINISH, &values).await?;
    D::execute(conn, &END_OTHERS, &[partition.into()]).await?;
    Ok(())
}

/// Writes down what a repair withholds of a campaign, unless it is finished.
pub(crate) async fn withhold<D: Dialect>(
    conn: &mut D::Connection,
    withheld: &WithheldRecord,
) -> Result<(), StoreError> {
    if is_finished::<D>(conn, (withheld.partition, &withheld.epoch), 0).await? {
        return Ok(());
    }
    let id = withheld.campaign.to_string();
    let row = campaign_row::<D>(conn, &id).await?;
    let row = row.ok_or_else(|| StoreError::damaged(format!("campaign {id} is not in the ledger")));
    let campaign = row?.campaign_ref;
    let (partition, epoch) = (i64::from(withheld.partition.0), withheld.epoch.as_str());
    let key = [partition.into(), epoch.into(), campaign.into()];
    D::execute(conn, &DELETE_WITHHELD, &key).await?;
    D::execute(conn, &DELETE_NUMBERS, &key).await?;
    let [partition, epoch, campaign] = key;
    let (units, amount) = (withheld.units, withheld.amount_minor);
    let values = [
        partition,
        epoch,
        campaign,
        (units as i64).into(),
        amount.into(),
    ];
    D::execute(conn, &ENTER_WITHHELD, &values).await?;
    let rows = Vec::from_iter(withheld.number_rows(campaign.int().unwrap_or_default()));
    D::execute_rows(conn, &ENTER_WITHHELD_NUMBERS, &rows).await?;
    Ok(())
}

/// Writes down that what is withheld in a partition can be had again.
pub(crate) async fn release<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    partition: PartitionId,
) -> Result<(), StoreError> {
    let values = [now.as_millis().into(), i64::from(partition.0).into()];
    D::execute(conn, &RELEASE, &values).await?;
    Ok(())
}

/// Writes down that what was withheld of a campaign, or a part of one, is returned: it has closed.
pub(crate) async fn give_back<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    closed: &ClosedPart,
) -> Result<(), StoreError> {
    let values = [
        closed.at.into(),
        i64::from(partition.0).into(),
        closed.campaign.into(),
    ];
    D::execute(conn, &RETURN, &values).await?;
    Ok(())
}

/// The last repairs of a partition.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    limit: u32,
) -> Result<Vec<RepairRecord>, StoreError> {
    let values = [i64::from(partition.0).into(), i64::from(limit).into()];
    let rows = fetch::<D, RepairColumns>(conn, &REPAIRS, &values).await?;
    rows.into_iter()
        .map(|row| Ok(RepairRecord::of(row)?))
        .collect()
}

/// What is withheld, or was, in a partition.
pub(crate) async fn withheld<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<Vec<WithheldRecord>, StoreError> {
    let of = [i64::from(partition.0).into()];
    let rows = fetch::<D, WithheldColumns>(conn, &WITHHELD, &of).await?;
    let numbers = fetch::<D, WithheldNumbersColumns>(conn, &WITHHELD_NUMBERS, &of).await?;
    Ok(WithheldRecord::all(rows, numbers)?)
}
