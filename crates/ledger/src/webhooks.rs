//! Webhook endpoints, and the webhook events that settlement and payouts record.

use qiang_core::{
    id::{CampaignId, UserId},
    ports::Action,
    rows::{
        BacklogColumns, ConditionColumns, Contradiction, EventRow, Value, WebhookColumns,
        WebhookEventColumns,
    },
    time::Timestamp,
    webhook::{Webhook, WebhookChange, WebhookEvent, WebhookRecord, campaign_names, type_names},
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::{WorkError, raced},
};

const CONDITION: Statement = sql!(both
    "SELECT phase, supply, granted, returned, refunded FROM campaigns WHERE ref = $1");
const OWNER: Statement = sql!(both "SELECT owner FROM campaigns WHERE ref = $1");
const TAKE_PLACES: Statement = sql!(both "UPDATE webhook_places SET last_place = last_place + $1");
const LAST_PLACE: Statement = sql!(both "SELECT last_place FROM webhook_places");
const ENTER_EVENTS: Statement = sql!("enter_webhook_events");
const ADD: Statement = sql!(both include_str!("sql/add_webhook.sql"));
const LIST: Statement = sql!(both concat!(include_str!("sql/webhooks.sql"), "ORDER BY id\n"));
const ONE: Statement = sql!(both concat!(include_str!("sql/webhooks.sql"), "WHERE id = $1\n"));
const ROTATE: Statement = sql!(both "UPDATE webhooks
    SET previous_secret = secret, previous_until = $1, secret = $2 WHERE id = $3");
const CHANGE: Statement = sql!(both include_str!("sql/change_webhook.sql"));
const END_PAUSE: Statement = sql!(both "UPDATE webhooks SET retry_at = NULL WHERE id = $1");
const DELETE: Statement = sql!(both "DELETE FROM webhooks WHERE id = $1");
const REDRIVE: Statement = sql!(both include_str!("sql/redrive_webhook.sql"));
const SET_BACK: Statement = sql!(both include_str!("sql/set_webhook_back.sql"));
const LEASE: Statement = sql!(both include_str!("sql/lease_webhook.sql"));
const EVENTS: Statement = sql!(both include_str!("sql/webhook_events.sql"));
const FORGET: Statement = sql!(both include_str!("sql/forget_webhook_events.sql"));
const BACKLOGS: Statement = sql!(both include_str!("sql/webhook_backlogs.sql"));
const BACKLOG: Statement = sql!(both
    concat!(include_str!("sql/webhook_backlogs.sql"), "WHERE w.id = $1\n"));
const FORGET_RETRIES: Statement = sql!(both include_str!("sql/forget_webhook_retries.sql"));
const DROP_READ_AGAIN: Statement = sql!(both include_str!("sql/drop_read_again.sql"));
const RETRY_AT_ONCE: Statement = sql!(both "UPDATE webhook_retries
    SET attempts = 0, failing_since = NULL, retry_at = 0 WHERE webhook = $1 AND retry_at IS NOT NULL");
const DROP_ALL: Statement = sql!(both "DELETE FROM webhook_retries WHERE webhook = $1");

/// Records webhook events. A transaction that has taken positions blocks others until it ends. So this step comes last,
/// and positions are in order of commits.
pub(crate) async fn insert_webhook_events<D: Dialect>(
    conn: &mut D::Connection,
    told: &[EventRow<'_>],
) -> Result<(), WorkError> {
    let mut rows = Vec::with_capacity(told.len());
    for row in told {
        if row.condition.is_none() {
            rows.push(*row);
            continue;
        }
        let values = [row.campaign.into()];
        let found = fetch_one::<D, ConditionColumns>(conn, &CONDITION, &values).await?;
        rows.extend(found.and_then(|found| row.resolve(&found)));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let count = rows.len() as i64;
    D::execute(conn, &TAKE_PLACES, &[count.into()]).await?;
    let (last,) = fetch_one::<D, (i64,)>(conn, &LAST_PLACE, &[])
        .await?
        .ok_or_else(|| WorkError::damaged("events have no last place"))?;
    let places = last - count + 1..;
    let rows: Vec<_> = rows
        .iter()
        .zip(places)
        .map(|(row, place)| row.columns(place))
        .collect();
    D::execute_rows(conn, &ENTER_EVENTS, &rows).await?;
    Ok(())
}

/// Records a webhook event that follows from no log entry, if an endpoint may want it.
pub(crate) async fn insert_direct_webhook_events<D: Dialect>(
    conn: &mut D::Connection,
    campaign: CampaignId,
    row: EventRow<'_>,
) -> Result<(), WorkError> {
    let endpoints = list::<D>(conn).await?;
    if endpoints.is_empty() {
        return Ok(());
    }
    let (owner,) = fetch_one::<D, (String,)>(conn, &OWNER, &[row.campaign.into()])
        .await?
        .ok_or_else(|| WorkError::damaged("a campaign is gone"))?;
    let mut filters = endpoints.iter().map(|one| &one.webhook.filter);
    match filters.any(|filter| filter.watches(campaign, &owner)) {
        true => insert_webhook_events::<D>(conn, &[row]).await,
        false => Ok(()),
    }
}

/// Adds an endpoint once. Returns false if the maximum is reached.
pub(crate) async fn add<D: Dialect>(
    conn: &mut D::Connection,
    webhook: &Webhook,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let there = list::<D>(conn).await?;
    if there.iter().any(|one| one.webhook.id == webhook.id) {
        return Ok(true);
    }
    if !WebhookRecord::has_room(&there, webhook.managed_by.as_ref()) {
        return Ok(false);
    }
    let id = webhook.id.to_string();
    let filter = &webhook.filter;
    let (types, campaigns) = (filter.type_names(), filter.campaign_names());
    let values = [
        id.as_str().into(),
        webhook.url.as_str().into(),
        webhook.secret.as_str().into(),
        types.as_str().into(),
        campaigns.as_str().into(),
        filter.owner.as_ref().map(UserId::as_str).into(),
        webhook.managed_by.as_ref().map(UserId::as_str).into(),
        webhook.created_at.as_millis().into(),
    ];
    raced(D::execute(conn, &ADD, &values).await)?;
    actions::enter_if::<D>(conn, true, by).await
}

/// All endpoints.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
) -> Result<Vec<WebhookRecord>, WorkError> {
    records::<D>(conn, (&LIST, &BACKLOGS), &[]).await
}

/// Endpoints that these statements select, with their backlogs.
async fn records<D: Dialect>(
    conn: &mut D::Connection,
    (select, backlogs): (&'static Statement, &'static Statement),
    values: &[Value<'_>],
) -> Result<Vec<WebhookRecord>, WorkError> {
    let rows: Vec<WebhookColumns> = fetch::<D, _>(conn, select, values).await?;
    let records: Result<Vec<_>, Contradiction> =
        rows.into_iter().map(WebhookRecord::from_columns).collect();
    let backlogs: Vec<BacklogColumns> = fetch::<D, _>(conn, backlogs, values).await?;
    Ok(WebhookRecord::with_backlogs(records?, backlogs)?)
}

async fn touch<D: Dialect>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    values: &[Value<'_>],
) -> Result<bool, WorkError> {
    Ok(D::execute(conn, statement, values).await? > 0)
}

/// Replaces the secret of an endpoint, once per action.
pub(crate) async fn rotate<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    (secret, previous_until): (&str, Timestamp),
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    if let Some(action) = by
        && actions::is_there::<D>(conn, action.id).await?
    {
        return Ok(true);
    }
    let id = id.to_string();
    let until = previous_until.as_millis();
    let values = [until.into(), secret.into(), id.as_str().into()];
    let rotated = touch::<D>(conn, &ROTATE, &values).await?;
    actions::enter_if::<D>(conn, rotated, by).await
}

/// Changes an endpoint, once per action.
pub(crate) async fn change<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    (change, at): (&WebhookChange, Timestamp),
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    if let Some(action) = by
        && actions::is_there::<D>(conn, action.id).await?
    {
        return Ok(true);
    }
    let name = id.to_string();
    let types = change.types.as_deref().map(type_names);
    let campaigns = change.campaigns.as_deref().map(campaign_names);
    let owner = change.owner.as_ref().and_then(Option::as_ref);
    let values = [
        change.url.as_deref().into(),
        types.as_deref().into(),
        campaigns.as_deref().into(),
        change.owner.is_some().into(),
        owner.map(UserId::as_str).into(),
        (change.is_enabled == Some(false)).into(),
        at.as_millis().into(),
        name.as_str().into(),
    ];
    let changed = touch::<D>(conn, &CHANGE, &values).await?;
    if change.is_enabled == Some(true) {
        enable::<D>(conn, id).await?;
    }
    if change.is_enabled == Some(true) || change.url.is_some() {
        retry_at_once::<D>(conn, id).await?;
        touch::<D>(conn, &END_PAUSE, &[name.as_str().into()]).await?;
    }
    actions::enter_if::<D>(conn, changed, by).await
}

/// Deletes an endpoint.
pub(crate) async fn delete<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let id = id.to_string();
    let deleted = touch::<D>(conn, &DELETE, &[id.as_str().into()]).await?;
    touch::<D>(conn, &DROP_ALL, &[id.as_str().into()]).await?;
    actions::enter_if::<D>(conn, deleted, by).await
}

/// Enables an endpoint again, and makes its waiting events due, once per action. With `since`, it receives the events
/// decided from then on once more.
pub(crate) async fn redrive<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    since: Option<Timestamp>,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    if let Some(action) = by
        && actions::is_there::<D>(conn, action.id).await?
    {
        return Ok(true);
    }
    // The row is locked first, so the deliveries of a holder are recorded before or not at all.
    let redriven = enable::<D>(conn, id).await?;
    retry_at_once::<D>(conn, id).await?;
    let id = id.to_string();
    if let Some(since) = since {
        let values = [since.as_millis().into(), id.as_str().into()];
        touch::<D>(conn, &SET_BACK, &values).await?;
        let values = [id.as_str().into(), id.as_str().into()];
        touch::<D>(conn, &DROP_READ_AGAIN, &values).await?;
    }
    actions::enter_if::<D>(conn, redriven, by).await
}

/// Makes the waiting events of an endpoint due, as if they had not failed yet.
pub(crate) async fn retry_at_once<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
) -> Result<(), WorkError> {
    touch::<D>(conn, &RETRY_AT_ONCE, &[id.to_string().as_str().into()]).await?;
    Ok(())
}

/// Enables an endpoint, and ends its lease. Returns whether there is one.
pub(crate) async fn enable<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
) -> Result<bool, WorkError> {
    touch::<D>(conn, &REDRIVE, &[id.to_string().as_str().into()]).await
}

/// Leases an endpoint to a holder. Returns `None` if another holder has the lease or the endpoint is disabled.
pub(crate) async fn lease<D: Dialect>(
    conn: &mut D::Connection,
    (id, holder): (Uuid, Uuid),
    (now, until): (Timestamp, Timestamp),
) -> Result<Option<WebhookRecord>, WorkError> {
    let (name, holder) = (id.to_string(), holder.to_string());
    let values = [
        holder.as_str().into(),
        until.as_millis().into(),
        name.as_str().into(),
        holder.as_str().into(),
        now.as_millis().into(),
    ];
    if !touch::<D>(conn, &LEASE, &values).await? {
        return Ok(None);
    }
    let own = [name.as_str().into()];
    let mut found = records::<D>(conn, (&ONE, &BACKLOG), &own).await?;
    Ok(found.pop())
}

/// Events after a position.
pub(crate) async fn events<D: Dialect>(
    conn: &mut D::Connection,
    after: i64,
    limit: u32,
) -> Result<Vec<WebhookEvent>, WorkError> {
    let values = [after.into(), i64::from(limit).into()];
    let rows: Vec<WebhookEventColumns> = fetch::<D, _>(conn, &EVENTS, &values).await?;
    let events: Result<_, Contradiction> =
        rows.into_iter().map(WebhookEvent::from_columns).collect();
    Ok(events?)
}

/// Deletes events that were decided before an instant and delivered to every enabled endpoint.
pub(crate) async fn forget<D: Dialect>(
    conn: &mut D::Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, WorkError> {
    let values = [before.as_millis().into(), i64::from(limit).into()];
    let forgotten = D::execute(conn, &FORGET, &values).await?;
    if forgotten > 0 {
        // Events may have waited for a disabled endpoint.
        D::execute(conn, &FORGET_RETRIES, &[]).await?;
    }
    Ok(forgotten)
}
