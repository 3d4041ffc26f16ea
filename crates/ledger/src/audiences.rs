//! Who may take part in campaigns, and what those who look at draws ask for.

use qiang_core::{
    id::{CampaignId, UserId},
    ports::GrantRecord,
};

use crate::{
    campaigns::grant_of,
    dialect::{Dialect, Statement, fetch_one},
    error::StoreError,
};

const PUT: Statement = Statement {
    postgres: "INSERT INTO audiences (campaign, rules) VALUES ($1, $2) ON CONFLICT DO NOTHING",
    mysql: "INSERT IGNORE INTO audiences (campaign, rules) VALUES (?, ?)",
};
const GET: Statement = Statement {
    postgres: "SELECT rules FROM audiences WHERE campaign = $1",
    mysql: "SELECT rules FROM audiences WHERE campaign = ?",
};
const HAS_SHARE: Statement = Statement {
    postgres: "SELECT s.number FROM shares s JOIN campaigns c ON c.ref = s.campaign \
               WHERE c.id = $1 AND s.\"user\" = $2",
    mysql: "SELECT s.number FROM shares s JOIN campaigns c ON c.ref = s.campaign WHERE c.id = ? AND s.user = ?",
};
const LUCKIEST: Statement = Statement {
    postgres: "SELECT s.number, s.\"user\", 1::bigint, s.amount, s.granted_at \
               FROM shares s JOIN campaigns c ON c.ref = s.campaign \
               WHERE c.id = $1 AND s.\"user\" IS NOT NULL ORDER BY s.amount DESC, s.number LIMIT 1",
    mysql: "SELECT s.number, s.user, CAST(1 AS SIGNED), s.amount, s.granted_at \
            FROM shares s JOIN campaigns c ON c.ref = s.campaign \
            WHERE c.id = ? AND s.user IS NOT NULL ORDER BY s.amount DESC, s.number LIMIT 1",
};

/// Keeps a campaign's audience, once.
pub(crate) async fn put<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    rules: &str,
) -> Result<(), StoreError> {
    D::execute(conn, &PUT, &[id.to_string().as_str().into(), rules.into()]).await?;
    Ok(())
}

/// What is kept of a campaign's audience.
pub(crate) async fn get<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<String>, StoreError> {
    let id = id.to_string();
    let found: Option<(String,)> = fetch_one::<D, _>(conn, &GET, &[id.as_str().into()]).await?;
    Ok(found.map(|(rules,)| rules))
}

/// Whether a user has a share of a packet.
pub(crate) async fn has_share<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<bool, StoreError> {
    let id = id.to_string();
    let values = [id.as_str().into(), user.as_str().into()];
    let found: Option<(i64,)> = fetch_one::<D, _>(conn, &HAS_SHARE, &values).await?;
    Ok(found.is_some())
}

/// The largest share that somebody has of a packet, the first of equal ones.
pub(crate) async fn luckiest<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<GrantRecord>, StoreError> {
    let id = id.to_string();
    let found = fetch_one::<D, _>(conn, &LUCKIEST, &[id.as_str().into()]).await?;
    found.map(grant_of).transpose()
}
