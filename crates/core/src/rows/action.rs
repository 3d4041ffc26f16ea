//! Rows of `actions`.

use uuid::Uuid;

use super::Contradiction;
use crate::{
    id::UserId,
    ports::{Action, ActionKind},
    time::Timestamp,
};

/// Columns: id, at, actor, kind, subject, request id and detail.
pub type ActionColumns = (String, i64, String, String, String, String, String);

/// Converts a row to an action.
///
/// # Errors
/// If the id, the actor or the kind is invalid.
pub fn action_of(row: ActionColumns) -> Result<Action, Contradiction> {
    let (id, at, actor, kind, subject, request_id, detail) = row;
    let bad = || Contradiction::new(format!("the action {id} has a bad row"));
    Ok(Action {
        id: Uuid::parse_str(&id).map_err(|_| bad())?,
        at: Timestamp::from_millis(at),
        actor: UserId::new(&actor).map_err(|_| bad())?,
        kind: ActionKind::from_name(&kind).ok_or_else(bad)?,
        subject,
        request_id,
        detail,
    })
}
