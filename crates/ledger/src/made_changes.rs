//! Changes under idempotency keys that were carried out.

use uuid::Uuid;

use crate::{
    dialect::{Dialect, Statement, sql},
    error::WorkError,
};

const ENTER_MADE_CHANGE: Statement = sql!("enter_made_change");

/// Enters changes under keys that were carried out.
pub(crate) async fn enter_made_changes<D: Dialect>(
    conn: &mut D::Connection,
    ids: &[Uuid],
) -> Result<(), WorkError> {
    for id in ids {
        let id = id.to_string();
        D::execute(&mut *conn, &ENTER_MADE_CHANGE, &[id.as_str().into()]).await?;
    }
    Ok(())
}
