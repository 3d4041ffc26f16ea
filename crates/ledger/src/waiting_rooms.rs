//! Waiting rooms of campaigns.

use qiang_core::id::CampaignId;

use crate::{
    dialect::{Dialect, Statement, fetch_one, sql},
    error::WorkError,
};

const ADD: Statement = Statement {
    postgres: "INSERT INTO waiting_rooms (campaign) VALUES ($1) ON CONFLICT DO NOTHING",
    mysql: "INSERT IGNORE INTO waiting_rooms (campaign) VALUES (?)",
};
const FOUND: Statement = sql!(both "SELECT campaign FROM waiting_rooms WHERE campaign = $1");

/// Adds a waiting room to a campaign. Idempotent.
pub(crate) async fn add<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<(), WorkError> {
    D::execute(conn, &ADD, &[id.to_string().as_str().into()]).await?;
    Ok(())
}

/// Whether a campaign has a waiting room.
pub(crate) async fn has<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<bool, WorkError> {
    let found: Option<(String,)> =
        fetch_one::<D, _>(conn, &FOUND, &[id.to_string().as_str().into()]).await?;
    Ok(found.is_some())
}
