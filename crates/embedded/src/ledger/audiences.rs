//! Audiences of campaigns, and the shares that lists of draws need.

use qiang_core::{
    id::{CampaignId, UserId},
    order::OrderState,
    ports::GrantRecord,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::DataFileError;

/// Enters the audience of a campaign that was just entered.
pub(super) fn enter(
    conn: &Connection,
    campaign_ref: i64,
    rules: &str,
) -> Result<(), DataFileError> {
    conn.prepare_cached("INSERT INTO audiences (campaign, rules) VALUES (?1, ?2)")?
        .execute(params![campaign_ref, rules])?;
    Ok(())
}

/// The stored audience of a campaign.
pub(crate) fn audience(conn: &Connection, id: CampaignId) -> Result<Option<String>, DataFileError> {
    let mut get = conn.prepare_cached(
        "SELECT rules FROM audiences WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1)",
    )?;
    let rules = get.query_row([id.to_string()], |row| row.get(0));
    Ok(rules.optional()?)
}

/// Whether a user has a share of a packet.
pub(crate) fn has_share(
    conn: &Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<bool, DataFileError> {
    let mut found = conn.prepare_cached(
        "SELECT 1 FROM shares WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1) AND user = ?2",
    )?;
    Ok(found.exists(params![id.to_string(), user.as_str()])?)
}

/// The largest share of a packet, the earliest of equal ones.
pub(crate) fn luckiest(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<GrantRecord>, DataFileError> {
    let mut found = conn.prepare_cached(
        "SELECT number, user, amount, granted_at FROM shares \
         WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1) AND user IS NOT NULL \
         ORDER BY amount DESC, granted_at, number LIMIT 1",
    )?;
    let row = found.query_row([id.to_string()], |row| {
        let user: String = row.get(1)?;
        Ok((row.get(0)?, user, row.get(2)?, row.get(3)?))
    });
    let Some((number, user, amount_minor, at)) = row.optional()? else {
        return Ok(None);
    };
    let bad = |_| DataFileError::damaged(format!("a share of {id} has a bad user"));
    Ok(Some(GrantRecord {
        number,
        user: UserId::new(&user).map_err(bad)?,
        quantity: 1,
        amount_minor,
        granted_at: Timestamp::from_millis(at),
        state: OrderState::Held,
        returned: 0,
        cancelled: 0,
    }))
}
