//! Operation log: actions of operators and callers.

use qiang_core::{
    id::PaymentRef,
    ports::{Action, ActionQuery},
    rows::{ActionColumns, action_of},
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};
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
    let rows = statement.query_map(params![subject, after, limit], columns)?;
    rows.map(|row| Ok(action_of(row?)?)).collect()
}

fn columns(row: &Row<'_>) -> rusqlite::Result<ActionColumns> {
    Ok((
        row.get(0)?,
        row.get(1)?,
        row.get(2)?,
        row.get(3)?,
        row.get(4)?,
        row.get(5)?,
        row.get(6)?,
    ))
}

/// Records a refused report of a payment.
pub(crate) fn enter_refusal(
    conn: &Connection,
    action: &Action,
    payment: &PaymentRef,
) -> Result<(), DataFileError> {
    enter(conn, action)?;
    conn.prepare_cached("INSERT INTO payment_refusals (action, reference) VALUES (?1, ?2)")?
        .execute(params![action.id.to_string(), payment.as_str()])?;
    Ok(())
}

/// The newest refused report of a payment, if there is one.
pub(crate) fn refusal(
    conn: &Connection,
    payment: &PaymentRef,
) -> Result<Option<Action>, DataFileError> {
    let mut find = conn.prepare_cached(
        "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail \
         FROM payment_refusals r JOIN actions a ON a.id = r.action \
         WHERE r.reference = ?1 ORDER BY r.action DESC LIMIT 1",
    )?;
    let found = find.query_row([payment.as_str()], columns).optional()?;
    Ok(found.map(action_of).transpose()?)
}

/// One page of the actions on all subjects.
pub(crate) fn log(conn: &Connection, query: &ActionQuery) -> Result<Vec<Action>, DataFileError> {
    let (first, last) = query.bounds();
    let order = if query.newest_first { "DESC" } else { "ASC" };
    let (from, id) = match query.is_refused {
        true => (
            "payment_refusals r JOIN actions a ON a.id = r.action",
            "r.action",
        ),
        false => ("actions a", "a.id"),
    };
    let select = "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail";
    let within = format!("{id} > ?1 AND {id} < ?2");
    let end = format!("ORDER BY {id} {order} LIMIT ?3");
    match query.kind {
        Some(kind) => {
            let text = format!("{select} FROM {from} WHERE {within} AND a.kind = ?4 {end}");
            read(conn, &text, params![first, last, query.limit, kind.name()])
        }
        None => {
            let text = format!("{select} FROM {from} WHERE {within} {end}");
            read(conn, &text, params![first, last, query.limit])
        }
    }
}

fn read(conn: &Connection, text: &str, values: impl Params) -> Result<Vec<Action>, DataFileError> {
    let mut statement = conn.prepare_cached(text)?;
    let rows = statement.query_map(values, columns)?;
    rows.map(|row| Ok(action_of(row?)?)).collect()
}
