//! Deliveries to webhook endpoints: waiting events, the progress of endpoints, and the log of attempts.

use qiang_core::{
    ports::{Action, first_id_at},
    rows::{AttemptColumns, RetryColumns},
    time::Timestamp,
    webhook::{
        AttemptQuery, AttemptState, DeliveryAttempt, DeliveryReport, Redelivery, RetryState,
        WAITING_EVENTS_MAX, WaitingEvent,
    },
};
use rusqlite::{Connection, Params, params, params_from_iter};
use uuid::Uuid;

use super::{
    actions,
    bound_values::{BoundValues, execute_rows},
    webhooks::{enable, events_sql, read_events, retry_at_once, touch},
};
use crate::error::DataFileError;

const ENTER_RETRY: &str = "INSERT INTO webhook_retries (webhook, place, attempts, failing_since, retry_at) \
                           VALUES (?1, ?2, ?3, ?4, ?5)";

/// Events that wait for a retry to an endpoint.
pub(crate) fn waiting(conn: &Connection, id: Uuid) -> Result<Vec<WaitingEvent>, DataFileError> {
    let retries = retries(conn, id)?;
    if retries.is_empty() {
        return Ok(Vec::new());
    }
    let sql = events_sql!(
        "webhook_retries w JOIN webhook_events e ON e.place = w.place \
         JOIN campaigns c ON c.ref = e.campaign WHERE w.webhook = ?1 ORDER BY w.place"
    );
    let events = read_events(conn, sql, [id.to_string()])?;
    Ok(WaitingEvent::from_rows(retries, events))
}

fn retries(conn: &Connection, id: Uuid) -> Result<Vec<RetryColumns>, DataFileError> {
    let mut read = conn.prepare_cached(
        "SELECT place, attempts, failing_since, retry_at FROM webhook_retries WHERE webhook = ?1",
    )?;
    let rows = read.query_map([id.to_string()], |row| RetryColumns::try_from(row))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Records deliveries to an endpoint, if the holder has its lease.
pub(crate) fn record(
    conn: &Connection,
    (id, holder): (Uuid, Uuid),
    until: Timestamp,
    report: &DeliveryReport,
) -> Result<bool, DataFileError> {
    let sql = "UPDATE webhooks SET held_until = ?1, place = ?2, failing_since = ?3, attempts = ?4, retry_at = ?5, \
               last_error = ?6, disabled_at = ?7 WHERE id = ?8 AND holder = ?9";
    let progress = &report.progress;
    let at = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
    let id = id.to_string();
    let values = params![
        until.as_millis(),
        progress.place,
        at(progress.failing_since),
        progress.attempts,
        at(progress.retry_at),
        progress.last_error,
        at(progress.disabled_at),
        id,
        holder.to_string(),
    ];
    if !touch(conn, sql, values)? {
        return Ok(false);
    }
    let sql = "DELETE FROM webhook_retries WHERE webhook = ?1 AND place = ?2";
    let mut drop_retry = conn.prepare_cached(sql)?;
    for place in report.changed_places() {
        drop_retry.execute(params![id, place])?;
    }
    let retries = report.waiting.iter().map(|retry| retry.columns(&id));
    execute_rows(conn, ENTER_RETRY, retries)?;
    let sql = "INSERT INTO webhook_attempts (id, webhook, place, event, kind, campaign, number, at, duration_ms, \
               attempt, status, body, error, state, next_at) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    let mut enter = conn.prepare_cached(sql)?;
    for attempt in &report.attempts {
        let names = attempt.names();
        let columns = attempt.columns(&id, &names);
        enter.execute(params_from_iter(columns.map(BoundValues)))?;
    }
    Ok(true)
}

/// Attempts at one endpoint, newest first.
pub(crate) fn attempts(
    conn: &Connection,
    query: &AttemptQuery,
) -> Result<Vec<DeliveryAttempt>, DataFileError> {
    let webhook = query.webhook.to_string();
    let before = query.before.map(|before| before.to_string());
    let before = before.as_deref().unwrap_or(DeliveryAttempt::AFTER_IDS);
    let any_state = query.state.map_or("%", AttemptState::name);
    let of_webhook = "a.webhook = ?1 AND a.id < ?2";
    match (&query.event, query.order, query.state) {
        (Some(event), _, _) => {
            let filter = format!("{of_webhook} AND a.event = ?4 AND a.state LIKE ?5");
            let values = params![webhook, before, query.limit, event, any_state];
            page(conn, &filter, values)
        }
        (None, Some(order), _) => {
            let filter =
                format!("{of_webhook} AND a.campaign = ?4 AND a.number = ?5 AND a.state LIKE ?6");
            let campaign = order.campaign.to_string();
            let values = params![
                webhook,
                before,
                query.limit,
                campaign,
                order.number,
                any_state
            ];
            page(conn, &filter, values)
        }
        (None, None, Some(state)) => {
            let filter = format!("{of_webhook} AND a.state = ?4");
            page(
                conn,
                &filter,
                params![webhook, before, query.limit, state.name()],
            )
        }
        (None, None, None) => page(conn, of_webhook, params![webhook, before, query.limit]),
    }
}

/// Attempts that satisfy a filter. The third value is their maximum number.
fn page(
    conn: &Connection,
    filter: &str,
    values: impl Params,
) -> Result<Vec<DeliveryAttempt>, DataFileError> {
    let sql = format!(
        "SELECT a.id, a.place, a.event, a.kind, a.campaign, a.number, a.at, a.duration_ms, a.attempt, a.status, \
         a.body, a.error, a.state, a.next_at FROM webhook_attempts a WHERE {filter} ORDER BY a.id DESC LIMIT ?3"
    );
    let mut read = conn.prepare_cached(&sql)?;
    let rows = read.query_map(values, |row| AttemptColumns::try_from(row))?;
    rows.map(|row| Ok(DeliveryAttempt::from_columns(row?)?))
        .collect()
}

/// Deletes attempts that were made before a time.
pub(crate) fn forget_attempts(
    conn: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, DataFileError> {
    let sql = "DELETE FROM webhook_attempts \
               WHERE id IN (SELECT a.id FROM webhook_attempts a WHERE a.id < ?1 ORDER BY a.id LIMIT ?2)";
    let mut forget = conn.prepare_cached(sql)?;
    Ok(forget.execute(params![first_id_at(before).to_string(), limit])? as u64)
}

/// Makes events wait for a delivery at once, and enables the endpoint. Returns their number. If there are none, nothing
/// changes.
pub(crate) fn redeliver(
    conn: &Connection,
    id: Uuid,
    what: &Redelivery,
    by: Option<&Action>,
) -> Result<Option<u64>, DataFileError> {
    let mut find = conn.prepare_cached("SELECT 1 FROM webhooks WHERE id = ?1")?;
    if !find.exists([id.to_string()])? {
        return Ok(None);
    }
    if let Some(action) = by
        && actions::is_there(conn, action.id)?
    {
        return Ok(Some(0));
    }
    let waiting = retries(conn, id)?.len() as u64;
    let room = WAITING_EVENTS_MAX.saturating_sub(waiting);
    let webhook = id.to_string();
    let places = match what {
        Redelivery::Event(event) => {
            let sql = "SELECT a.place FROM webhook_attempts a JOIN webhook_events e ON e.place = a.place \
                       WHERE a.event = ?1 AND a.webhook = ?2 ORDER BY a.id DESC LIMIT 1";
            places(conn, sql, params![event, webhook])?
        }
        Redelivery::GivenUp(since) => {
            let sql = "SELECT DISTINCT a.place \
                       FROM webhook_attempts a JOIN webhook_events e ON e.place = a.place \
                       WHERE a.webhook = ?1 AND a.state = 'given_up' AND a.id >= ?2 AND NOT EXISTS ( \
                       SELECT 1 FROM webhook_attempts b WHERE b.event = a.event AND b.webhook = a.webhook \
                       AND b.at >= a.at AND b.state = 'delivered') \
                       AND NOT EXISTS (SELECT 1 FROM webhook_retries r \
                       WHERE r.webhook = a.webhook AND r.place = a.place) ORDER BY a.place LIMIT ?3";
            let since = first_id_at(*since).to_string();
            places(conn, sql, params![webhook, since, room as i64])?
        }
    };
    if places.is_empty() {
        return Ok(Some(0));
    }
    enable(conn, id)?;
    retry_at_once(conn, id)?;
    let sql = "DELETE FROM webhook_retries WHERE webhook = ?1 AND place = ?2";
    let mut drop_retry = conn.prepare_cached(sql)?;
    for place in &places {
        drop_retry.execute(params![webhook, place])?;
    }
    let all = places.iter().map(|place| RetryState::at_once(*place));
    let all: Vec<_> = all.collect();
    let rows = all.iter().map(|retry| retry.columns(&webhook));
    execute_rows(conn, ENTER_RETRY, rows)?;
    actions::enter_if(conn, true, by)?;
    Ok(Some(places.len() as u64))
}

fn places(conn: &Connection, sql: &str, values: impl Params) -> Result<Vec<i64>, DataFileError> {
    let mut read = conn.prepare_cached(sql)?;
    let rows = read.query_map(values, |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
