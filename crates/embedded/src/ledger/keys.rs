//! What idempotency keys stand for.

use qiang_core::{
    book::Setup,
    ports::{Creation, KeyBinding, KeyUse, LedgerError, setup_under},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{campaigns, waiting_rooms};
use crate::{error::StoreError, job::Apart};

/// Binds a key to `id`, or returns what it was bound to; refuses the same key with another fingerprint.
pub(crate) fn bind(
    conn: &Connection,
    now: Timestamp,
    used: &KeyUse,
    id: Uuid,
) -> Result<KeyBinding, StoreError> {
    if let Some(id) = bound(conn, used)? {
        return Ok(KeyBinding { id, fresh: false });
    }
    put(conn, now, used, id)?;
    Ok(KeyBinding { id, fresh: true })
}

/// Binds a key that is bound to nothing.
fn put(conn: &Connection, now: Timestamp, used: &KeyUse, id: Uuid) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO idempotency_keys (scope, key, fingerprint, id, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let (scope, key) = (&used.scope, used.key.as_str());
    let (text, at) = (id.to_string(), now.as_millis());
    insert.execute(params![scope, key, used.fingerprint, text, at])?;
    Ok(())
}

/// What a key is bound to, if it is; refuses it with another fingerprint.
pub(crate) fn bound(conn: &Connection, used: &KeyUse) -> Result<Option<Uuid>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT fingerprint, id FROM idempotency_keys WHERE scope = ?1 AND key = ?2",
    )?;
    let found = select.query_row(params![used.scope, used.key.as_str()], |row| {
        <(Vec<u8>, String)>::try_from(row)
    });
    let bound = found
        .optional()?
        .map(|(fingerprint, id)| used.bound_to(&fingerprint, &id));
    bound.transpose().map_err(StoreError::Refused)
}

/// Enters a campaign under its key; where it is refused, it is undone alone. If it is to be opened it is added to
/// `opens`. A packet whose shares were written before has a `ref` reserved.
pub(crate) fn create(
    (conn, now): (&Connection, Timestamp),
    apart: &mut Apart,
    campaign: &Creation,
    reserved: Option<i64>,
    opens: &mut Vec<Setup>,
) -> Result<Result<KeyBinding, LedgerError>, StoreError> {
    let begun = apart.begin(conn)?;
    let created = match create_under(conn, now, campaign, reserved, opens) {
        Ok(binding) => Ok(binding),
        Err(error) if error.is_io() => return Err(error),
        Err(error) => Err(LedgerError::from(error)),
    };
    apart.end(conn, begun, created.is_err())?;
    Ok(created)
}

/// Changes nothing before everything was looked at for which a sender may be refused.
fn create_under(
    conn: &Connection,
    now: Timestamp,
    campaign: &Creation,
    reserved: Option<i64>,
    opens: &mut Vec<Setup>,
) -> Result<KeyBinding, StoreError> {
    let own = campaign.setup.campaign.id.uuid();
    let used = campaign.used.as_ref();
    let bound = used.map(|used| bound(conn, used)).transpose()?.flatten();
    let binding = KeyBinding {
        id: bound.unwrap_or(own),
        fresh: bound.is_none(),
    };
    let setup = setup_under(&campaign.setup, binding).map_err(StoreError::Refused)?;
    let entered = (&setup, &campaign.details);
    let (audience, by) = (campaign.audience.as_deref(), campaign.by.as_ref());
    let is_new = campaigns::create(conn, now, entered, audience, by, reserved)?;
    if binding.fresh && !is_new {
        return Err(StoreError::Refused(LedgerError::IdUsed));
    }
    if let Some(used) = used.filter(|_| binding.fresh) {
        put(conn, now, used, own)?;
    }
    if is_new && campaign.waiting_room {
        waiting_rooms::add(conn, setup.campaign.id)?;
    }
    if is_new && campaign.opens {
        opens.push(setup);
    }
    Ok(binding)
}

/// Forgets keys that were bound before an instant, but for references of payments; returns how many.
pub(crate) fn purge(conn: &Connection, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let mut delete = conn.prepare_cached(
        "DELETE FROM idempotency_keys WHERE (scope, key) IN (SELECT scope, key FROM idempotency_keys \
         WHERE scope <> 'payment' AND at < ?1 ORDER BY at LIMIT ?2)",
    )?;
    Ok(delete.execute(params![before.as_millis(), limit])? as u64)
}
