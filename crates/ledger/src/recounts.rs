//! Counts of campaigns, set to what their rows say before a repair.

use qiang_core::{
    campaign::{CampaignKind, Phase},
    ports::RepairAttempt,
    reconcile::PartFacts,
    rows::Value,
    settlement::CampaignChange,
};

use crate::{
    dialect::{Dialect, Statement, fetch_one, sql},
    error::WorkError,
    repairs, settle,
};

const HELD_UNITS: Statement = sql!("held_units");
const COUNTED: Statement = sql!(both include_str!("sql/counted.sql"));

/// A campaign's `ref`, and units that users have, and the phase, of it or of the part of it that a partition has.
type CountedRow = (i64, Option<i64>, Option<String>);

/// Sets the count of units that users have of a part of a campaign to what its rows say; `units` is what they said when
/// they were read.
pub(crate) async fn recount<D: Dialect>(
    conn: &mut D::Connection,
    part: &PartFacts,
    units: u64,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    let source = i64::from(attempt.partition.0);
    let seen = missing_units::<D>(conn, source, part, Some(units as i64)).await?;
    if seen.is_none() {
        // As most campaigns are: nothing is locked, and no row is read.
        return Ok(());
    }
    // With this lock no other transaction settles the partition or takes over its repair.
    repairs::check_attempt::<D>(conn, attempt).await?;
    let shares = (part.kind == CampaignKind::RedPacket).then_some(units as i64);
    match missing_units::<D>(conn, source, part, shares).await? {
        Some(change) => settle::change_counts::<D>(conn, source, &change).await,
        None => Ok(()),
    }
}

/// Difference between the counts of a shard and its units, or those of its orders where the units are unknown. `None`
/// if they agree, or if the shard was never opened.
async fn missing_units<D: Dialect>(
    conn: &mut D::Connection,
    partition: i64,
    part: &PartFacts,
    units: Option<i64>,
) -> Result<Option<CampaignChange>, WorkError> {
    let id = part.campaign.to_string();
    let values = [partition.into(), id.as_str().into()];
    let found = fetch_one::<D, CountedRow>(conn, &COUNTED, &values).await?;
    let Some((campaign, Some(counted), phase)) = found else {
        return Ok(None);
    };
    let held = match units {
        Some(units) => units,
        None => {
            let of_part = [campaign, part.parts.into(), part.index.into()].map(Value::from);
            let held = fetch_one::<D, (i64,)>(conn, &HELD_UNITS, &of_part).await?;
            held.map_or(0, |(units,)| units)
        }
    };
    let granted = held - counted;
    let is_closed = phase.as_deref() == Some(Phase::Closed.name());
    Ok((granted != 0).then(|| CampaignChange {
        granted,
        returned: if is_closed { -granted } else { 0 },
        ..CampaignChange::nothing(campaign)
    }))
}
