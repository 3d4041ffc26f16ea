//! Answers about one campaign that the book does not have, from its rows by key: its numbers, one order, what one user
//! has. They cost the same for a campaign of a million orders as for one of ten.

mod decisions;

use qiang_core::{
    book::{Excerpt, StoredCampaign},
    campaign::{CampaignKind, Phase},
    id::{CampaignId, UserId},
    ports::{CampaignRecord, SettledPayment, SettledReturn, SettledRow},
    rows::{
        AccountKey, AccountPurpose, SettledPaymentColumns, SettledReturnColumns, SettledRowColumns,
    },
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(crate) use self::decisions::DecisionRows;
use crate::{
    deferred_read::DeferredRead,
    error::DataFileError,
    ledger::{accounts, campaigns},
    recall::{has_set_aside, last_order, skipped_numbers, unsound},
};

/// The numbers of a user's orders. The index has all columns that it looks at.
const ORDERS_OF_USER: &str = "SELECT number FROM orders INDEXED BY orders_of_user \
     WHERE user = ?2 AND campaign = ?1 ORDER BY number";
const SHARE_OF_USER: &str = "SELECT number FROM shares WHERE campaign = ?1 AND user = ?2";
const ORDER: &str = "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
     cancelled_in_parts, extension_ms FROM orders \
     WHERE campaign = ?1 AND number = ?2";
/// The held orders of a sale whose holds are not extended, the oldest first. The index has held orders alone.
const HELD: &str = "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
     cancelled_in_parts, extension_ms \
     FROM orders INDEXED BY orders_held WHERE campaign = ?1 AND state = 'held' AND extension_ms = 0 \
     ORDER BY number LIMIT ?2";
/// The held orders of a sale whose holds are extended. An engine keeps few of them.
const HELD_LONGER: &str = "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
     cancelled_in_parts, extension_ms \
     FROM orders INDEXED BY orders_held_longer WHERE campaign = ?1 AND state = 'held' AND extension_ms > 0 \
     ORDER BY number";
const SHARE: &str = "SELECT number, amount, user, granted_at, 1, 'held', NULL, 0, 0, 0 FROM shares \
     WHERE campaign = ?1 AND number = ?2";
const PAYMENTS: &str = "SELECT number, payment, outcome, amount, currency FROM payments \
     WHERE campaign = ?1 AND number = ?2";
const PARTS: &str =
    "SELECT number, key, quantity, kind FROM order_returns WHERE campaign = ?1 AND number = ?2";

/// Rows of a grant that an excerpt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GrantRows {
    /// Its own row.
    Grant,
    /// Also the payments of an order.
    Payments,
    /// Also the parts of an order that were restocked.
    Parts,
}

/// Rows found for a deferred read.
#[derive(Debug)]
pub(crate) enum ColdRows {
    /// Rows that the answer follows from.
    Excerpt(Box<Excerpt>),
    /// The campaign does not exist, or has not opened in the settled rows.
    NotOpen,
    /// The campaign must be read completely, with about this many rows.
    Whole(u64),
}

/// Rows of a campaign of which the ledger does not have all: its log is read.
pub(crate) const ROWS_OF_LOG: u64 = u64::MAX;

/// Finds the rows for a deferred read's answer, as of one commit.
pub(crate) fn find(conn: &Connection, errand: &DeferredRead) -> Result<ColdRows, DataFileError> {
    let tx = conn.unchecked_transaction()?;
    let id = errand.campaign();
    let Some(row) = campaigns::row_by_id(&tx, id)? else {
        return Ok(ColdRows::NotOpen);
    };
    let (campaign_ref, record) = (row.campaign_ref, row.record()?);
    if has_set_aside(&tx, id)? {
        return Ok(ColdRows::Whole(ROWS_OF_LOG));
    }
    if record.phase == Phase::Draft {
        return Ok(ColdRows::NotOpen);
    }
    let kind = record.campaign.kind();
    let numbers = match errand {
        DeferredRead::Fetch(_) => {
            let rows = rows_of(&tx, campaign_ref, kind, record.campaign.supply())?;
            return Ok(ColdRows::Whole(rows));
        }
        DeferredRead::Tally(..) => Vec::new(),
        DeferredRead::Order(order, _) => vec![order.number],
        DeferredRead::Look(claim, _) => numbers_of(&tx, campaign_ref, kind, &claim.user)?,
    };
    let mut rows = Vec::new();
    for number in numbers {
        rows.extend(grant(&tx, campaign_ref, kind, number)?);
    }
    let excerpt = excerpt((&tx, campaign_ref), record, &rows, GrantRows::Payments)?;
    Ok(ColdRows::Excerpt(Box::new(excerpt)))
}

/// Reads what a tick of a campaign needs: its counters, its held orders with extended holds, and its `held_max` oldest
/// other held orders. The campaign must be settled. Also returns the number of these orders. `None` if it has not
/// opened, or if the ledger does not have all of its entries.
pub(crate) fn find_due(
    conn: &Connection,
    id: CampaignId,
    held_max: usize,
) -> Result<Option<(Excerpt, usize)>, DataFileError> {
    let Some(row) = campaigns::row_by_id(conn, id)? else {
        return Ok(None);
    };
    let (campaign_ref, record) = (row.campaign_ref, row.record()?);
    if record.phase == Phase::Draft || has_set_aside(conn, id)? {
        return Ok(None);
    }
    let mut held = Vec::new();
    if record.campaign.kind() == CampaignKind::Sale {
        let mut statement = conn.prepare_cached(HELD)?;
        let columns = |row: &Row<'_>| SettledRowColumns::try_from(row);
        for columns in statement.query_map(params![campaign_ref, held_max as i64], columns)? {
            held.push(SettledRow::from_columns(columns?)?);
        }
        held.extend(held_longer(conn, campaign_ref)?);
        held.sort_unstable_by_key(|row| row.number);
    }
    #[cfg(test)]
    crate::recall::ROWS_READ.with(|rows| rows.set(rows.get() + held.len() as u64));
    // No payment changes the entries of a tick.
    let excerpt = excerpt((conn, campaign_ref), record, &held, GrantRows::Grant)?;
    Ok(Some((excerpt, held.len())))
}

fn held_longer(conn: &Connection, campaign_ref: i64) -> Result<Vec<SettledRow>, DataFileError> {
    let mut statement = conn.prepare_cached(HELD_LONGER)?;
    let columns = |row: &Row<'_>| SettledRowColumns::try_from(row);
    let rows = statement.query_map([campaign_ref], columns)?;
    rows.map(|columns| Ok(SettledRow::from_columns(columns?)?))
        .collect()
}

/// About how many rows have to be read to bring a campaign into the book.
pub(crate) fn rows_to_read(conn: &Connection, id: CampaignId) -> Result<u64, DataFileError> {
    let sql = "SELECT ref, kind, supply FROM campaigns WHERE id = ?1";
    let columns = |row: &Row<'_>| <(i64, String, i64)>::try_from(row);
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row([id.to_string()], columns).optional()?;
    let Some((campaign_ref, kind, supply)) = found else {
        return Ok(0);
    };
    if has_set_aside(conn, id)? {
        return Ok(ROWS_OF_LOG);
    }
    let kind = CampaignKind::from_name(&kind).unwrap_or(CampaignKind::RedPacket);
    rows_of(conn, campaign_ref, kind, supply.unsigned_abs())
}

fn rows_of(
    conn: &Connection,
    campaign_ref: i64,
    kind: CampaignKind,
    supply: u64,
) -> Result<u64, DataFileError> {
    Ok(match kind {
        CampaignKind::RedPacket => supply,
        CampaignKind::Sale => last_order(conn, campaign_ref)?.into(),
    })
}

fn numbers_of(
    conn: &Connection,
    campaign_ref: i64,
    kind: CampaignKind,
    user: &UserId,
) -> Result<Vec<u32>, DataFileError> {
    let mut statement = conn.prepare_cached(match kind {
        CampaignKind::RedPacket => SHARE_OF_USER,
        CampaignKind::Sale => ORDERS_OF_USER,
    })?;
    let numbers = statement.query_map(params![campaign_ref, user.as_str()], |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

fn grant(
    conn: &Connection,
    campaign_ref: i64,
    kind: CampaignKind,
    number: u32,
) -> Result<Option<SettledRow>, DataFileError> {
    let mut statement = conn.prepare_cached(match kind {
        CampaignKind::RedPacket => SHARE,
        CampaignKind::Sale => ORDER,
    })?;
    let columns = |row: &Row<'_>| SettledRowColumns::try_from(row);
    let found = statement.query_row(params![campaign_ref, number], columns);
    Ok(found
        .optional()?
        .map(SettledRow::from_columns)
        .transpose()?)
}

fn excerpt(
    (conn, campaign_ref): (&Connection, i64),
    record: CampaignRecord,
    rows: &[SettledRow],
    of_each: GrantRows,
) -> Result<Excerpt, DataFileError> {
    let standing = record.counters();
    let campaign = record.campaign;
    let (mut escrow_minor, mut skipped) = (0, Vec::new());
    let last_number = match campaign.kind() {
        CampaignKind::RedPacket => {
            let id = campaign.id.to_string();
            let escrow = AccountKey::new(&id, AccountPurpose::Escrow, campaign.currency());
            escrow_minor = accounts::balance(conn, escrow)?;
            u32::try_from(standing.granted).unwrap_or(u32::MAX)
        }
        CampaignKind::Sale => {
            skipped = skipped_numbers(conn, campaign_ref)?;
            last_order(conn, campaign_ref)?
        }
    };
    let grants: Vec<_> = rows.iter().filter_map(SettledRow::former_grant).collect();
    let numbers: Vec<_> = grants.iter().map(|grant| grant.number).collect();
    let mut excerpt = Excerpt::new(campaign, &numbers);
    for grant in &grants {
        excerpt.add(grant).map_err(unsound)?;
        if of_each < GrantRows::Payments {
            continue;
        }
        let mut payments = conn.prepare_cached(PAYMENTS)?;
        let columns = |row: &Row<'_>| SettledPaymentColumns::try_from(row);
        for columns in payments.query_map(params![campaign_ref, grant.number], columns)? {
            let it = SettledPayment::from_columns(columns?)?;
            let added = excerpt.add_payment(it.number, &it.payment, it.outcome);
            added.map_err(unsound)?;
        }
        if of_each < GrantRows::Parts {
            continue;
        }
        let mut parts = conn.prepare_cached(PARTS)?;
        let columns = |row: &Row<'_>| SettledReturnColumns::try_from(row);
        for columns in parts.query_map(params![campaign_ref, grant.number], columns)? {
            let it = SettledReturn::from_columns(columns?)?;
            let added = excerpt.add_part(it.number, it.kind, &it.part);
            added.map_err(unsound)?;
        }
    }
    let stored = StoredCampaign {
        standing,
        escrow_minor,
        last_number,
        skipped: &skipped,
    };
    excerpt.finish(&stored).map_err(unsound)
}

#[cfg(test)]
mod tests {
    use qiang_core::time::Timestamp;

    use super::*;
    use crate::{
        file::{self, DataFileKind},
        recall::LAST_ORDER,
    };

    /// No statement goes through a campaign's grants.
    #[test]
    fn each_row_is_found_by_key() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = Timestamp::from_millis(0);
        let conn = file::open_writer(&path, DataFileKind::Engine, now).unwrap();
        for (sql, expected) in [
            (
                ORDERS_OF_USER,
                "SEARCH orders USING COVERING INDEX orders_of_user (user=?)",
            ),
            (
                SHARE_OF_USER,
                "SEARCH shares USING COVERING INDEX shares_once_per_user (campaign=? AND user=?)",
            ),
            (
                ORDER,
                "SEARCH orders USING PRIMARY KEY (campaign=? AND number=?)",
            ),
            (
                SHARE,
                "SEARCH shares USING PRIMARY KEY (campaign=? AND number=?)",
            ),
            (
                PAYMENTS,
                "SEARCH payments USING PRIMARY KEY (campaign=? AND number=?)",
            ),
            (
                PARTS,
                "SEARCH order_returns USING PRIMARY KEY (campaign=? AND number=?)",
            ),
            (HELD, "SEARCH orders USING INDEX orders_held (campaign=?)"),
            (
                HELD_LONGER,
                "SEARCH orders USING INDEX orders_held_longer (campaign=?)",
            ),
            (
                decisions::COUNT_ORDERS,
                "SEARCH orders USING COVERING INDEX orders_of_user (user=?)",
            ),
            (LAST_ORDER, "SEARCH orders USING PRIMARY KEY (campaign=?)"),
        ] {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = (1..=statement.parameter_count()).map(|_| "");
            let plan = rusqlite::params_from_iter(plan.collect::<Vec<_>>());
            let plan = statement.query_map(plan, |row| row.get::<_, String>("detail"));
            let plan: Vec<_> = plan.unwrap().map(Result::unwrap).collect();
            assert!(plan.iter().any(|step| step == expected), "{sql}: {plan:?}");
        }
    }
}
