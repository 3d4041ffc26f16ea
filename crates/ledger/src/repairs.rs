//! The record of repairs.

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, RepairAttempt, RepairRecord, WithheldRecord},
    rows::{RepairColumns, WithheldColumns, WithheldNumbersColumns},
    settlement::ClosedPart,
    time::Timestamp,
};

use crate::{
    campaigns::campaign_row,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::WorkError,
    settled_positions,
};

const LAST_ATTEMPT: Statement =
    sql!(both r#"SELECT number, repairer FROM repair_attempts WHERE "partition" = $1"#);
const DELETE_ATTEMPT: Statement =
    sql!(both r#"DELETE FROM repair_attempts WHERE "partition" = $1"#);
const ENTER_ATTEMPT: Statement = sql!(
    both r#"INSERT INTO repair_attempts ("partition", number, repairer) VALUES ($1, $2, $3)"#
);
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
) -> Result<bool, WorkError> {
    let values = [
        i64::from(partition.0).into(),
        epoch.into(),
        (lost_to as i64).into(),
    ];
    let found = fetch_one::<D, (i64,)>(conn, &FINISHED, &values).await?;
    Ok(found.is_some())
}

/// Number and repairer of a partition's last attempt; 0 and empty if there was none.
async fn last<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<(u64, String), WorkError> {
    let partition = [i64::from(partition.0).into()];
    let found = fetch_one::<D, (i64, String)>(conn, &LAST_ATTEMPT, &partition).await?;
    let known = |(number, repairer): (i64, String)| (number.max(0).unsigned_abs(), repairer);
    Ok(found.map(known).unwrap_or_default())
}

/// Number of a partition's last attempt; 0 if there was none.
pub(crate) async fn last_attempt<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<u64, WorkError> {
    let (number, _) = last::<D>(conn, partition).await?;
    Ok(number)
}

/// Whether this is the partition's last attempt, and the number of that one. The partition's position is locked until
/// the transaction ends, so that no other attempt is claimed before.
async fn is_last<D: Dialect>(
    conn: &mut D::Connection,
    attempt: &RepairAttempt,
) -> Result<(bool, u64), WorkError> {
    settled_positions::lock_position::<D>(conn, attempt.partition.0.into()).await?;
    let (number, repairer) = last::<D>(conn, attempt.partition).await?;
    let is_last = number == attempt.number && repairer == attempt.repairer;
    Ok((is_last, number))
}

/// Refuses any attempt but the last one, and locks the partition's position.
pub(crate) async fn check_attempt<D: Dialect>(
    conn: &mut D::Connection,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    match is_last::<D>(conn, attempt).await? {
        (true, _) => Ok(()),
        (false, _) => Err(stale(attempt)),
    }
}

fn stale(attempt: &RepairAttempt) -> WorkError {
    let partition = attempt.partition.0;
    LedgerError::StaleRepairAttempt { partition }.into()
}

/// Makes an attempt the last one if it follows the last one so far.
pub(crate) async fn claim<D: Dialect>(
    conn: &mut D::Connection,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    // The second of two attempts with one number waits here, and finds the first.
    let (is_last, last) = is_last::<D>(conn, attempt).await?;
    if is_last {
        return Ok(());
    }
    if last + 1 != attempt.number {
        return Err(stale(attempt));
    }
    let partition = i64::from(attempt.partition.0);
    D::execute(conn, &DELETE_ATTEMPT, &[partition.into()]).await?;
    let (number, repairer) = (attempt.number as i64, attempt.repairer.as_str());
    let values = [partition.into(), number.into(), repairer.into()];
    D::execute(conn, &ENTER_ATTEMPT, &values).await?;
    Ok(())
}

/// Records that a repair has begun. A repair that is finished stays so, unless it has more to repair now.
pub(crate) async fn begin<D: Dialect>(
    conn: &mut D::Connection,
    repair: &RepairRecord,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    check_attempt::<D>(conn, attempt).await?;
    if is_finished::<D>(conn, (repair.partition, &repair.epoch), repair.lost_to).await? {
        return Ok(());
    }
    let partition = i64::from(repair.partition.0);
    let key = [partition.into(), repair.epoch.as_str().into()];
    D::execute(conn, &DELETE_REPAIR, &key).await?;
    // This repair finds the units again that an unfinished repair withholds. The record itself stays: the entries that
    // it names are missing until a repair that knows of them is finished.
    for end in [&DROP_WITHHELD, &DROP_NUMBERS] {
        D::execute(conn, end, &[partition.into(), partition.into()]).await?;
    }
    D::execute(conn, &ENTER_REPAIR, &repair.columns()).await?;
    Ok(())
}

/// Records that a repair is finished, and with it the unfinished ones that it followed.
pub(crate) async fn finish<D: Dialect>(
    conn: &mut D::Connection,
    epoch: &str,
    upto: Seq,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    check_attempt::<D>(conn, attempt).await?;
    let (upto, partition) = (upto as i64, i64::from(attempt.partition.0));
    let values = [upto.into(), upto.into(), partition.into(), epoch.into()];
    D::execute(conn, &FINISH, &values).await?;
    D::execute(conn, &END_OTHERS, &[partition.into()]).await?;
    Ok(())
}

/// Records the units that a repair withholds of a campaign, unless the repair is finished.
pub(crate) async fn withhold<D: Dialect>(
    conn: &mut D::Connection,
    withheld: &WithheldRecord,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    check_attempt::<D>(conn, attempt).await?;
    if is_finished::<D>(conn, (withheld.partition, &withheld.epoch), 0).await? {
        return Ok(());
    }
    let id = withheld.campaign.to_string();
    let row = campaign_row::<D>(conn, &id).await?;
    let row = row.ok_or_else(|| WorkError::damaged(format!("campaign {id} is not in the ledger")));
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

/// Records that the withheld units of a partition are released.
pub(crate) async fn release<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    partition: PartitionId,
) -> Result<(), WorkError> {
    let values = [now.as_millis().into(), i64::from(partition.0).into()];
    D::execute(conn, &RELEASE, &values).await?;
    Ok(())
}

/// Records that the withheld units of a closed campaign, or of a shard of one, are returned.
pub(crate) async fn give_back<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
    closed: &ClosedPart,
) -> Result<(), WorkError> {
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
) -> Result<Vec<RepairRecord>, WorkError> {
    let values = [i64::from(partition.0).into(), i64::from(limit).into()];
    let rows = fetch::<D, RepairColumns>(conn, &REPAIRS, &values).await?;
    rows.into_iter()
        .map(|row| Ok(RepairRecord::from_columns(row)?))
        .collect()
}

/// Units of a partition that are or were withheld.
pub(crate) async fn withheld<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<Vec<WithheldRecord>, WorkError> {
    let of = [i64::from(partition.0).into()];
    let rows = fetch::<D, WithheldColumns>(conn, &WITHHELD, &of).await?;
    let numbers = fetch::<D, WithheldNumbersColumns>(conn, &WITHHELD_NUMBERS, &of).await?;
    Ok(WithheldRecord::all(rows, numbers)?)
}
