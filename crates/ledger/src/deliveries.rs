//! Deliveries to webhook endpoints: waiting events, the progress of endpoints, and the log of attempts.

use qiang_core::{
    ports::{Action, first_id_at},
    rows::{AttemptColumns, Contradiction, RetryColumns, Value, WebhookEventColumns},
    time::Timestamp,
    webhook::{
        AttemptQuery, AttemptState, DeliveryAttempt, DeliveryReport, Redelivery, RetryState,
        WAITING_EVENTS_MAX, WaitingEvent, WebhookEvent,
    },
};
use uuid::Uuid;

use crate::{
    actions,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::{WorkError, raced},
    webhooks,
};

const IS_THERE: Statement = sql!(both "SELECT created_at FROM webhooks WHERE id = $1");
const RETRIES: Statement = sql!(both "SELECT place, attempts, failing_since, retry_at FROM webhook_retries
    WHERE webhook = $1");
const WAITING: Statement = sql!(both include_str!("sql/waiting_webhook_events.sql"));
const RECORD: Statement = sql!(both include_str!("sql/record_webhook.sql"));
const DROP_RETRIES: Statement = sql!("drop_webhook_retries");
const ENTER_RETRIES: Statement = sql!("enter_webhook_retries");
const ENTER_ATTEMPTS: Statement = sql!("enter_webhook_attempts");
const ATTEMPTS: Statement = sql!(both include_str!("sql/attempts.sql"));
const ATTEMPTS_OF_EVENT: Statement = sql!(both include_str!("sql/attempts_of_event.sql"));
const ATTEMPTS_OF_ORDER: Statement = sql!(both include_str!("sql/attempts_of_order.sql"));
const ATTEMPTS_OF_STATE: Statement = sql!(both include_str!("sql/attempts_of_state.sql"));
const FORGET_ATTEMPTS: Statement = sql!(both include_str!("sql/forget_webhook_attempts.sql"));
const ATTEMPTED_EVENT: Statement = sql!(both include_str!("sql/attempted_event.sql"));
const GIVEN_UP_EVENTS: Statement = sql!(both include_str!("sql/given_up_events.sql"));

/// Events that wait for a retry to an endpoint.
pub(crate) async fn waiting<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
) -> Result<Vec<WaitingEvent>, WorkError> {
    let id = id.to_string();
    let retries: Vec<RetryColumns> = fetch::<D, _>(conn, &RETRIES, &[id.as_str().into()]).await?;
    if retries.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<WebhookEventColumns> =
        fetch::<D, _>(conn, &WAITING, &[id.as_str().into()]).await?;
    let events: Result<_, Contradiction> =
        rows.into_iter().map(WebhookEvent::from_columns).collect();
    Ok(WaitingEvent::from_rows(retries, events?))
}

/// Records deliveries to an endpoint, if the holder has its lease.
pub(crate) async fn record<D: Dialect>(
    conn: &mut D::Connection,
    (id, holder): (Uuid, Uuid),
    until: Timestamp,
    report: &DeliveryReport,
) -> Result<bool, WorkError> {
    let (id, holder) = (id.to_string(), holder.to_string());
    let progress = &report.progress;
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
    if D::execute(conn, &RECORD, &values).await? == 0 {
        return Ok(false);
    }
    let changed: Vec<[Value<'_>; 2]> = report
        .changed_places()
        .map(|place| [id.as_str().into(), place.into()])
        .collect();
    D::execute_rows(conn, &DROP_RETRIES, &changed).await?;
    let retries: Vec<_> = report.waiting.iter().map(|it| it.columns(&id)).collect();
    D::execute_rows(conn, &ENTER_RETRIES, &retries).await?;
    let names: Vec<_> = report.attempts.iter().map(DeliveryAttempt::names).collect();
    let attempts: Vec<_> = (report.attempts.iter().zip(&names))
        .map(|(attempt, names)| attempt.columns(&id, names))
        .collect();
    D::execute_rows(conn, &ENTER_ATTEMPTS, &attempts).await?;
    Ok(true)
}

/// Attempts at one endpoint, newest first.
pub(crate) async fn attempts<D: Dialect>(
    conn: &mut D::Connection,
    query: &AttemptQuery,
) -> Result<Vec<DeliveryAttempt>, WorkError> {
    let webhook = query.webhook.to_string();
    let before = query.before.map(|before| before.to_string());
    let before = before.as_deref().unwrap_or(DeliveryAttempt::AFTER_IDS);
    let any_state = query.state.map_or("%", AttemptState::name).into();
    let webhook: Value<'_> = webhook.as_str().into();
    let (before, limit) = (before.into(), i64::from(query.limit).into());
    let campaign = query.order.map(|order| order.campaign.to_string());
    let rows: Vec<AttemptColumns> = match (&query.event, query.order, query.state) {
        (Some(event), _, _) => {
            let values = [event.as_str().into(), webhook, before, any_state, limit];
            fetch::<D, _>(conn, &ATTEMPTS_OF_EVENT, &values).await?
        }
        (None, Some(order), _) => {
            let number = i64::from(order.number).into();
            let campaign = campaign.as_deref().into();
            let values = [campaign, number, webhook, before, any_state, limit];
            fetch::<D, _>(conn, &ATTEMPTS_OF_ORDER, &values).await?
        }
        (None, None, Some(state)) => {
            let values = [webhook, state.name().into(), before, limit];
            fetch::<D, _>(conn, &ATTEMPTS_OF_STATE, &values).await?
        }
        (None, None, None) => fetch::<D, _>(conn, &ATTEMPTS, &[webhook, before, limit]).await?,
    };
    let attempts: Result<_, Contradiction> = rows
        .into_iter()
        .map(DeliveryAttempt::from_columns)
        .collect();
    Ok(attempts?)
}

/// Deletes attempts that were made before a time.
pub(crate) async fn forget_attempts<D: Dialect>(
    conn: &mut D::Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, WorkError> {
    let first = first_id_at(before).to_string();
    let values = [first.as_str().into(), i64::from(limit).into()];
    Ok(D::execute(conn, &FORGET_ATTEMPTS, &values).await?)
}

/// Makes events wait for a delivery at once, and enables the endpoint. Returns their number. If there are none, nothing
/// changes.
pub(crate) async fn redeliver<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
    what: &Redelivery,
    by: Option<&Action>,
) -> Result<Option<u64>, WorkError> {
    let webhook = id.to_string();
    let found = fetch_one::<D, (i64,)>(conn, &IS_THERE, &[webhook.as_str().into()]).await?;
    if found.is_none() {
        return Ok(None);
    }
    if let Some(action) = by
        && actions::is_there::<D>(conn, action.id).await?
    {
        return Ok(Some(0));
    }
    let retries: Vec<RetryColumns> =
        fetch::<D, _>(conn, &RETRIES, &[webhook.as_str().into()]).await?;
    let room = WAITING_EVENTS_MAX.saturating_sub(retries.len() as u64);
    let places: Vec<(i64,)> = match what {
        Redelivery::Event(event) => {
            let values = [event.as_str().into(), webhook.as_str().into()];
            fetch::<D, _>(conn, &ATTEMPTED_EVENT, &values).await?
        }
        Redelivery::GivenUp(since) => {
            let since = first_id_at(*since).to_string();
            let limit = (room as i64).into();
            let values = [webhook.as_str().into(), since.as_str().into(), limit];
            fetch::<D, _>(conn, &GIVEN_UP_EVENTS, &values).await?
        }
    };
    if places.is_empty() {
        return Ok(Some(0));
    }
    // The endpoint's row is locked first, as when deliveries are recorded.
    webhooks::enable::<D>(conn, id).await?;
    webhooks::retry_at_once::<D>(conn, id).await?;
    let keys: Vec<[Value<'_>; 2]> = places
        .iter()
        .map(|(place,)| [webhook.as_str().into(), (*place).into()])
        .collect();
    D::execute_rows(conn, &DROP_RETRIES, &keys).await?;
    let rows: Vec<_> = places
        .iter()
        .map(|(place,)| RetryState::at_once(*place).columns(&webhook))
        .collect();
    raced(D::execute_rows(conn, &ENTER_RETRIES, &rows).await)?;
    actions::enter_if::<D>(conn, true, by).await?;
    Ok(Some(places.len() as u64))
}
