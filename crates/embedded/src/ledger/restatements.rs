//! Repairs of campaign rows: replaces facts of the ledger with the engine's.

use qiang_core::ports::Restatement;
use rusqlite::{Connection, params_from_iter};

use super::{actions, bound_values::BoundValues, campaigns, settle};
use crate::error::DataFileError;

/// Writes other facts to a campaign's row. Returns false if the row or the position has changed since it was read.
pub(crate) fn restate(conn: &Connection, restatement: &Restatement) -> Result<bool, DataFileError> {
    let position = settle::position(conn, restatement.partition)?;
    let Some(record) = campaigns::campaign(conn, restatement.campaign)? else {
        return Ok(false);
    };
    if !restatement.is_at(position) || record.facts() != restatement.seen {
        return Ok(false);
    }
    let id = restatement.campaign.to_string();
    let columns = restatement.columns();
    let mut values = Vec::from(columns.for_campaign());
    values.extend(columns.for_terms());
    values.push(restatement.action.at.as_millis().into());
    values.push(id.as_str().into());
    conn.prepare_cached(
        "UPDATE campaigns SET phase = coalesce(?1, phase), supply = coalesce(?2, supply), \
         hold_ms = coalesce(?3, hold_ms), ack = coalesce(?4, ack), \
         starts_at = coalesce(?5, starts_at), ends_at = coalesce(?6, ends_at), \
         per_user_limit = coalesce(?7, per_user_limit), unit_price = coalesce(?8, unit_price), \
         admission = coalesce(?9, admission), \
         updated_at = max(updated_at, ?10) WHERE id = ?11",
    )?
    .execute(params_from_iter(values.into_iter().map(BoundValues)))?;
    let revision = restatement.seen.terms_revision as i64;
    if columns.changes_terms() && revision > 0 {
        let mut values = Vec::from(columns.for_terms());
        values.push(id.as_str().into());
        values.push(revision.into());
        conn.prepare_cached(
            "UPDATE sale_terms SET starts_at = coalesce(?1, starts_at), ends_at = coalesce(?2, ends_at), \
             per_user_limit = coalesce(?3, per_user_limit), unit_price = coalesce(?4, unit_price), \
             admission = coalesce(?5, admission) \
             WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?6) AND revision = ?7",
        )?
        .execute(params_from_iter(values.into_iter().map(BoundValues)))?;
    }
    actions::enter(conn, &restatement.action)?;
    Ok(true)
}
