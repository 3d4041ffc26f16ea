//! What idempotency keys stand for.

use qiang_core::{
    id::IdempotencyKey,
    ports::{KeyBinding, LedgerError},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    dialect::Dialect,
    error::{StoreError, raced},
};

/// Binds a key to `id`, or returns what it was bound to; refuses the same key with another fingerprint.
pub(crate) async fn bind<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    scope: &str,
    key: &IdempotencyKey,
    fingerprint: &[u8; 32],
    id: Uuid,
) -> Result<KeyBinding, StoreError> {
    let key = key.as_str();
    match D::bound(conn, scope, key).await? {
        Some((before, _)) if before != fingerprint => Err(LedgerError::KeyReused.into()),
        Some((_, bound)) => {
            let id = Uuid::parse_str(&bound)
                .map_err(|_| StoreError::damaged("an idempotency key's id is bad"))?;
            Ok(KeyBinding { id, fresh: false })
        }
        None => {
            let (name, at) = (id.to_string(), now.as_millis());
            raced(D::bind(conn, scope, key, fingerprint, &name, at).await)?;
            Ok(KeyBinding { id, fresh: true })
        }
    }
}
