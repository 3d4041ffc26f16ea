//! Public view of campaigns: details, lists, archiving.

use qiang_core::{
    campaign::{Cover, Details, DetailsChange, Phase},
    id::CampaignId,
    ports::{Action, CampaignQuery, CampaignRecord},
    rows::{CampaignRow, Value},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::WorkError,
    made_changes,
};

const ENTER_DETAILS: Statement = sql!(
    both "INSERT INTO details (campaign, product_id, description, image_url, gallery, list_price, cover) \
          VALUES ($1, $2, $3, $4, $5, $6, $7)"
);
const RETITLE: Statement = sql!(both "UPDATE campaigns SET title = $1 WHERE id = $2");
const TOUCH: Statement = sql!(
    both "UPDATE campaigns SET updated_at = greatest(updated_at, $1) WHERE id = $2"
);
const TOUCH_ARCHIVED: Statement = sql!(both include_str!("sql/touch_archived.sql"));
const LOCK_TITLE: Statement = sql!(both "SELECT title FROM campaigns WHERE id = $1 FOR UPDATE");
const LOCK_DETAILS: Statement = sql!(both "SELECT product_id, description, image_url, gallery, list_price FROM details
    WHERE campaign = (SELECT ref FROM campaigns WHERE id = $1) FOR UPDATE");
const DESCRIBE: Statement = sql!(both include_str!("sql/describe.sql"));
const ARCHIVE: Statement = sql!(both include_str!("sql/archive.sql"));
const STARTS_AT: Statement = sql!(both "SELECT starts_at FROM campaigns WHERE id = $1");
const LIST_ALL: Statement = sql!(
    both concat!(include_str!("sql/campaigns.sql"), include_str!("sql/list_all.sql"))
);
const LIST_OWN: Statement = sql!(
    both concat!(include_str!("sql/campaigns.sql"), include_str!("sql/list_own.sql"))
);
const LIST_ALL_NEWEST: Statement = sql!(
    both concat!(include_str!("sql/campaigns.sql"), include_str!("sql/list_all_newest.sql"))
);
const LIST_OWN_NEWEST: Statement = sql!(
    both concat!(include_str!("sql/campaigns.sql"), include_str!("sql/list_own_newest.sql"))
);
const LIST_ROUNDS: Statement = sql!(
    both concat!(include_str!("sql/campaigns.sql"), include_str!("sql/list_rounds.sql"))
);

/// Columns of a row of details that change: product, description, image, gallery and list price.
type DetailsColumns = (
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
);

/// Inserts the details of a new campaign. Every campaign has such a row.
pub(crate) async fn enter<D: Dialect>(
    conn: &mut D::Connection,
    campaign_ref: i64,
    details: &Details,
) -> Result<(), WorkError> {
    let values = [
        campaign_ref.into(),
        details.product_id.as_ref().map(|id| id.as_str()).into(),
        details
            .description
            .as_ref()
            .map(|text| text.as_str())
            .into(),
        details.image_url.as_ref().map(|url| url.as_str()).into(),
        details
            .gallery
            .as_ref()
            .map(|gallery| gallery.as_str())
            .into(),
        details.list_price_minor.into(),
        details.cover.map(Cover::name).into(),
    ];
    D::execute(conn, &ENTER_DETAILS, &values).await?;
    Ok(())
}

/// Changes the details of a campaign.
pub(crate) async fn describe<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    id: CampaignId,
    change: &DetailsChange,
    (by, made): (Option<&Action>, Option<Uuid>),
) -> Result<(), WorkError> {
    let id = id.to_string();
    let columns = change.columns();
    if let Some(title) = columns.title {
        D::execute(&mut *conn, &RETITLE, &[title.into(), id.as_str().into()]).await?;
    }
    let values = [
        columns.product_id.into(),
        columns.description.into(),
        columns.image_url.into(),
        columns.gallery.into(),
        columns.list_price.into(),
        id.as_str().into(),
    ];
    let described = D::execute(&mut *conn, &DESCRIBE, &values).await? > 0;
    D::execute(
        &mut *conn,
        &TOUCH,
        &[now.as_millis().into(), id.as_str().into()],
    )
    .await?;
    if let Some(action) = by.filter(|_| described) {
        actions::enter::<D>(&mut *conn, action).await?;
    }
    made_changes::enter_made_changes::<D>(conn, made.as_slice()).await
}

/// Changes the details of a campaign whose title and details are still the expected ones. Returns whether they are.
pub(crate) async fn describe_if<D: Dialect>(
    conn: &mut D::Connection,
    (now, id): (Timestamp, CampaignId),
    (title, details): (&str, &Details),
    change: &DetailsChange,
    by: (Option<&Action>, Option<Uuid>),
) -> Result<bool, WorkError> {
    let name = id.to_string();
    // Keeps other transactions from changing the row until this one ends.
    let values = [name.as_str().into()];
    let locked: Option<(String,)> = fetch_one::<D, _>(&mut *conn, &LOCK_TITLE, &values).await?;
    let found: Option<DetailsColumns> =
        fetch_one::<D, _>(&mut *conn, &LOCK_DETAILS, &values).await?;
    let expected = [
        details.product_id.as_ref().map(|id| id.as_str()),
        details.description.as_ref().map(|text| text.as_str()),
        details.image_url.as_ref().map(|url| url.as_str()),
        details.gallery.as_ref().map(|gallery| gallery.as_str()),
    ];
    let is_same = found.is_some_and(|(product_id, description, image_url, gallery, price)| {
        let found = [product_id, description, image_url, gallery];
        found.iter().map(Option::as_deref).eq(expected) && price == details.list_price_minor
    });
    if !is_same || locked.is_none_or(|(found,)| found != title) {
        return Ok(false);
    }
    describe::<D>(conn, now, id, change, by).await?;
    Ok(true)
}

/// Archives a closed campaign. Returns whether it is archived.
pub(crate) async fn archive<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    id: CampaignId,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let id = id.to_string();
    let values = [now.as_millis().into(), id.as_str().into()];
    // Databases count a row that was found as affected, even if it does not change.
    let archived = D::execute(&mut *conn, &ARCHIVE, &values).await? > 0;
    if archived {
        // Keeps the first time: archiving is idempotent.
        D::execute(&mut *conn, &TOUCH_ARCHIVED, &[id.as_str().into()]).await?;
    }
    if let Some(action) = by.filter(|_| archived) {
        actions::enter::<D>(conn, action).await?;
    }
    Ok(archived)
}

/// One page of campaigns.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    query: &CampaignQuery,
) -> Result<Vec<CampaignRecord>, WorkError> {
    let is_back = query.newest_first && query.product_id.is_none();
    let [after, until] = query.bounds();
    let owner = query.owner.as_ref().map(|owner| owner.as_str());
    let page: [Value<'_>; 7] = [
        query.created.from_millis().into(),
        query.created.before_millis().into(),
        i64::from(query.archived).into(),
        query.now.as_millis().into(),
        query.now.as_millis().into(),
        query.phase.map_or("%", Phase::name).into(),
        i64::from(query.limit).into(),
    ];
    let (statement, mut values): (_, Vec<Value<'_>>) = match (&query.product_id, owner) {
        (Some(product), _) => {
            let starts_at =
                fetch_one::<D, (i64,)>(&mut *conn, &STARTS_AT, &[after.as_str().into()]).await?;
            let starts_at = starts_at.map_or(i64::MIN, |(starts_at,)| starts_at);
            let (product, after) = (product.as_str().into(), after.as_str().into());
            (
                &LIST_ROUNDS,
                vec![product, owner.into(), starts_at.into(), after],
            )
        }
        (None, Some(owner)) => {
            let kind = query.kind.name().into();
            let statement = if is_back { &LIST_OWN_NEWEST } else { &LIST_OWN };
            let (after, until) = (after.as_str().into(), until.as_str().into());
            (statement, vec![owner.into(), kind, after, until])
        }
        (None, None) => {
            let kind = query.kind.name().into();
            let statement = if is_back { &LIST_ALL_NEWEST } else { &LIST_ALL };
            let (after, until) = (after.as_str().into(), until.as_str().into());
            (statement, vec![kind, after, until])
        }
    };
    values.extend(page);
    let rows = fetch::<D, CampaignRow>(conn, statement, &values).await?;
    rows.iter().map(|row| Ok(row.record()?)).collect()
}
