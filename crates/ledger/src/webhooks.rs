//! Webhook endpoints, and the webhook events that settlement and payouts record.

use qiang_core::{
    campaign::Phase,
    id::CampaignId,
    ports::Action,
    rows::{Contradiction, EventRow, Value, WebhookColumns, WebhookEventColumns},
    time::Timestamp,
    webhook::{DeliveryProgress, EventType, WEBHOOKS_MAX, Webhook, WebhookEvent, WebhookRecord},
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::{WorkError, raced},
};

const CLOSED: Statement =
    sql!(both "SELECT phase, returned, refunded FROM campaigns WHERE ref = $1");
const OWNER: Statement = sql!(both "SELECT owner FROM campaigns WHERE ref = $1");
const TAKE_PLACES: Statement = sql!(both "UPDATE webhook_places SET last_place = last_place + $1");
const LAST_PLACE: Statement = sql!(both "SELECT last_place FROM webhook_places");
const ENTER_EVENTS: Statement = sql!("enter_webhook_events");
const ADD: Statement = sql!(both include_str!("sql/add_webhook.sql"));
const LIST: Statement = sql!(both include_str!("sql/webhooks.sql"));
const ROTATE: Statement = sql!(both "UPDATE webhooks
    SET previous_secret = secret, previous_until = $1, secret = $2 WHERE id = $3");
const DELETE: Statement = sql!(both "DELETE FROM webhooks WHERE id = $1");
const REDRIVE: Statement = sql!(both include_str!("sql/redrive_webhook.sql"));
const SET_BACK: Statement = sql!(both include_str!("sql/set_webhook_back.sql"));
const LEASE: Statement = sql!(both include_str!("sql/lease_webhook.sql"));
const EVENTS: Statement = sql!(both include_str!("sql/webhook_events.sql"));
const RECORD: Statement = sql!(both include_str!("sql/record_webhook.sql"));
const FORGET: Statement = sql!(both include_str!("sql/forget_webhook_events.sql"));

/// Records webhook events. A transaction that has taken positions blocks others until it ends. So this step comes last,
/// and positions are in order of commits.
pub(crate) async fn insert_webhook_events<D: Dialect>(
    conn: &mut D::Connection,
    told: &[EventRow<'_>],
) -> Result<(), WorkError> {
    let mut rows = Vec::with_capacity(told.len());
    for row in told {
        let mut row = *row;
        if row.kind == EventType::CampaignClosed {
            let values = [row.campaign.into()];
            let found = fetch_one::<D, (String, i64, i64)>(conn, &CLOSED, &values).await?;
            match found {
                Some((phase, returned, refunded)) if phase == Phase::Closed.name() => {
                    (row.quantity, row.amount) = (returned, refunded);
                }
                // Other shards are open; the last one reports it.
                _ => continue,
            }
        }
        rows.push(row);
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
    if there.len() >= WEBHOOKS_MAX {
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
        filter.owner.as_ref().map(|owner| owner.as_str()).into(),
        webhook.created_at.as_millis().into(),
    ];
    raced(D::execute(conn, &ADD, &values).await)?;
    actions::enter_if::<D>(conn, true, by).await
}

/// All endpoints.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
) -> Result<Vec<WebhookRecord>, WorkError> {
    let rows: Vec<WebhookColumns> = fetch::<D, _>(conn, &LIST, &[]).await?;
    let records: Result<_, Contradiction> =
        rows.into_iter().map(WebhookRecord::from_columns).collect();
    Ok(records?)
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

/// Deletes an endpoint.
pub(crate) async fn delete<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let deleted = touch::<D>(conn, &DELETE, &[id.to_string().as_str().into()]).await?;
    actions::enter_if::<D>(conn, deleted, by).await
}

/// Enables an endpoint again. With `since`, it receives the events decided from then on once more.
pub(crate) async fn redrive<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    since: Option<Timestamp>,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let id = id.to_string();
    if let Some(since) = since {
        let values = [since.as_millis().into(), id.as_str().into()];
        touch::<D>(conn, &SET_BACK, &values).await?;
    }
    let redriven = touch::<D>(conn, &REDRIVE, &[id.as_str().into()]).await?;
    actions::enter_if::<D>(conn, redriven, by).await
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
    let records = list::<D>(conn).await?;
    Ok(records.into_iter().find(|record| record.webhook.id == id))
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

/// Records the delivery progress of an endpoint, if the holder has its lease.
pub(crate) async fn record<D: Dialect>(
    conn: &mut D::Connection,
    (id, holder): (Uuid, Uuid),
    until: Timestamp,
    progress: &DeliveryProgress,
) -> Result<bool, WorkError> {
    let (id, holder) = (id.to_string(), holder.to_string());
    let at = |at: Option<Timestamp>| at.map(Timestamp::as_millis).into();
    let values = [
        until.as_millis().into(),
        progress.place.into(),
        at(progress.failing_since),
        i64::from(progress.attempts).into(),
        at(progress.retry_at),
        progress.last_error.as_deref().into(),
        at(progress.disabled_at),
        id.as_str().into(),
        holder.as_str().into(),
    ];
    touch::<D>(conn, &RECORD, &values).await
}

/// Deletes events that were decided before an instant and delivered to every enabled endpoint.
pub(crate) async fn forget<D: Dialect>(
    conn: &mut D::Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, WorkError> {
    let values = [before.as_millis().into(), i64::from(limit).into()];
    Ok(D::execute(conn, &FORGET, &values).await?)
}
