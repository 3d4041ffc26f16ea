//! Audiences of campaigns, and the shares that lists of draws need.

use qiang_core::{
    id::{CampaignId, UserId},
    order::OrderState,
    ports::GrantRecord,
    time::Timestamp,
};

use crate::{
    dialect::{Dialect, Statement, fetch_one, sql},
    error::WorkError,
};

const ENTER: Statement = sql!(both "INSERT INTO audiences (campaign, rules) VALUES ($1, $2)");
const AUDIENCE: Statement = sql!(both
    "SELECT rules FROM audiences WHERE campaign = (SELECT ref FROM campaigns WHERE id = $1)");
const SHARE_OF: Statement = sql!(both r#"SELECT number FROM shares
    WHERE campaign = (SELECT ref FROM campaigns WHERE id = $1) AND "user" = $2"#);
const LUCKIEST: Statement = sql!(both include_str!("sql/luckiest.sql"));

/// Enters the audience of a campaign that was just entered.
pub(crate) async fn enter<D: Dialect>(
    conn: &mut D::Connection,
    campaign_ref: i64,
    rules: &str,
) -> Result<(), WorkError> {
    D::execute(conn, &ENTER, &[campaign_ref.into(), rules.into()]).await?;
    Ok(())
}

/// The stored audience of a campaign.
pub(crate) async fn audience<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<String>, WorkError> {
    let id = id.to_string();
    let found: Option<(String,)> =
        fetch_one::<D, _>(conn, &AUDIENCE, &[id.as_str().into()]).await?;
    Ok(found.map(|(rules,)| rules))
}

/// Whether a user has a share of a packet.
pub(crate) async fn has_share<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<bool, WorkError> {
    let id = id.to_string();
    let values = [id.as_str().into(), user.as_str().into()];
    let found: Option<(i64,)> = fetch_one::<D, _>(conn, &SHARE_OF, &values).await?;
    Ok(found.is_some())
}

/// The largest share of a packet, the earliest of equal ones.
pub(crate) async fn luckiest<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<GrantRecord>, WorkError> {
    let id = id.to_string();
    let found: Option<(i64, String, i64, i64)> =
        fetch_one::<D, _>(conn, &LUCKIEST, &[id.as_str().into()]).await?;
    let bad = |what: &str| WorkError::damaged(format!("a share of {id} has a bad {what}"));
    let read = |(number, user, amount_minor, at): (i64, String, i64, i64)| {
        Ok(GrantRecord {
            number: number.try_into().map_err(|_| bad("number"))?,
            user: UserId::new(&user).map_err(|_| bad("user"))?,
            quantity: 1,
            amount_minor,
            granted_at: Timestamp::from_millis(at),
            state: OrderState::Held,
            returned: 0,
            cancelled: 0,
        })
    };
    found.map(read).transpose()
}
