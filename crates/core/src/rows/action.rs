//! Rows of `actions`.

use uuid::Uuid;

use super::Contradiction;
use crate::{
    id::UserId,
    ports::{Action, ActionKind},
    time::Timestamp,
};

/// The columns id, at, actor, kind, subject, request id and detail.
pub type ActionColumns = (String, i64, String, String, String, String, String);

/// The action of a row.
///
/// # Errors
/// When its id, its actor or its kind is none.
pub fn action_of(row: ActionColumns) -> Result<Action, Contradiction> {
    let (id, at, actor, kind, subject, request_id, detail) = row;
    let bad = || Contradiction::new(format!("the action {id} has a bad row"));
    Ok(Action {
        id: Uuid::parse_str(&id).map_err(|_| bad())?,
        at: Timestamp::from_millis(at),
        actor: UserId::new(&actor).map_err(|_| bad())?,
        kind: ActionKind::of_name(&kind).ok_or_else(bad)?,
        subject,
        request_id,
        detail,
    })
}
