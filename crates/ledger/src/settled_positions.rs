//! Positions up to which partitions are settled.

use qiang_core::event::{PartitionId, Seq};

use crate::{
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::{WorkError, check_all},
};

const POSITIONS: Statement = sql!(both include_str!("sql/positions.sql"));
const LOCK_POSITION: Statement = sql!(both include_str!("sql/lock_position.sql"));
const ENTER_POSITION: Statement = sql!("enter_position");
const MOVE_POSITION: Statement = sql!(both include_str!("sql/move_position.sql"));

/// The positions of partitions with numbers from `first` to `last`, in the order of their numbers.
pub(crate) async fn positions<D: Dialect>(
    conn: &mut D::Connection,
    (first, last): (PartitionId, PartitionId),
) -> Result<Vec<(PartitionId, Seq)>, WorkError> {
    let range = [i64::from(first.0).into(), i64::from(last.0).into()];
    let rows = fetch::<D, (i64, i64)>(conn, &POSITIONS, &range).await?;
    let position = |(partition, seq): (i64, i64)| {
        let bad = |_| WorkError::damaged(format!("partition {partition} is settled up to {seq}"));
        let partition = PartitionId(partition.try_into().map_err(bad)?);
        Ok((partition, seq.try_into().map_err(bad)?))
    };
    rows.into_iter().map(position).collect()
}

/// The position of one partition; 0 for one of which nothing is settled.
pub(crate) async fn position<D: Dialect>(
    conn: &mut D::Connection,
    partition: PartitionId,
) -> Result<Seq, WorkError> {
    let found = positions::<D>(conn, (partition, partition)).await?;
    Ok(found.first().map_or(0, |(_, seq)| *seq))
}

/// The position of a partition. It is locked: no other transaction settles the partition until this one ends.
pub(crate) async fn lock_position<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
) -> Result<Seq, WorkError> {
    let partition = [partition.into()];
    let mut found = fetch_one::<D, (i64,)>(conn, &LOCK_POSITION, &partition).await?;
    if found.is_none() {
        D::execute(conn, &ENTER_POSITION, &partition).await?;
        found = fetch_one::<D, (i64,)>(conn, &LOCK_POSITION, &partition).await?;
    }
    let (seq,) = found.ok_or_else(|| WorkError::damaged("a partition has no position"))?;
    Ok(seq as Seq)
}

/// Moves the position of a partition that is locked.
pub(crate) async fn move_position<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    seq: Seq,
) -> Result<(), WorkError> {
    let values = [(seq as i64).into(), partition.into()];
    let moved = D::execute(conn, &MOVE_POSITION, &values).await?;
    Ok(check_all("positions", moved, 1)?)
}
