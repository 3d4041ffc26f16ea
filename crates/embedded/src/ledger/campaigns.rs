//! Campaigns and shares, as they are read.

use std::sync::LazyLock;

use qiang_core::{
    book::Setup,
    campaign::{Campaign, CampaignKind},
    id::{CampaignId, UserId},
    ports::{CampaignRecord, GrantRecord, GrantTimes, SettledRow},
    rows::{CampaignRow, SettledRowColumns, has_fixed_shares, setup_of},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params, types::FromSql};

use crate::error::DataFileError;

/// Columns that [`row_of`] reads.
pub(crate) const SELECT: &str = "SELECT ref, id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, \
     supply, per_user_limit, total, split_rule, split_min, split_max, split_version, seed, server_seed, \
     client_seed, unit_price, hold_ms, \
     requirements, admission, payment_policy, payment_tolerance, phase, granted, returned, refunded, terms_revision, \
     coalesce((SELECT t.starts_at FROM sale_terms t WHERE t.campaign = campaigns.ref AND t.revision = 0), starts_at) \
     AS first_start, product_id, description, image_url, gallery, list_price, cover, \
     archived_at, \
     updated_at \
     FROM campaigns LEFT JOIN details ON details.campaign = campaigns.ref";

/// Query of one campaign.
static SELECT_BY_ID: LazyLock<String> = LazyLock::new(|| format!("{SELECT} WHERE id = ?1"));

const DRAFTS: &str = "SELECT id FROM campaigns INDEXED BY campaigns_unopened WHERE phase = 'draft' \
     AND ref > coalesce((SELECT ref FROM campaigns WHERE id = ?1), 0) ORDER BY ref LIMIT ?2";
/// The index `campaigns_claimed` contains exactly these rows.
const CLAIMED_PACKETS: &str = "SELECT id FROM campaigns INDEXED BY campaigns_claimed \
     WHERE kind = 'red_packet' AND phase <> 'closed' AND granted = supply \
     AND ref > coalesce((SELECT ref FROM campaigns WHERE id = ?1), 0) ORDER BY ref LIMIT ?2";

const SHARE_TIMES: &str =
    "SELECT granted_at, NULL FROM shares WHERE campaign = ?1 AND number = ?2 AND user IS NOT NULL";
/// The index `payments_pay_once` has one payment of an order at most.
const ORDER_TIMES: &str = "SELECT granted_at, (SELECT p.at FROM payments p \
     WHERE p.campaign = o.campaign AND p.number = o.number AND p.outcome <> 'refund_due') \
     FROM orders o WHERE campaign = ?1 AND number = ?2";

pub(crate) fn campaign(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, DataFileError> {
    Ok(row_by_id(conn, id)?.map(|row| row.record()).transpose()?)
}

/// Whether an engine that lacks a campaign may open it: no log entry concerns it, settled or refused. `None` if there
/// is no such campaign.
pub(crate) fn may_open(conn: &Connection, id: CampaignId) -> Result<Option<bool>, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT phase = 'draft' AND NOT EXISTS (SELECT 1 FROM set_aside s WHERE s.campaign = c.id) \
         FROM campaigns c WHERE c.id = ?1",
    )?;
    let found = statement.query_row([id.to_string()], |row| row.get(0));
    Ok(found.optional()?)
}

/// Campaigns that no engine has opened, oldest first.
pub(crate) fn drafts(
    conn: &Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, DataFileError> {
    ids_behind(conn, DRAFTS, after, limit)
}

/// A campaign with its shares.
pub(crate) fn setup_by_id(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<Setup>, DataFileError> {
    let row = row_by_id(conn, id)?;
    row.map(|row| setup(conn, row.campaign_ref, row.record()?.campaign))
        .transpose()
}

/// Packets that are not closed and whose shares are all claimed.
pub(crate) fn claimed_packets(
    conn: &Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, DataFileError> {
    ids_behind(conn, CLAIMED_PACKETS, after, limit)
}

/// A page of ids, in the order in which campaigns were created.
fn ids_behind(
    conn: &Connection,
    sql: &str,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, DataFileError> {
    let mut statement = conn.prepare_cached(sql)?;
    let after = after.map(|after| after.to_string());
    let ids = statement.query_map(params![after, limit], |row| row.get::<_, String>(0))?;
    ids.map(|id| campaign_id(&id?)).collect()
}

/// The id of a campaign, as a column has it.
pub(crate) fn campaign_id(text: &str) -> Result<CampaignId, DataFileError> {
    let parsed = text.parse();
    parsed.map_err(|_| DataFileError::damaged(format!("{text} is no campaign")))
}

/// A campaign with its shares.
pub(crate) fn setup(
    conn: &Connection,
    campaign_ref: i64,
    campaign: Campaign,
) -> Result<Setup, DataFileError> {
    let shares = match has_fixed_shares(&campaign) {
        true => shares(conn, campaign_ref)?,
        false => Vec::new(),
    };
    Ok(setup_of(campaign, shares)?)
}

fn shares(conn: &Connection, campaign_ref: i64) -> Result<Vec<i64>, DataFileError> {
    let mut statement =
        conn.prepare_cached("SELECT amount FROM shares WHERE campaign = ?1 ORDER BY number")?;
    let shares = statement.query_map([campaign_ref], |row| row.get(0))?;
    Ok(shares.collect::<Result<_, _>>()?)
}

pub(crate) fn row_by_id(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<CampaignRow>, DataFileError> {
    let mut statement = conn.prepare_cached(&SELECT_BY_ID)?;
    let row = statement.query_row([id.to_string()], row_of);
    Ok(row.optional()?)
}

/// Reads one column after another. By its name each would be looked for among all of them.
struct CampaignColumns<'a, 'stmt> {
    row: &'a Row<'stmt>,
    place: usize,
}

impl CampaignColumns<'_, '_> {
    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.place += 1;
        self.row.get(self.place - 1)
    }
}

pub(crate) fn row_of(row: &Row<'_>) -> rusqlite::Result<CampaignRow> {
    // In the order of the statement, which is that of the fields.
    let mut columns = CampaignColumns { row, place: 0 };
    Ok(CampaignRow {
        campaign_ref: columns.next()?,
        id: columns.next()?,
        kind: columns.next()?,
        owner: columns.next()?,
        title: columns.next()?,
        currency: columns.next()?,
        ack: columns.next()?,
        starts_at: columns.next()?,
        ends_at: columns.next()?,
        created_at: columns.next()?,
        supply: columns.next()?,
        per_user_limit: columns.next()?,
        total: columns.next()?,
        split_rule: columns.next()?,
        split_min: columns.next()?,
        split_max: columns.next()?,
        split_version: columns.next()?,
        seed: columns.next()?,
        server_seed: columns.next()?,
        client_seed: columns.next()?,
        unit_price: columns.next()?,
        hold_ms: columns.next()?,
        requirements: columns.next()?,
        admission: columns.next()?,
        payment_policy: columns.next()?,
        payment_tolerance: columns.next()?,
        phase: columns.next()?,
        granted: columns.next()?,
        returned: columns.next()?,
        refunded: columns.next()?,
        terms_revision: columns.next()?,
        first_start: columns.next()?,
        product_id: columns.next()?,
        description: columns.next()?,
        image_url: columns.next()?,
        gallery: columns.next()?,
        list_price: columns.next()?,
        cover: columns.next()?,
        archived_at: columns.next()?,
        updated_at: columns.next()?,
    })
}

/// Settled grants with numbers above `after`, in order.
pub(crate) fn grants(
    conn: &Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, DataFileError> {
    let shares = "SELECT number, amount, user, granted_at, 1, 'held', NULL, 0, 0, 0 FROM shares \
                  WHERE campaign = ?1 AND number > ?2 AND user IS NOT NULL ORDER BY number LIMIT ?3";
    let rows = numbered_rows(conn, id, (after, limit), shares)?;
    Ok(rows.into_iter().filter_map(GrantRecord::from_row).collect())
}

/// Times of the settled grants with these numbers, each read by its key.
pub(crate) fn grant_times(
    conn: &Connection,
    id: CampaignId,
    numbers: &[u32],
) -> Result<Vec<GrantTimes>, DataFileError> {
    let Some((campaign_ref, kind)) = ref_and_kind(conn, id)? else {
        return Ok(Vec::new());
    };
    let mut statement = conn.prepare_cached(match kind == CampaignKind::RedPacket.name() {
        true => SHARE_TIMES,
        false => ORDER_TIMES,
    })?;
    let mut times = Vec::with_capacity(numbers.len());
    for number in numbers {
        let found = statement.query_row(params![campaign_ref, number], |row| {
            Ok(GrantTimes {
                number: *number,
                granted_at: Timestamp::from_millis(row.get(0)?),
                paid_at: row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis),
            })
        });
        times.extend(found.optional()?);
    }
    Ok(times)
}

/// A user's share of a packet, or orders of a sale. Without the name of the index SQLite goes through the campaign.
const SHARE_OF_USER: &str = "SELECT number, amount, user, granted_at, 1, 'held', NULL, 0, 0, 0 FROM shares \
     WHERE campaign = ?1 AND user = ?2";
const ORDERS_OF_USER: &str = "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
     cancelled_in_parts, extension_ms \
     FROM orders INDEXED BY orders_of_user WHERE user = ?2 AND campaign = ?1 ORDER BY number";

/// A user's rows in a campaign, in order.
pub(super) fn rows_of_user(
    conn: &Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<Vec<SettledRow>, DataFileError> {
    let Some((campaign_ref, kind)) = ref_and_kind(conn, id)? else {
        return Ok(Vec::new());
    };
    let mut statement = conn.prepare_cached(match kind == CampaignKind::RedPacket.name() {
        true => SHARE_OF_USER,
        false => ORDERS_OF_USER,
    })?;
    let rows = statement.query_map(params![campaign_ref, user.as_str()], |row| {
        SettledRowColumns::try_from(row)
    })?;
    rows.map(|columns| Ok(SettledRow::from_columns(columns?)?))
        .collect()
}

fn ref_and_kind(conn: &Connection, id: CampaignId) -> Result<Option<(i64, String)>, DataFileError> {
    let mut campaign = conn.prepare_cached("SELECT ref, kind FROM campaigns WHERE id = ?1")?;
    let found = campaign.query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

/// Up to `limit` rows with numbers above `after`, in order: shares by a statement, or orders.
pub(super) fn numbered_rows(
    conn: &Connection,
    id: CampaignId,
    (after, limit): (u32, u32),
    shares: &str,
) -> Result<Vec<SettledRow>, DataFileError> {
    let Some((campaign_ref, kind)) = ref_and_kind(conn, id)? else {
        return Ok(Vec::new());
    };
    let orders = "SELECT number, amount, user, granted_at, quantity, state, key, returned_in_parts, \
         cancelled_in_parts, extension_ms FROM orders \
                  WHERE campaign = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let sql = match kind == CampaignKind::RedPacket.name() {
        true => shares,
        false => orders,
    };
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(params![campaign_ref, after, limit], |row| {
        SettledRowColumns::try_from(row)
    })?;
    rows.map(|columns| Ok(SettledRow::from_columns(columns?)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{file::DataFileKind, ledger::reconcile};

    /// Queries for few campaigns visit no other campaigns, however many there are.
    #[test]
    fn what_is_looked_for_again_and_again_is_found_by_an_index_that_has_nothing_else() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let now = Timestamp::from_millis(0);
        let conn = crate::file::open_writer(&path, DataFileKind::Ledger, now).unwrap();
        let check = |sql: &str, steps: &[&str]| {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = statement.query_map(["", "9"], |row| row.get::<_, String>("detail"));
            let plan: Vec<_> = plan.unwrap().map(Result::unwrap).collect();
            for step in steps {
                assert!(plan.iter().any(|it| it.contains(step)), "{step}: {plan:?}");
            }
        };
        check(DRAFTS, &["INDEX campaigns_unopened (ref>?)"]);
        check(CLAIMED_PACKETS, &["INDEX campaigns_claimed (ref>?)"]);
        check(SHARE_TIMES, &["PRIMARY KEY (campaign=? AND number=?)"]);
        let times = [
            "PRIMARY KEY (campaign=? AND number=?)",
            "INDEX payments_pay_once (campaign=? AND number=?)",
        ];
        check(ORDER_TIMES, &times);
        check(
            reconcile::NOT_CLOSED,
            &["INDEX campaigns_not_closed (id>?)"],
        );
        let closed = [
            "INDEX campaigns_holds_end (<expr>>?)",
            "INDEX orders_held (campaign=?)",
        ];
        check(reconcile::CLOSED_WITH_HELD, &closed);
        let index = "SELECT sql FROM sqlite_schema WHERE name = 'campaigns_claimed'";
        let index: String = conn.query_row(index, [], |row| row.get(0)).unwrap();
        assert!(index.contains("granted = supply"), "{index}");
    }
}
