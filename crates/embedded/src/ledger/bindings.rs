//! The engine that the ledger belongs to.

use qiang_core::ports::EngineBinding;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::DataFileError;

/// The engine that the ledger belongs to; `None` if it has no engine yet.
pub(crate) fn find(conn: &Connection) -> Result<Option<EngineBinding>, DataFileError> {
    let mut statement =
        conn.prepare_cached("SELECT installation, engine, location, beats FROM engine")?;
    let found = statement.query_row([], |row| {
        Ok(EngineBinding {
            installation: row.get(0)?,
            engine: row.get(1)?,
            location: row.get(2)?,
            beats: row.get::<_, i64>(3)?.unsigned_abs(),
        })
    });
    Ok(found.optional()?)
}

/// Binds the ledger to an engine if its current engine is `from`. Returns the engine after that.
pub(crate) fn bind(
    conn: &Connection,
    from: &str,
    to: &EngineBinding,
) -> Result<EngineBinding, DataFileError> {
    if from.is_empty() {
        conn.prepare_cached(
            "INSERT OR IGNORE INTO engine (id, installation, engine, location, beats) \
             VALUES (1, ?1, ?2, ?3, 0)",
        )?
        .execute(params![to.installation, to.engine, to.location])?;
    } else {
        conn.prepare_cached(
            "UPDATE engine SET engine = ?1, location = ?2, beats = beats + 1 WHERE engine = ?3",
        )?
        .execute(params![to.engine, to.location, from])?;
    }
    find(conn)?.ok_or_else(|| DataFileError::damaged("the row of the engine is gone"))
}

/// Increments the heartbeat of an engine. Returns false if the ledger belongs to another engine.
pub(crate) fn beat(conn: &Connection, engine: &str) -> Result<bool, DataFileError> {
    let mut statement =
        conn.prepare_cached("UPDATE engine SET beats = beats + 1 WHERE engine = ?1")?;
    Ok(statement.execute([engine])? > 0)
}
