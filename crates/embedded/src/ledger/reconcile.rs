//! Reads of reconciliation and repair.

use qiang_core::{
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
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{campaigns, discards};
use crate::error::DataFileError;

/// Without the names of the indexes SQLite goes through ids in their order, and through all orders of a sale.
pub(super) const NOT_CLOSED: &str = "SELECT id, parts, phase FROM campaigns INDEXED BY campaigns_not_closed \
     WHERE phase <> 'closed' AND id > ?1 ORDER BY id LIMIT ?2";
pub(super) const CLOSED_WITH_HELD: &str = "SELECT id, parts, phase FROM campaigns c INDEXED BY campaigns_holds_end \
     WHERE kind = 'sale' AND phase = 'closed' \
     AND ends_at + 2 * hold_ms > (SELECT created_at FROM campaigns ORDER BY ref DESC LIMIT 1) - 2592000000 \
     AND EXISTS (SELECT 1 FROM orders o INDEXED BY orders_held WHERE o.campaign = c.ref AND o.state = 'held') \
     AND id > ?1 ORDER BY id LIMIT ?2";

/// Campaigns to which something may still happen.
pub(crate) fn live_campaigns(
    conn: &Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<LiveCampaign>, DataFileError> {
    let after = after.map_or_else(String::new, |id| id.to_string());
    let mut rows: Vec<LiveRow> = Vec::new();
    for sql in [NOT_CLOSED, CLOSED_WITH_HELD] {
        let mut statement = conn.prepare_cached(sql)?;
        // Columns of other types belong to a row that cannot be read.
        let read = |row: &Row<'_>| {
            let phase = row.get(2).unwrap_or_default();
            Ok((row.get(0)?, row.get(1).unwrap_or_default(), phase))
        };
        let found = statement.query_map(params![after, limit], read)?;
        rows.extend(found.collect::<Result<Vec<_>, _>>()?);
    }
    live_page(rows, limit, campaigns::campaign_id)
}

/// The part of a campaign that a partition has.
pub(crate) fn settled_part(
    conn: &Connection,
    id: CampaignId,
    partition: PartitionId,
) -> Result<Option<SettledPart>, DataFileError> {
    let Some(record) = campaigns::campaign(conn, id)? else {
        return Ok(None);
    };
    let mut statement = conn.prepare_cached(
        "SELECT c.parts, p.phase, p.returned, p.refunded FROM campaigns c \
         LEFT JOIN parts p ON p.campaign = c.ref AND p.partition = ?2 WHERE c.id = ?1",
    )?;
    let found = statement.query_row(params![id.to_string(), partition.0], |row| {
        let phase = row.get::<_, Option<String>>(1)?;
        let part = match phase {
            Some(phase) => Some((phase, row.get(2)?, row.get(3)?)),
            None => None,
        };
        Ok((row.get(0)?, part))
    });
    let (parts, part) = found?;
    let part = part.as_ref();
    let part = part.map(|(phase, returned, refunded)| (phase.as_str(), *returned, *refunded));
    Ok(Some(SettledPart::from_record(record, parts, part)?))
}

/// The outline of a campaign, whether or not the other columns of its row can be read.
pub(crate) fn campaign_outline(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<CampaignOutline>, DataFileError> {
    let sql = "SELECT parts, phase = 'draft' FROM campaigns WHERE id = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row([id.to_string()], |row| {
        Ok(CampaignOutline {
            parts: row.get(0)?,
            is_draft: row.get(1)?,
        })
    });
    Ok(found.optional()?)
}

/// Shares or orders with numbers above `after`, in their order.
pub(crate) fn settled_rows(
    conn: &Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<SettledRow>, DataFileError> {
    let shares = "SELECT number, amount, user, granted_at, 1, 'held', NULL, 0, 0, 0 FROM shares \
                  WHERE campaign = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let rows = campaigns::numbered_rows(conn, id, (after, limit), shares)?;
    let discarded = discards::discarded(conn, id)?;
    Ok(with_discarded(rows, &discarded, (after, limit)))
}

/// Shares or orders of a user, by number.
pub(crate) fn settled_rows_of_user(
    conn: &Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<Vec<SettledRow>, DataFileError> {
    let rows = campaigns::rows_of_user(conn, id, user)?;
    let discarded = discards::discarded(conn, id)?;
    Ok(with_discarded_of_user(rows, &discarded, user))
}

/// The highest number of a campaign's orders.
pub(crate) fn last_order(conn: &Connection, id: CampaignId) -> Result<u32, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT COALESCE(MAX(number), 0) FROM orders \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1)",
    )?;
    let last: u32 = statement.query_row([id.to_string()], |row| row.get(0))?;
    let discarded = discarded_orders(&discards::discarded(conn, id)?);
    Ok(discarded
        .last()
        .map_or(last, |order| order.row.number.max(last)))
}

/// The payments of orders with numbers in this range.
pub(crate) fn settled_payments(
    conn: &Connection,
    id: CampaignId,
    after: u32,
    upto: u32,
) -> Result<Vec<SettledPayment>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT number, payment, outcome, amount, currency FROM payments \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1) AND number > ?2 AND number <= ?3 ORDER BY number",
    )?;
    let columns = |row: &Row<'_>| SettledPaymentColumns::try_from(row);
    let rows = statement.query_map(params![id.to_string(), after, upto], columns)?;
    let payments = rows.map(|columns| Ok(SettledPayment::from_columns(columns?)?));
    let payments = payments.collect::<Result<_, DataFileError>>()?;
    let discarded = discards::discarded(conn, id)?;
    Ok(with_discarded_payments(payments, &discarded, (after, upto)))
}

/// Returns of parts of orders with numbers in this range.
pub(crate) fn settled_returns(
    conn: &Connection,
    id: CampaignId,
    after: u32,
    upto: u32,
) -> Result<Vec<SettledReturn>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT number, key, quantity, kind FROM order_returns \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1) AND number > ?2 AND number <= ?3 ORDER BY number",
    )?;
    let columns = |row: &Row<'_>| SettledReturnColumns::try_from(row);
    let rows = statement.query_map(params![id.to_string(), after, upto], columns)?;
    let returns = rows.map(|columns| Ok(SettledReturn::from_columns(columns?)?));
    let returns = returns.collect::<Result<_, DataFileError>>()?;
    let discarded = discards::discarded(conn, id)?;
    Ok(with_discarded_returns(returns, &discarded, (after, upto)))
}
