//! Repairs of campaign rows: replaces facts of the ledger with the engine's.

use qiang_core::ports::Restatement;

use crate::{
    actions,
    campaigns::campaign_row,
    dialect::{Dialect, Statement, fetch_one, sql},
    error::WorkError,
    settled_positions::lock_position,
};

const LOCK: Statement = sql!(both "SELECT ref FROM campaigns WHERE id = $1 FOR UPDATE");
const RESTATE: Statement = sql!(both include_str!("sql/restate_campaign.sql"));
const RESTATE_CAMPAIGN_TERMS: Statement = sql!(both include_str!("sql/restate_campaign_terms.sql"));
const RESTATE_TERMS: Statement = sql!(both include_str!("sql/restate_terms.sql"));

/// Writes other facts to a campaign's row. Returns false if the row or the position has changed since it was read.
pub(crate) async fn restate<D: Dialect>(
    conn: &mut D::Connection,
    restatement: &Restatement,
) -> Result<bool, WorkError> {
    // The order of locks is that of settlement: the position, then the row.
    let position = lock_position::<D>(conn, restatement.partition.0.into()).await?;
    let id = restatement.campaign.to_string();
    let locked = fetch_one::<D, (i64,)>(conn, &LOCK, &[id.as_str().into()]).await?;
    let row = campaign_row::<D>(conn, &id).await?;
    let (Some((campaign,)), Some(row)) = (locked, row) else {
        return Ok(false);
    };
    if !restatement.is_at(position) || row.record()?.facts() != restatement.seen {
        return Ok(false);
    }
    let columns = restatement.columns();
    let mut values = Vec::from(columns.for_campaign());
    values.push(restatement.action.at.as_millis().into());
    values.push(campaign.into());
    D::execute(conn, &RESTATE, &values).await?;
    if columns.changes_terms() {
        let mut values = Vec::from(columns.for_terms());
        values.push(campaign.into());
        D::execute(conn, &RESTATE_CAMPAIGN_TERMS, &values).await?;
        // A sale without changed terms has no row there.
        let revision = restatement.seen.terms_revision as i64;
        values.push(revision.into());
        if revision > 0 {
            D::execute(conn, &RESTATE_TERMS, &values).await?;
        }
    }
    actions::enter::<D>(conn, &restatement.action).await?;
    Ok(true)
}
