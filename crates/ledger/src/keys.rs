//! What idempotency keys stand for.

use qiang_core::{
    id::IdempotencyKey,
    ports::{KeyBinding, LedgerError},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    dialect::{Dialect, Statement, fetch_one, sql},
    error::{StoreError, raced},
};

const BIND: Statement = sql!(both include_str!("sql/bind.sql"));
const BOUND: Statement =
    sql!(both r#"SELECT fingerprint, id FROM idempotency_keys WHERE scope = $1 AND "key" = $2"#);

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
    let bound: Option<(Vec<u8>, String)> =
        fetch_one::<D, _>(conn, &BOUND, &[scope.into(), key.into()]).await?;
    match bound {
        Some((before, _)) if before != fingerprint => Err(LedgerError::KeyReused.into()),
        Some((_, bound)) => {
            let id = Uuid::parse_str(&bound)
                .map_err(|_| StoreError::damaged("an idempotency key's id is bad"))?;
            Ok(KeyBinding { id, fresh: false })
        }
        None => {
            let name = id.to_string();
            let values = [
                scope.into(),
                key.into(),
                fingerprint.as_slice().into(),
                name.as_str().into(),
                now.as_millis().into(),
            ];
            raced(D::execute(conn, &BIND, &values).await)?;
            Ok(KeyBinding { id, fresh: true })
        }
    }
}
