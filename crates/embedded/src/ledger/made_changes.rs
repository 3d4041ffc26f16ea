//! Changes under idempotency keys that were carried out.

use rusqlite::Connection;
use uuid::Uuid;

use crate::error::DataFileError;

/// Enters changes under keys that were carried out.
pub(super) fn enter_made_changes(conn: &Connection, ids: &[Uuid]) -> Result<(), DataFileError> {
    for id in ids {
        conn.prepare_cached("INSERT OR IGNORE INTO made_changes (id) VALUES (?1)")?
            .execute([id.to_string()])?;
    }
    Ok(())
}
