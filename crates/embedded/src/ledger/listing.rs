//! What people see of campaigns: details, lists, the archive.

use qiang_core::{
    campaign::{DetailsChange, Phase},
    id::CampaignId,
    ports::{Action, CampaignQuery, CampaignRecord},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, named_params, params};

use super::{
    actions,
    campaigns::{SELECT, row_of},
};
use crate::error::StoreError;

/// Changes what people see of a campaign.
pub(crate) fn describe(
    conn: &Connection,
    id: CampaignId,
    change: &DetailsChange,
    by: Option<&Action>,
) -> Result<(), StoreError> {
    let id = id.to_string();
    let [title, product_id, description, image_url] = change.columns();
    if let Some(title) = title {
        conn.prepare_cached("UPDATE campaigns SET title = ?1 WHERE id = ?2")?
            .execute(params![title, id])?;
    }
    let mut statement = conn.prepare_cached(
        "UPDATE details SET product_id = nullif(coalesce(?1, product_id), ''), \
         description = nullif(coalesce(?2, description), ''), image_url = nullif(coalesce(?3, image_url), '') \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?4)",
    )?;
    let described = statement.execute(params![product_id, description, image_url, id])? > 0;
    if let Some(action) = by.filter(|_| described) {
        actions::enter(conn, action)?;
    }
    Ok(())
}

/// Archives a campaign that is closed; tells whether it is archived.
pub(crate) fn archive(
    conn: &Connection,
    now: Timestamp,
    id: CampaignId,
    by: Option<&Action>,
) -> Result<bool, StoreError> {
    let mut statement = conn.prepare_cached(
        "UPDATE details SET archived_at = coalesce(archived_at, ?1) \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?2 AND phase = 'closed')",
    )?;
    let archived = statement.execute(params![now.as_millis(), id.to_string()])? > 0;
    if let Some(action) = by.filter(|_| archived) {
        actions::enter(conn, action)?;
    }
    Ok(archived)
}

/// A page of campaigns.
pub(crate) fn list(
    conn: &Connection,
    query: &CampaignQuery,
) -> Result<Vec<CampaignRecord>, StoreError> {
    let is_back = query.newest_first && query.product_id.is_none();
    // Ids are made of digits and the letters up to f.
    let end = if is_back { "g" } else { "" };
    let after = query
        .after
        .map_or_else(|| end.to_owned(), |id| id.to_string());
    let (of, order) = match (&query.product_id, &query.owner) {
        (Some(_), None) => (":owner IS NULL AND product_id = :product", "starts_at, id"),
        (Some(_), Some(_)) => ("owner = :owner AND product_id = :product", "starts_at, id"),
        (None, Some(_)) => (":product IS NULL AND owner = :owner", "id"),
        (None, None) => (":product IS NULL AND :owner IS NULL", "id"),
    };
    let (from, order) = match query.product_id {
        Some(_) => ("(starts_at, id) > (:starts, :after)", order),
        None if is_back => (":starts IS NOT NULL AND id < :after", "id DESC"),
        None => (":starts IS NOT NULL AND id > :after", order),
    };
    let starts_at: Option<i64> = conn
        .prepare_cached("SELECT starts_at FROM campaigns WHERE id = ?1")?
        .query_row([&after], |row| row.get(0))
        .optional()?;
    let mut statement = conn.prepare_cached(&format!(
        "{SELECT} WHERE {of} AND {from} AND kind = :kind AND (archived_at IS NULL OR :archived) \
         AND CASE WHEN phase IN ('scheduled', 'paused') AND :now >= ends_at THEN 'ended' \
                  WHEN phase = 'scheduled' AND :now >= starts_at THEN 'live' ELSE phase END LIKE :phase \
         ORDER BY {order} LIMIT :limit"
    ))?;
    let rows = statement.query_map(
        named_params! {
            ":owner": query.owner.as_ref().map(|owner| owner.as_str()),
            ":product": query.product_id.as_ref().map(|id| id.as_str()),
            ":starts": starts_at.unwrap_or(i64::MIN),
            ":after": after,
            ":kind": query.kind.name(),
            ":archived": query.archived,
            ":now": query.now.as_millis(),
            ":phase": query.phase.map_or("%", Phase::name),
            ":limit": query.limit,
        },
        row_of,
    )?;
    rows.map(|row| Ok(row?.record()?)).collect()
}
