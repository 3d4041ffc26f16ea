//! Webhook endpoints, and the webhook events that settlement and payouts record.

use qiang_core::{
    event::{Entry, Event, PartitionId},
    id::{CampaignId, UserId},
    ports::Action,
    rows::{BacklogColumns, ConditionColumns, EventRow, WebhookColumns, WebhookEventColumns},
    time::Timestamp,
    webhook::{Webhook, WebhookChange, WebhookEvent, WebhookRecord, campaign_names, type_names},
};
use rusqlite::{Connection, Params, params};
use uuid::Uuid;

use super::{actions, bound_values::execute_rows};
use crate::error::DataFileError;

/// Statement that reads webhook events from these tables, of which `e` has the events and `c` the campaigns.
macro_rules! events_sql {
    ($from:literal) => {
        concat!(
            "SELECT e.place, e.partition, e.seq, e.kind, e.at, c.id, c.kind, c.owner, c.currency, e.number, e.user, \
             e.quantity, e.amount, e.payment, e.currency, (SELECT r.reference FROM shop_references r \
             WHERE (r.object, r.id) = (SELECT iif(e.number IS NULL OR c.kind <> 'sale', 'campaign', 'order'), \
             iif(e.number IS NULL OR c.kind <> 'sale', c.id, c.id || '-' || e.number))) FROM ",
            $from
        )
    };
}
pub(super) use events_sql;

/// Records webhook events.
pub(super) fn insert_webhook_events(
    conn: &Connection,
    told: &[EventRow<'_>],
) -> Result<(), DataFileError> {
    let mut rows = Vec::with_capacity(told.len());
    for row in told {
        if row.condition.is_none() {
            rows.push(*row);
            continue;
        }
        let sql = "SELECT phase, supply, granted, returned, refunded FROM campaigns WHERE ref = ?1";
        let mut get = conn.prepare_cached(sql)?;
        let found = get.query_row([row.campaign], |row| ConditionColumns::try_from(row))?;
        rows.extend(row.resolve(&found));
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut take = conn.prepare_cached(
        "UPDATE webhook_places SET last_place = last_place + ?1 RETURNING last_place",
    )?;
    let count = rows.len() as i64;
    let last: i64 = take.query_row([count], |row| row.get(0))?;
    let first = last - count + 1;
    let enter = "INSERT INTO webhook_events (place, partition, seq, kind, at, campaign, number, user, quantity, \
                 amount, payment, currency) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let placed = rows.iter().enumerate();
    let placed = placed.map(|(nth, row)| row.columns(first + nth as i64));
    execute_rows(conn, enter, placed)
}

/// Records webhook events of openings that are settled with their entries, if an endpoint may want them.
pub(crate) fn insert_openings(
    conn: &Connection,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<(), DataFileError> {
    let endpoints = list(conn)?;
    if endpoints.is_empty() {
        return Ok(());
    }
    let mut find = conn.prepare_cached("SELECT ref, owner FROM campaigns WHERE id = ?1")?;
    let mut rows = Vec::new();
    for entry in entries {
        if !matches!(entry.event, Event::Opened { .. }) {
            continue;
        }
        let found = find.query_row([entry.campaign.to_string()], |row| row.try_into());
        let (campaign_ref, owner): (i64, String) = found?;
        let mut filters = endpoints.iter().map(|one| &one.webhook.filter);
        if filters.any(|filter| filter.watches(entry.campaign, &owner)) {
            rows.push(EventRow::opened(partition, entry, campaign_ref));
        }
    }
    insert_webhook_events(conn, &rows)
}

/// Records a webhook event that follows from no log entry, if an endpoint may want it.
pub(super) fn insert_direct_webhook_events(
    conn: &Connection,
    campaign: CampaignId,
    row: EventRow<'_>,
) -> Result<(), DataFileError> {
    let endpoints = list(conn)?;
    if endpoints.is_empty() {
        return Ok(());
    }
    let mut owner = conn.prepare_cached("SELECT owner FROM campaigns WHERE ref = ?1")?;
    let owner: String = owner.query_row([row.campaign], |row| row.get(0))?;
    let mut filters = endpoints.iter().map(|one| &one.webhook.filter);
    match filters.any(|filter| filter.watches(campaign, &owner)) {
        true => insert_webhook_events(conn, &[row]),
        false => Ok(()),
    }
}

/// Adds an endpoint once. Returns false if the maximum is reached.
pub(crate) fn add(
    conn: &Connection,
    webhook: &Webhook,
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    let there = list(conn)?;
    if there.iter().any(|one| one.webhook.id == webhook.id) {
        return Ok(true);
    }
    if !WebhookRecord::has_room(&there, webhook.managed_by.as_ref()) {
        return Ok(false);
    }
    let filter = &webhook.filter;
    let sql = "INSERT INTO webhooks (id, url, secret, types, campaigns, owner, managed_by, created_at, place) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT last_place FROM webhook_places))";
    let values = params![
        webhook.id.to_string(),
        webhook.url,
        webhook.secret,
        filter.type_names(),
        filter.campaign_names(),
        filter.owner.as_ref().map(UserId::as_str),
        webhook.managed_by.as_ref().map(UserId::as_str),
        webhook.created_at.as_millis(),
    ];
    let added = touch(conn, sql, values)?;
    actions::enter_if(conn, added, by)
}

/// All endpoints.
pub(crate) fn list(conn: &Connection) -> Result<Vec<WebhookRecord>, DataFileError> {
    records(conn, "ORDER BY w.id", [])
}

/// Endpoints that this clause selects, with their backlogs.
fn records(
    conn: &Connection,
    which: &str,
    values: impl Params + Copy,
) -> Result<Vec<WebhookRecord>, DataFileError> {
    let mut list = conn.prepare_cached(&format!(
        "SELECT id, url, secret, previous_secret, previous_until, types, campaigns, owner, created_at, place, \
         failing_since, attempts, retry_at, last_error, disabled_at, (SELECT last_place FROM webhook_places) \
         FROM webhooks w {which}"
    ))?;
    let rows = list.query_map(values, |row| WebhookColumns::try_from(row))?;
    let records = rows.map(|row| Ok(WebhookRecord::from_columns(row?)?));
    let records = records.collect::<Result<Vec<_>, DataFileError>>()?;
    let mut backlogs = conn.prepare_cached(&format!(
        "SELECT w.id, w.managed_by, (SELECT count(*) FROM webhook_retries r WHERE r.webhook = w.id), \
         (SELECT min(r.retry_at) FROM webhook_retries r WHERE r.webhook = w.id) FROM webhooks w {which}"
    ))?;
    let backlogs = backlogs.query_map(values, |row| BacklogColumns::try_from(row))?;
    let backlogs = backlogs.collect::<Result<_, _>>()?;
    Ok(WebhookRecord::with_backlogs(records, backlogs)?)
}

pub(super) fn touch(
    conn: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<bool, DataFileError> {
    Ok(conn.prepare_cached(sql)?.execute(values)? > 0)
}

/// Replaces the secret of an endpoint, once per action.
pub(crate) fn rotate(
    conn: &Connection,
    id: Uuid,
    (secret, previous_until): (&str, Timestamp),
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    if let Some(action) = by
        && actions::is_there(conn, action.id)?
    {
        return Ok(true);
    }
    let sql = "UPDATE webhooks SET previous_secret = secret, previous_until = ?1, secret = ?2 WHERE id = ?3";
    let until = previous_until.as_millis();
    let rotated = touch(conn, sql, params![until, secret, id.to_string()])?;
    actions::enter_if(conn, rotated, by)
}

/// Changes an endpoint, once per action.
pub(crate) fn change(
    conn: &Connection,
    id: Uuid,
    (change, at): (&WebhookChange, Timestamp),
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    if let Some(action) = by
        && actions::is_there(conn, action.id)?
    {
        return Ok(true);
    }
    let sql = "UPDATE webhooks SET url = coalesce(?1, url), types = coalesce(?2, types), \
               campaigns = coalesce(?3, campaigns), owner = iif(?4, ?5, owner), \
               disabled_at = iif(?6, coalesce(disabled_at, ?7), disabled_at), holder = NULL, held_until = NULL \
               WHERE id = ?8";
    let owner = change.owner.as_ref().and_then(Option::as_ref);
    let values = params![
        change.url,
        change.types.as_deref().map(type_names),
        change.campaigns.as_deref().map(campaign_names),
        change.owner.is_some(),
        owner.map(UserId::as_str),
        change.is_enabled == Some(false),
        at.as_millis(),
        id.to_string(),
    ];
    let changed = touch(conn, sql, values)?;
    if change.is_enabled == Some(true) {
        enable(conn, id)?;
    }
    if change.is_enabled == Some(true) || change.url.is_some() {
        retry_at_once(conn, id)?;
        let sql = "UPDATE webhooks SET retry_at = NULL WHERE id = ?1";
        touch(conn, sql, [id.to_string()])?;
    }
    actions::enter_if(conn, changed, by)
}

/// Makes the waiting events of an endpoint due, as if they had not failed yet.
pub(super) fn retry_at_once(conn: &Connection, id: Uuid) -> Result<(), DataFileError> {
    let sql = "UPDATE webhook_retries SET attempts = 0, failing_since = NULL, retry_at = 0 \
               WHERE webhook = ?1 AND retry_at IS NOT NULL";
    touch(conn, sql, [id.to_string()])?;
    Ok(())
}

/// Deletes an endpoint.
pub(crate) fn delete(
    conn: &Connection,
    id: Uuid,
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    let deleted = touch(conn, "DELETE FROM webhooks WHERE id = ?1", [id.to_string()])?;
    let sql = "DELETE FROM webhook_retries WHERE webhook = ?1";
    touch(conn, sql, [id.to_string()])?;
    actions::enter_if(conn, deleted, by)
}

/// Enables an endpoint again, and makes its waiting events due, once per action. With `since`, it receives the events
/// decided from then on once more.
pub(crate) fn redrive(
    conn: &Connection,
    id: Uuid,
    since: Option<Timestamp>,
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    if let Some(action) = by
        && actions::is_there(conn, action.id)?
    {
        return Ok(true);
    }
    retry_at_once(conn, id)?;
    if let Some(since) = since {
        let sql = "UPDATE webhooks SET place = min(place, coalesce( \
                   (SELECT min(e.place) - 1 FROM webhook_events e WHERE e.at >= ?1), place)) WHERE id = ?2";
        touch(conn, sql, params![since.as_millis(), id.to_string()])?;
        let sql = "DELETE FROM webhook_retries \
                   WHERE webhook = ?1 AND place > (SELECT w.place FROM webhooks w WHERE w.id = ?1)";
        touch(conn, sql, [id.to_string()])?;
    }
    let redriven = enable(conn, id)?;
    actions::enter_if(conn, redriven, by)
}

/// Enables an endpoint, and ends its lease. Returns whether there is one.
pub(super) fn enable(conn: &Connection, id: Uuid) -> Result<bool, DataFileError> {
    let sql = "UPDATE webhooks SET failing_since = NULL, attempts = 0, retry_at = NULL, last_error = NULL, \
               disabled_at = NULL, holder = NULL, held_until = NULL WHERE id = ?1";
    touch(conn, sql, [id.to_string()])
}

/// Leases an endpoint to a holder. One process has the file, so no other holder can have the lease.
pub(crate) fn lease(
    conn: &Connection,
    (id, holder): (Uuid, Uuid),
    until: Timestamp,
) -> Result<Option<WebhookRecord>, DataFileError> {
    let sql =
        "UPDATE webhooks SET holder = ?1, held_until = ?2 WHERE id = ?3 AND disabled_at IS NULL";
    let values = params![holder.to_string(), until.as_millis(), id.to_string()];
    if !touch(conn, sql, values)? {
        return Ok(None);
    }
    // The writer does this for each endpoint that is due, so it reads no other.
    let mut found = records(conn, "WHERE w.id = ?1", [&id.to_string()])?;
    Ok(found.pop())
}

/// Events after a position.
pub(crate) fn events(
    conn: &Connection,
    after: i64,
    limit: u32,
) -> Result<Vec<WebhookEvent>, DataFileError> {
    let sql = events_sql!(
        "webhook_events e JOIN campaigns c ON c.ref = e.campaign \
         WHERE e.place > ?1 ORDER BY e.place LIMIT ?2"
    );
    read_events(conn, sql, params![after, limit])
}

/// Reads events by a statement of [`events_sql`].
pub(super) fn read_events(
    conn: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<WebhookEvent>, DataFileError> {
    let mut read = conn.prepare_cached(sql)?;
    let rows = read.query_map(values, |row| WebhookEventColumns::try_from(row))?;
    rows.map(|row| Ok(WebhookEvent::from_columns(row?)?))
        .collect()
}

/// Deletes events that were decided before an instant and delivered to every enabled endpoint.
pub(crate) fn forget(
    conn: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, DataFileError> {
    let sql = "DELETE FROM webhook_events WHERE at < ?1 \
               AND place < ?2 + (SELECT min(e.place) FROM webhook_events e) AND place <= coalesce( \
               (SELECT min(w.place) FROM webhooks w WHERE w.disabled_at IS NULL), 9223372036854775807) \
               AND place < coalesce((SELECT min(r.place) FROM webhook_retries r JOIN webhooks w ON w.id = r.webhook \
               WHERE w.disabled_at IS NULL), 9223372036854775807)";
    let mut forget = conn.prepare_cached(sql)?;
    let forgotten = forget.execute(params![before.as_millis(), limit])? as u64;
    if forgotten > 0 {
        // Events may have waited for a disabled endpoint.
        let sql = "DELETE FROM webhook_retries \
                   WHERE NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.place = webhook_retries.place)";
        conn.prepare_cached(sql)?.execute([])?;
    }
    Ok(forgotten)
}
