//! Operation log: actions of operators and callers.

use qiang_core::{
    id::PaymentRef,
    ports::{Action, ActionKind, ActionQuery},
    rows::{ActionColumns, action_of},
};
use uuid::Uuid;

use crate::{
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::{WorkError, raced},
};

const ENTER: Statement = sql!(both "INSERT INTO actions (id, at, actor, kind, subject, request_id, detail)
    VALUES ($1, $2, $3, $4, $5, $6, $7)");
const LIST: Statement = sql!(both "SELECT id, at, actor, kind, subject, request_id, detail FROM actions
    WHERE subject = $1 AND id > $2 ORDER BY id LIMIT $3");
const LOG: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM actions a WHERE a.id > $1 AND a.id < $2 ORDER BY a.id LIMIT $3");
const LOG_NEWEST: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM actions a WHERE a.id > $1 AND a.id < $2 ORDER BY a.id DESC LIMIT $3");
const LOG_OF_KIND: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM actions a WHERE a.kind = $1 AND a.id > $2 AND a.id < $3 ORDER BY a.id LIMIT $4");
const LOG_OF_KIND_NEWEST: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM actions a WHERE a.kind = $1 AND a.id > $2 AND a.id < $3 ORDER BY a.id DESC LIMIT $4");
const REFUSALS: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM payment_refusals r JOIN actions a ON a.id = r.action
    WHERE r.action > $1 AND r.action < $2 ORDER BY r.action LIMIT $3");
const REFUSALS_NEWEST: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM payment_refusals r JOIN actions a ON a.id = r.action
    WHERE r.action > $1 AND r.action < $2 ORDER BY r.action DESC LIMIT $3");
const ENTER_REFUSAL: Statement =
    sql!(both "INSERT INTO payment_refusals (action, reference) VALUES ($1, $2)");
const REFUSAL: Statement = sql!(both "SELECT a.id, a.at, a.actor, a.kind, a.subject, a.request_id, a.detail
    FROM payment_refusals r JOIN actions a ON a.id = r.action
    WHERE r.reference = $1 ORDER BY r.action DESC LIMIT 1");

const STRIKE: Statement = sql!(both "DELETE FROM actions WHERE id = $1");
const IS_THERE: Statement = sql!(both "SELECT at FROM actions WHERE id = $1");

/// Whether an action is recorded.
pub(crate) async fn is_there<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
) -> Result<bool, WorkError> {
    let id = id.to_string();
    let found = fetch_one::<D, (i64,)>(conn, &IS_THERE, &[id.as_str().into()]).await?;
    Ok(found.is_some())
}

/// Records an action if `is_changed`. Returns `is_changed`.
pub(crate) async fn enter_if<D: Dialect>(
    conn: &mut D::Connection,
    is_changed: bool,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    if let Some(action) = by.filter(|_| is_changed) {
        enter::<D>(conn, action).await?;
    }
    Ok(is_changed)
}

/// Records an action.
pub(crate) async fn enter<D: Dialect>(
    conn: &mut D::Connection,
    action: &Action,
) -> Result<(), WorkError> {
    let id = action.id.to_string();
    let values = [
        id.as_str().into(),
        action.at.as_millis().into(),
        action.actor.as_str().into(),
        action.kind.name().into(),
        action.subject.as_str().into(),
        action.request_id.as_str().into(),
        action.detail.as_str().into(),
    ];
    raced(D::execute(conn, &ENTER, &values).await)?;
    Ok(())
}

/// Deletes the record of an action that was not carried out.
pub(crate) async fn strike<D: Dialect>(
    conn: &mut D::Connection,
    id: Uuid,
) -> Result<(), WorkError> {
    let id = id.to_string();
    D::execute(conn, &STRIKE, &[id.as_str().into()]).await?;
    Ok(())
}

/// One page of the actions on a subject.
pub(crate) async fn list<D: Dialect>(
    conn: &mut D::Connection,
    subject: &str,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<Action>, WorkError> {
    let after = after.map_or_else(String::new, |after| after.to_string());
    let values = [
        subject.into(),
        after.as_str().into(),
        i64::from(limit).into(),
    ];
    let rows: Vec<ActionColumns> = fetch::<D, _>(conn, &LIST, &values).await?;
    rows.into_iter().map(|row| Ok(action_of(row)?)).collect()
}

/// Records a refused report of a payment.
pub(crate) async fn enter_refusal<D: Dialect>(
    conn: &mut D::Connection,
    action: &Action,
    payment: &PaymentRef,
) -> Result<(), WorkError> {
    enter::<D>(conn, action).await?;
    let id = action.id.to_string();
    let values = [id.as_str().into(), payment.as_str().into()];
    raced(D::execute(conn, &ENTER_REFUSAL, &values).await)?;
    Ok(())
}

/// The newest refused report of a payment, if there is one.
pub(crate) async fn refusal<D: Dialect>(
    conn: &mut D::Connection,
    payment: &PaymentRef,
) -> Result<Option<Action>, WorkError> {
    let found = fetch_one::<D, ActionColumns>(conn, &REFUSAL, &[payment.as_str().into()]).await?;
    Ok(found.map(action_of).transpose()?)
}

/// One page of the actions on all subjects.
pub(crate) async fn log<D: Dialect>(
    conn: &mut D::Connection,
    query: &ActionQuery,
) -> Result<Vec<Action>, WorkError> {
    let (first, last) = query.bounds();
    let page = [
        first.as_str().into(),
        last.as_str().into(),
        i64::from(query.limit).into(),
    ];
    let rows: Vec<ActionColumns> = match (query.is_refused, query.kind) {
        // All refused reports are of one kind.
        (true, None | Some(ActionKind::Pay)) => {
            let statement = match query.newest_first {
                true => &REFUSALS_NEWEST,
                false => &REFUSALS,
            };
            fetch::<D, _>(conn, statement, &page).await?
        }
        (true, Some(_)) => Vec::new(),
        (false, Some(kind)) => {
            let statement = match query.newest_first {
                true => &LOG_OF_KIND_NEWEST,
                false => &LOG_OF_KIND,
            };
            let values = [&[kind.name().into()], &page[..]].concat();
            fetch::<D, _>(conn, statement, &values).await?
        }
        (false, None) => {
            let statement = match query.newest_first {
                true => &LOG_NEWEST,
                false => &LOG,
            };
            fetch::<D, _>(conn, statement, &page).await?
        }
    };
    rows.into_iter().map(|row| Ok(action_of(row)?)).collect()
}
