//! Public view of campaigns: details, lists, archiving.

use qiang_core::{
    campaign::{Details, DetailsChange, Phase},
    id::CampaignId,
    ports::{Action, CampaignQuery, CampaignRecord},
    time::Timestamp,
};
use rusqlite::{
    Connection, OptionalExtension as _, Transaction, TransactionBehavior, named_params, params,
};
use uuid::Uuid;

use super::{
    actions,
    campaigns::{self, SELECT, row_of},
    made_changes,
};
use crate::error::DataFileError;

/// Sets the time of the last visible change of a campaign.
fn touch(conn: &Connection, now: Timestamp, id: &str) -> Result<(), DataFileError> {
    let sql = "UPDATE campaigns SET updated_at = max(updated_at, ?1) WHERE id = ?2";
    conn.prepare_cached(sql)?
        .execute(params![now.as_millis(), id])?;
    Ok(())
}

/// Changes the details of a campaign.
pub(crate) fn describe(
    conn: &Connection,
    now: Timestamp,
    id: CampaignId,
    change: &DetailsChange,
    (by, made): (Option<&Action>, Option<Uuid>),
) -> Result<(), DataFileError> {
    let id = id.to_string();
    let columns = change.columns();
    if let Some(title) = columns.title {
        conn.prepare_cached("UPDATE campaigns SET title = ?1 WHERE id = ?2")?
            .execute(params![title, id])?;
    }
    let mut statement = conn.prepare_cached(
        "INSERT INTO details (campaign, product_id, description, image_url, gallery, list_price) \
         SELECT ref, nullif(?1, ''), nullif(?2, ''), nullif(?3, ''), nullif(?4, ''), nullif(?5, 0) \
         FROM campaigns WHERE id = ?6 \
         ON CONFLICT (campaign) DO UPDATE SET product_id = nullif(coalesce(?1, product_id), ''), \
         description = nullif(coalesce(?2, description), ''), image_url = nullif(coalesce(?3, image_url), ''), \
         gallery = nullif(coalesce(?4, gallery), ''), list_price = nullif(coalesce(?5, list_price), 0)",
    )?;
    let described = statement.execute(params![
        columns.product_id,
        columns.description,
        columns.image_url,
        columns.gallery,
        columns.list_price,
        id
    ])? > 0;
    touch(conn, now, &id)?;
    if let Some(action) = by.filter(|_| described) {
        actions::enter(conn, action)?;
    }
    made_changes::enter_made_changes(conn, made.as_slice())
}

/// Changes the details of a campaign whose title and details are still the expected ones. Returns whether they are.
pub(crate) fn describe_if(
    conn: &Connection,
    (now, id): (Timestamp, CampaignId),
    (title, details): (&str, &Details),
    change: &DetailsChange,
    by: (Option<&Action>, Option<Uuid>),
) -> Result<bool, DataFileError> {
    let found = campaigns::campaign(conn, id)?;
    let is_same =
        found.is_some_and(|found| found.campaign.title == title && found.details == *details);
    if is_same {
        describe(conn, now, id, change, by)?;
    }
    Ok(is_same)
}

/// Archives a closed campaign. Returns whether it is archived.
pub(crate) fn archive(
    conn: &Connection,
    now: Timestamp,
    id: CampaignId,
    by: Option<&Action>,
) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO details (campaign, archived_at) \
         SELECT ref, ?1 FROM campaigns WHERE id = ?2 AND phase = 'closed' \
         ON CONFLICT (campaign) DO UPDATE SET archived_at = coalesce(archived_at, excluded.archived_at)",
    )?;
    let id = id.to_string();
    let archived = statement.execute(params![now.as_millis(), id])? > 0;
    if archived {
        let since = "SELECT archived_at FROM details WHERE campaign = (SELECT ref FROM campaigns WHERE id = ?1)";
        let since = conn
            .prepare_cached(since)?
            .query_row([&id], |row| row.get(0));
        // Keeps the first time: archiving is idempotent.
        touch(conn, Timestamp::from_millis(since?), &id)?;
    }
    if let Some(action) = by.filter(|_| archived) {
        actions::enter(conn, action)?;
    }
    Ok(archived)
}

/// Part of a list: one query over one set of campaigns.
struct ListingPart {
    joins: &'static str,
    of: &'static str,
    /// Column that orders the part; `None` for the start of the campaign.
    id: Option<&'static str>,
}

/// Restricts a part to listed campaigns. Newer ones may be in the table or not.
const LISTED: &str = "JOIN owned ON owned.campaign = campaigns.ref AND owned.campaign <= (SELECT campaign FROM listed)";

const ALL: ListingPart = ListingPart {
    joins: "",
    of: ":product IS NULL AND :owner IS NULL",
    id: Some("id"),
};
const OF_PRODUCT: ListingPart = ListingPart {
    joins: "",
    of: ":owner IS NULL AND product_id = :product",
    id: None,
};
const OF_OWNERS_PRODUCT: ListingPart = ListingPart {
    joins: LISTED,
    of: "by = :owner AND +product_id = :product",
    id: None,
};
const OF_OWNERS_PRODUCT_UNLISTED: ListingPart = ListingPart {
    joins: "",
    of: "ref > (SELECT campaign FROM listed) AND +owner = :owner AND +product_id = :product",
    id: None,
};
const OF_OWNER: ListingPart = ListingPart {
    joins: LISTED,
    of: ":product IS NULL AND by = :owner",
    id: Some("campaign_id"),
};
/// A plain `id` would use the index of ids, which has the campaigns of all owners.
const OF_OWNER_UNLISTED: ListingPart = ListingPart {
    joins: "",
    of: ":product IS NULL AND ref > (SELECT campaign FROM listed) AND owner = :owner",
    id: Some("+id"),
};

impl ListingPart {
    fn sql(&self, is_back: bool) -> String {
        let Self { joins, of, id } = self;
        let (from, order) = match id {
            None => (
                ":until IS NOT NULL AND (starts_at, id) > (:starts, :after)".to_owned(),
                "starts_at, id".to_owned(),
            ),
            Some(id) if is_back => (
                format!(":starts IS NOT NULL AND {id} < :after AND {id} > :until"),
                format!("{id} DESC"),
            ),
            Some(id) => (
                format!(":starts IS NOT NULL AND {id} > :after AND {id} < :until"),
                (*id).to_owned(),
            ),
        };
        format!(
            "{SELECT} {joins} WHERE {of} AND {from} AND kind = :kind AND (archived_at IS NULL OR :archived) \
             AND likelihood(created_at >= :from, 1.0) AND likelihood(created_at < :before, 1.0) \
             AND CASE WHEN phase IN ('scheduled', 'paused') AND :now >= ends_at THEN 'ended' \
                      WHEN phase = 'scheduled' AND :now >= starts_at THEN 'live' ELSE phase END LIKE :phase \
             ORDER BY {order} LIMIT :limit"
        )
    }
}

/// One page of campaigns.
pub(crate) fn list(
    conn: &Connection,
    query: &CampaignQuery,
) -> Result<Vec<CampaignRecord>, DataFileError> {
    let is_back = query.newest_first && query.product_id.is_none();
    let [after, until] = query.bounds();
    let parts: &[ListingPart] = match (&query.product_id, &query.owner) {
        (Some(_), None) => &[OF_PRODUCT],
        (Some(_), Some(_)) => &[OF_OWNERS_PRODUCT, OF_OWNERS_PRODUCT_UNLISTED],
        (None, Some(_)) => &[OF_OWNER, OF_OWNER_UNLISTED],
        (None, None) => &[ALL],
    };
    let starts_at: Option<i64> = conn
        .prepare_cached("SELECT starts_at FROM campaigns WHERE id = ?1")?
        .query_row([&after], |row| row.get(0))
        .optional()?;
    // Reads all parts in one transaction: campaigns may become listed between two commits.
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let mut found = Vec::new();
    for part in parts {
        let mut statement = tx.prepare_cached(&part.sql(is_back))?;
        let rows = statement.query_map(
            named_params! {
                ":owner": query.owner.as_ref().map(|owner| owner.as_str()),
                ":product": query.product_id.as_ref().map(|id| id.as_str()),
                ":starts": starts_at.unwrap_or(i64::MIN),
                ":after": after,
                ":until": until,
                ":from": query.created.from_millis(),
                ":before": query.created.before_millis(),
                ":kind": query.kind.name(),
                ":archived": query.archived,
                ":now": query.now.as_millis(),
                ":phase": query.phase.map_or("%", Phase::name),
                ":limit": query.limit,
            },
            row_of,
        )?;
        for row in rows {
            found.push(row?.record()?);
        }
    }
    tx.commit()?;
    if parts.len() > 1 {
        found.sort_unstable_by_key(|it| {
            let starts_at = it.campaign.window.starts_at();
            (query.product_id.as_ref().map(|_| starts_at), it.campaign.id)
        });
        if is_back {
            found.reverse();
        }
        found.truncate(query.limit as usize);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{self, DataFileKind};

    #[test]
    fn a_list_of_an_owner_looks_through_no_others() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let conn =
            file::open_writer(&path, DataFileKind::Ledger, Timestamp::from_millis(0)).unwrap();
        let owned = "SEARCH owned USING PRIMARY KEY (by=?";
        let by_ref = "SEARCH campaigns USING INTEGER PRIMARY KEY (rowid=?)";
        let newer = "SEARCH campaigns USING INTEGER PRIMARY KEY (rowid>?)";
        let newer_details = "SEARCH details USING INTEGER PRIMARY KEY (rowid>?)";
        let details = "SEARCH details USING INTEGER PRIMARY KEY (rowid=?)";
        for (part, searches, sorts) in [
            (OF_OWNER, [owned, by_ref], false),
            (OF_OWNER_UNLISTED, [newer, details], true),
            (OF_OWNERS_PRODUCT, [owned, by_ref], true),
            (OF_OWNERS_PRODUCT_UNLISTED, [newer_details, by_ref], true),
        ] {
            for is_back in [false, true] {
                let explain = format!("EXPLAIN QUERY PLAN {}", part.sql(is_back));
                let mut plan = conn.prepare(&explain).unwrap();
                let plan = plan
                    .raw_query()
                    .mapped(|row| row.get::<_, String>("detail"));
                let plan: Vec<_> = plan.map(Result::unwrap).collect();
                for search in searches {
                    let is_there = plan.iter().any(|step| step.starts_with(search));
                    assert!(is_there, "{search}: {plan:?}");
                }
                let has_sorted = plan.iter().any(|step| step.contains("TEMP B-TREE"));
                assert_eq!(has_sorted, sorts, "{plan:?}");
            }
        }
    }
}
