//! Reads of reconciliation and repair.

use qiang_core::{
    campaign::Phase,
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::{
        CampaignOutline, LiveCampaign, SettledPart, SettledPayment, SettledReturn, SettledRow,
    },
    rows::{
        LiveRow, SettledPaymentColumns, SettledReturnColumns, discarded_orders, live_page,
        with_discarded, with_discarded_of_user, with_discarded_payments, with_discarded_returns,
    },
};

use crate::{
    campaigns::{campaign_id, campaign_row, numbered_rows, rows_of_user},
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    discards,
    error::WorkError,
};

const CAMPAIGNS_NOT_CLOSED: Statement = sql!("campaigns_not_closed");
const CLOSED_WITH_HELD: Statement = sql!("closed_with_held");
const OUTLINE: Statement = sql!(both "SELECT parts, phase FROM campaigns WHERE id = $1");
const PART: Statement = sql!(both include_str!("sql/part.sql"));
const SETTLED_SHARES: Statement = sql!("settled_shares");
const LAST_ORDER: Statement = sql!(both include_str!("sql/last_order.sql"));
const SETTLED_PAYMENTS: Statement = sql!(both include_str!("sql/settled_payments.sql"));
const SETTLED_RETURNS: Statement = sql!(both include_str!("sql/settled_returns.sql"));

/// Campaigns to which something may still happen.
pub(crate) async fn live_campaigns<D: Dialect>(
    conn: &mut D::Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<LiveCampaign>, WorkError> {
    let after = after.map_or_else(String::new, |id| id.to_string());
    let page = [after.as_str().into(), i64::from(limit).into()];
    let mut rows = fetch::<D, LiveRow>(conn, &CAMPAIGNS_NOT_CLOSED, &page).await?;
    rows.extend(fetch::<D, LiveRow>(conn, &CLOSED_WITH_HELD, &page).await?);
    live_page(rows, limit, campaign_id)
}

/// Into how many parts a campaign is divided, and what one of them says: phase, units returned, minor units refunded.
type PartRow = (i64, Option<String>, Option<i64>, Option<i64>);

/// The part of a campaign that a partition has.
pub(crate) async fn settled_part<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    partition: PartitionId,
) -> Result<Option<SettledPart>, WorkError> {
    let Some(row) = campaign_row::<D>(conn, &id.to_string()).await? else {
        return Ok(None);
    };
    let values = [i64::from(partition.0).into(), row.campaign_ref.into()];
    let found = fetch_one::<D, PartRow>(conn, &PART, &values).await?;
    let (parts, phase, returned, refunded) = found.unwrap_or((1, None, None, None));
    let phase = phase.as_deref().zip(returned.zip(refunded));
    let part = phase.map(|(phase, (returned, refunded))| (phase, returned, refunded));
    Ok(Some(SettledPart::from_record(row.record()?, parts, part)?))
}

/// The outline of a campaign, whether or not the other columns of its row can be read.
pub(crate) async fn campaign_outline<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<CampaignOutline>, WorkError> {
    let id = id.to_string();
    let found = fetch_one::<D, (i64, String)>(conn, &OUTLINE, &[id.as_str().into()]).await?;
    let Some((parts, phase)) = found else {
        return Ok(None);
    };
    let parts = u16::try_from(parts);
    let bad = |_| WorkError::damaged(format!("campaign {id} has a bad number of parts"));
    Ok(Some(CampaignOutline {
        parts: parts.map_err(bad)?,
        is_draft: phase == Phase::Draft.name(),
    }))
}

/// Shares or orders with numbers above `after`, in their order.
pub(crate) async fn settled_rows<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<SettledRow>, WorkError> {
    let rows = numbered_rows::<D>(conn, id, (after, limit), &SETTLED_SHARES).await?;
    let discarded = discards::discarded::<D>(conn, id).await?;
    Ok(with_discarded(rows, &discarded, (after, limit)))
}

/// Shares or orders of a user, by number.
pub(crate) async fn settled_rows_of_user<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    user: UserId,
) -> Result<Vec<SettledRow>, WorkError> {
    let rows = rows_of_user::<D>(conn, id, &user).await?;
    let discarded = discards::discarded::<D>(conn, id).await?;
    Ok(with_discarded_of_user(rows, &discarded, &user))
}

/// The highest number of a campaign's orders.
pub(crate) async fn last_order<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<u32, WorkError> {
    let discarded = discarded_orders(&discards::discarded::<D>(conn, id).await?);
    let discarded = discarded.last().map_or(0, |order| order.row.number);
    let id = id.to_string();
    let last = fetch_one::<D, (i64,)>(conn, &LAST_ORDER, &[id.as_str().into()]).await?;
    let (last,) = last.unwrap_or_default();
    let last = u32::try_from(last);
    let bad = |_| WorkError::damaged(format!("an order of campaign {id} has a bad number"));
    Ok(last.map_err(bad)?.max(discarded))
}

/// The payments of orders with numbers in this range.
pub(crate) async fn settled_payments<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    after: u32,
    upto: u32,
) -> Result<Vec<SettledPayment>, WorkError> {
    let discarded = discards::discarded::<D>(conn, id).await?;
    let id = id.to_string();
    let values = [
        id.as_str().into(),
        i64::from(after).into(),
        i64::from(upto).into(),
    ];
    let payments = fetch::<D, SettledPaymentColumns>(conn, &SETTLED_PAYMENTS, &values).await?;
    let of = |payment| Ok(SettledPayment::from_columns(payment)?);
    let payments = payments.into_iter().map(of);
    let payments = payments.collect::<Result<_, WorkError>>()?;
    Ok(with_discarded_payments(payments, &discarded, (after, upto)))
}

/// Returns of parts of orders with numbers in this range.
pub(crate) async fn settled_returns<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    after: u32,
    upto: u32,
) -> Result<Vec<SettledReturn>, WorkError> {
    let discarded = discards::discarded::<D>(conn, id).await?;
    let id = id.to_string();
    let values = [
        id.as_str().into(),
        i64::from(after).into(),
        i64::from(upto).into(),
    ];
    let returns = fetch::<D, SettledReturnColumns>(conn, &SETTLED_RETURNS, &values).await?;
    let returns = returns
        .into_iter()
        .map(|it| Ok(SettledReturn::from_columns(it)?));
    let returns = returns.collect::<Result<_, WorkError>>()?;
    Ok(with_discarded_returns(returns, &discarded, (after, upto)))
}
