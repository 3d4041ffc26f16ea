//! What idempotency keys stand for.

use qiang_core::{
    id::IdempotencyKey,
    ports::{KeyBinding, LedgerError},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use crate::error::StoreError;

/// Binds a key to `id`, or returns what it was bound to; refuses the same key with another fingerprint.
pub(crate) fn bind(
    conn: &Connection,
    now: Timestamp,
    scope: &str,
    key: &IdempotencyKey,
    fingerprint: &[u8; 32],
    id: Uuid,
) -> Result<KeyBinding, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT fingerprint, id FROM idempotency_keys WHERE scope = ?1 AND key = ?2",
    )?;
    let found: Option<(Vec<u8>, String)> = select
        .query_row(params![scope, key.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    match found {
        Some((before, _)) if before != fingerprint => {
            Err(StoreError::Refused(LedgerError::KeyReused))
        }
        Some((_, bound)) => {
            let id = Uuid::parse_str(&bound)
                .map_err(|_| StoreError::damaged("an idempotency key's id is bad"))?;
            Ok(KeyBinding { id, fresh: false })
        }
        None => {
            let mut insert = conn.prepare_cached(
                "INSERT INTO idempotency_keys (scope, key, fingerprint, id, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?;
            let (text, at) = (id.to_string(), now.as_millis());
            insert.execute(params![scope, key.as_str(), fingerprint, text, at])?;
            Ok(KeyBinding { id, fresh: true })
        }
    }
}
