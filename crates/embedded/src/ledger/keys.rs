//! Idempotency keys and their bindings.

use qiang_core::{
    book::Setup,
    id::{PaymentRef, UserId},
    metadata::MetadataSubject,
    money::Money,
    ports::{
        Action, Creation, KeyBinding, KeyState, KeyUse, LedgerError, first_id_at, same_deposit,
        setup_under,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{accounts, campaign_insert::CampaignInsert, metadata, waiting_rooms};
use crate::{error::DataFileError, transaction::ChangeIsolation};

/// Binds a key to `id`, or returns its earlier binding. Refuses a known key with another fingerprint.
pub(crate) fn bind(
    conn: &Connection,
    now: Timestamp,
    used: &KeyUse,
    id: Uuid,
) -> Result<KeyBinding, DataFileError> {
    let (binding, ()) = bind_with((conn, now), used, id, |_| Ok(()))?;
    Ok(binding)
}

/// Runs a change and binds its key. If the change is refused, nothing is written.
pub(crate) fn bind_with<T>(
    (conn, now): (&Connection, Timestamp),
    used: &KeyUse,
    id: Uuid,
    change: impl FnOnce(KeyBinding) -> Result<T, DataFileError>,
) -> Result<(KeyBinding, T), DataFileError> {
    let bound = bound(conn, used)?;
    let binding = KeyBinding {
        id: bound.unwrap_or(id),
        fresh: bound.is_none(),
    };
    let changed = change(binding)?;
    if binding.fresh {
        let mut insert = conn.prepare_cached(
            "INSERT INTO idempotency_keys (scope, key, fingerprint, id, at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let (scope, key) = (&used.scope, used.key.as_str());
        let (text, at) = (id.to_string(), now.as_millis());
        insert.execute(params![scope, key, used.fingerprint, text, at])?;
    }
    Ok((binding, changed))
}

/// Id to which a key is bound, if any. Refuses another fingerprint.
pub(crate) fn bound(conn: &Connection, used: &KeyUse) -> Result<Option<Uuid>, DataFileError> {
    let mut select = conn.prepare_cached(
        "SELECT fingerprint, id FROM idempotency_keys WHERE scope = ?1 AND key = ?2",
    )?;
    let found = select.query_row(params![used.scope, used.key.as_str()], |row| {
        <(Vec<u8>, String)>::try_from(row)
    });
    let bound = found
        .optional()?
        .map(|(fingerprint, id)| used.bound_to(&fingerprint, &id));
    bound.transpose().map_err(DataFileError::Refused)
}

/// Makes a deposit under its payment reference and its optional key, or returns the earlier deposit of either.
pub(crate) fn deposit_named(
    (conn, now): (&Connection, Timestamp),
    used: Option<&KeyUse>,
    id: Uuid,
    to: (&UserId, Money),
    reference: &PaymentRef,
    by: Option<&Action>,
) -> Result<KeyBinding, DataFileError> {
    let before = match used {
        Some(used) => bound(conn, used)?,
        None => None,
    };
    let named = accounts::deposit_named(conn, reference)?;
    let named = named.map(|columns| same_deposit(to, columns));
    if let Some(id) = before.or(named.transpose().map_err(DataFileError::Refused)?) {
        return Ok(KeyBinding { id, fresh: false });
    }
    accounts::deposit(conn, now, id, to, by)?;
    accounts::name_deposit(conn, id, reference)?;
    match used {
        Some(used) => bind(conn, now, used, id),
        None => Ok(KeyBinding { id, fresh: true }),
    }
}

/// Binds the key of a command, or returns its state if it was bound earlier.
pub(crate) fn begin(
    conn: &Connection,
    now: Timestamp,
    used: &KeyUse,
    id: Uuid,
) -> Result<KeyState, DataFileError> {
    let bound = bind(conn, now, used, id)?;
    if bound.fresh {
        return Ok(KeyState::Fresh);
    }
    let mut select =
        conn.prepare_cached("SELECT answer FROM idempotency_keys WHERE scope = ?1 AND key = ?2")?;
    let answer = select.query_row(params![used.scope, used.key.as_str()], |row| row.get(0))?;
    let pending = KeyState::Pending(bound.id);
    Ok(Option::map_or(answer, pending, KeyState::Answered))
}

/// Stores the answer to a command with its key. The first answer stays.
pub(crate) fn answer(
    conn: &Connection,
    now: Timestamp,
    used: &KeyUse,
    id: Uuid,
    answer: &str,
) -> Result<(), DataFileError> {
    bind(conn, now, used, id)?;
    conn.prepare_cached(
        "UPDATE idempotency_keys SET answer = ?3 WHERE scope = ?1 AND key = ?2 AND answer IS NULL",
    )?
    .execute(params![used.scope, used.key.as_str(), answer])?;
    Ok(())
}

/// Binds a key without an answer to another id. Returns whether it was bound to `from`.
pub(crate) fn rebind(
    conn: &Connection,
    used: &KeyUse,
    from: Uuid,
    to: Uuid,
) -> Result<bool, DataFileError> {
    let mut update = conn.prepare_cached(
        "UPDATE idempotency_keys SET id = ?4 WHERE scope = ?1 AND key = ?2 AND id = ?3 AND answer IS NULL",
    )?;
    let (key, from, to) = (used.key.as_str(), from.to_string(), to.to_string());
    Ok(update.execute(params![used.scope, key, from, to])? > 0)
}

/// Unbinds a key from an id, unless it has an answer.
pub(crate) fn release(conn: &Connection, used: &KeyUse, id: Uuid) -> Result<(), DataFileError> {
    conn.prepare_cached(
        "DELETE FROM idempotency_keys WHERE scope = ?1 AND key = ?2 AND id = ?3 AND answer IS NULL",
    )?
    .execute(params![used.scope, used.key.as_str(), id.to_string()])?;
    Ok(())
}

/// Enters a campaign under its key; a refusal undoes only this campaign. If the campaign opens, it is added to `opens`.
/// `reserved` is the `ref` of a red packet whose shares were written earlier.
pub(crate) fn create(
    entering: &mut CampaignInsert<'_>,
    apart: &mut ChangeIsolation,
    campaign: &Creation,
    reserved: Option<i64>,
    opens: &mut Vec<Setup>,
) -> Result<Result<KeyBinding, LedgerError>, DataFileError> {
    let (begun, opened) = (apart.begin(entering.conn())?, opens.len());
    let created = match create_under(entering, campaign, reserved, opens) {
        Ok(binding) => {
            entering.goes_on();
            Ok(binding)
        }
        Err(error) if error.is_io() => return Err(error),
        Err(error) => {
            entering.is_undone();
            opens.truncate(opened);
            Err(LedgerError::from(error))
        }
    };
    apart.end(entering.conn(), begun, created.is_err())?;
    Ok(created)
}

fn create_under(
    entering: &mut CampaignInsert<'_>,
    campaign: &Creation,
    reserved: Option<i64>,
    opens: &mut Vec<Setup>,
) -> Result<KeyBinding, DataFileError> {
    let (conn, now) = (entering.conn(), entering.now());
    let id = campaign.setup.campaign.id.uuid();
    let mut enter = |binding: KeyBinding| {
        let setup = setup_under(&campaign.setup, binding).map_err(DataFileError::Refused)?;
        let is_new = entering.enter(&setup, campaign, reserved)?;
        if binding.fresh && !is_new {
            return Err(DataFileError::Refused(LedgerError::IdUsed));
        }
        if is_new && campaign.waiting_room {
            waiting_rooms::add(conn, setup.campaign.id)?;
        }
        if is_new && !campaign.metadata.is_empty() {
            let subject = MetadataSubject::Campaign(setup.campaign.id);
            metadata::add(conn, subject, &setup.campaign.owner, &campaign.metadata)?;
        }
        if is_new && campaign.opens {
            opens.push(setup);
        }
        Ok(())
    };
    let (binding, ()) = match &campaign.used {
        Some(used) => bind_with((conn, now), used, id, &mut enter)?,
        None => {
            let binding = KeyBinding { id, fresh: true };
            (binding, enter(binding)?)
        }
    };
    Ok(binding)
}

/// Deletes up to `limit` keys bound before an instant, except payment references. Returns the number deleted.
pub(crate) fn purge(
    conn: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, DataFileError> {
    let mut delete = conn.prepare_cached(
        "DELETE FROM idempotency_keys WHERE (scope, key) IN (SELECT scope, key FROM idempotency_keys \
         WHERE scope <> 'payment' AND at < ?1 ORDER BY at LIMIT ?2)",
    )?;
    let purged = delete.execute(params![before.as_millis(), limit])? as u64;
    if purged < u64::from(limit) {
        let mut delete = conn.prepare_cached(
            "DELETE FROM made_changes WHERE id IN (SELECT id FROM made_changes WHERE id < ?1 ORDER BY id LIMIT ?2)",
        )?;
        delete.execute(params![first_id_at(before).to_string(), limit])?;
    }
    Ok(purged)
}

/// Whether the change whose key was bound to this id was carried out.
pub(crate) fn is_change_made(conn: &Connection, id: Uuid) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM made_changes WHERE id = ?1")?;
    Ok(statement.exists([id.to_string()])?)
}
