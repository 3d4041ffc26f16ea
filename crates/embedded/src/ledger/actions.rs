//! Operation log: actions of operators and callers.

use qiang_core::{
    ports::Action,
    rows::{ActionColumns, action_of},
};
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::error::DataFileError;

/// Whether an action is recorded.
pub(crate) fn is_there(conn: &Connection, id: Uuid) -> Result<bool, DataFileError> {
    let mut find = conn.prepare_cached("SELECT 1 FROM actions WHERE id = ?1")?;
    Ok(find.exists([id.to_string()])?)
}

/// Records an action if `is_changed`. Returns `is_changed`.
pub(crate) fn enter_if(
    conn: &Connection,
    is_changed: bool,
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    if let Some(action) = by.filter(|_| is_changed) {
        enter(conn, action)?;
    }
    Ok(is_changed)
}

/// Records an action.
pub(crate) fn enter(conn: &Connection, action: &Action) -> Result<(), DataFileError> {
    conn.prepare_cached(
        "INSERT INTO actions (id, at, actor, kind, subject, request_id, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        action.id.to_string(),
        action.at.as_millis(),
        action.actor.as_str(),
        action.kind.name(),
        action.subject,
        action.request_id,
        action.detail,
    ])?;
    Ok(())
}

/// Deletes the record of an action that was not carried out.
pub(crate) fn strike(conn: &Connection, id: Uuid) -> Result<(), DataFileError> {
    conn.prepare_cached("DELETE FROM actions WHERE id = ?1")?
        .execute([id.to_string()])?;
    Ok(())
}

/// One page of the actions on a subject.
pub(crate) fn list(
    conn: &Connection,
    subject: &str,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<Action>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT id, at, actor, kind, subject, request_id, detail FROM actions \
         WHERE subject = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let after = after.map_or_else(String::new, |after| after.to_string());
    let rows = statement.query_map(params![subject, after, limit], |row| {
        let columns: ActionColumns = (
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
            row.get(5)?,
            row.get(6)?,
        );
        Ok(columns)
    })?;
    rows.map(|row| Ok(action_of(row?)?)).collect()
}
