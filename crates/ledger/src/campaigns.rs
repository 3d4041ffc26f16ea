//! Campaigns and shares: entering, reading, listing.

use qiang_core::{
    book::Setup,
    campaign::{CampaignKind, Details, Rules},
    id::{CampaignId, UserId},
    money::{AMOUNT_MINOR_MAX, Money},
    ports::{Action, CampaignRecord, GrantRecord, GrantTimes, LedgerError, SettledRow},
    rows::{
        AccountKey, AccountPurpose, CampaignRow, NewCampaign, PostingRow, SettledRowColumns, Value,
        has_fixed_shares, setup_of,
    },
    time::Timestamp,
};

use crate::{
    accounts::{adjust, credit, lock_account, post},
    actions, audiences,
    dialect::{Dialect, FromColumns, RowColumns, Statement, fetch, fetch_of, fetch_one, sql},
    error::{WorkError, raced},
    listing,
};

pub(crate) const HAS_CAMPAIGN: Statement = sql!(both "SELECT ref FROM campaigns WHERE id = $1");
const ENTER_CAMPAIGN: Statement = sql!("enter_campaign");
const ENTER_SHARES: Statement = sql!("enter_shares");
const CAMPAIGN: Statement = sql!(both concat!(include_str!("sql/campaigns.sql"), "WHERE id = $1"));
const DRAFTS: Statement = sql!(both include_str!("sql/drafts.sql"));
const AMOUNTS: Statement =
    sql!(both "SELECT amount FROM shares WHERE campaign = $1 ORDER BY number");
const CLAIMED_PACKETS: Statement = sql!("claimed_packets");
const GRANTED_SHARES: Statement = sql!("granted_shares");
const SHARE_TIMES: Statement = sql!("share_times");
const ORDER_TIMES: Statement = sql!("order_times");
const SHARE_OF_USER: Statement = sql!("share_of_user");
const SETTLED_ORDERS_OF_USER: Statement = sql!(both include_str!("sql/settled_orders_of_user.sql"));
const SETTLED_ORDERS: Statement = sql!(both include_str!("sql/settled_orders.sql"));

/// Maximum shares inserted by one statement.
const SHARES_AT_ONCE_MAX: usize = 16_384;

impl FromColumns for CampaignRow {
    fn read<D: Dialect>(columns: &mut RowColumns<'_, D>) -> sqlx::Result<Self> {
        Ok(Self {
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
}

/// Whether the ledger has a campaign.
pub(crate) async fn has_campaign<D: Dialect>(
    conn: &mut D::Connection,
    id: &str,
) -> Result<bool, WorkError> {
    let found = fetch_one::<D, (i64,)>(conn, &HAS_CAMPAIGN, &[id.into()]).await?;
    Ok(found.is_some())
}

/// The row of a campaign.
pub(crate) async fn campaign_row<D: Dialect>(
    conn: &mut D::Connection,
    id: &str,
) -> Result<Option<CampaignRow>, WorkError> {
    Ok(fetch_one::<D, _>(conn, &CAMPAIGN, &[id.into()]).await?)
}

/// Enters a campaign once per id: row, details, audience if it has one, shares, and the red packet's total from the
/// sender to escrow. Returns false if the campaign existed.
///
/// # Errors
///
/// The amount is out of range, or the sender lacks funds.
pub(crate) async fn create<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    (setup, details): (&Setup, &Details),
    audience: Option<&str>,
    by: Option<&Action>,
) -> Result<bool, WorkError> {
    let campaign = &setup.campaign;
    if campaign.funded_minor() > AMOUNT_MINOR_MAX {
        return Err(LedgerError::AmountOutOfRange.into());
    }
    let id = campaign.id.to_string();
    if has_campaign::<D>(conn, &id).await? {
        return Ok(false);
    }
    let row = NewCampaign::from_campaign(campaign);
    let enter = D::query(&ENTER_CAMPAIGN, &row.columns());
    let campaign_ref = raced(D::insert(conn, enter).await)?;
    listing::enter::<D>(conn, campaign_ref, details).await?;
    if let Some(rules) = audience {
        audiences::enter::<D>(conn, campaign_ref, rules).await?;
    }
    if let Some(action) = by {
        actions::enter::<D>(conn, action).await?;
    }
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Ok(true);
    };

    enter_shares::<D>(conn, campaign_ref, packet.split.count(), &setup.shares).await?;
    let total = packet.split.total();
    let account = |owner, purpose| AccountKey {
        owner,
        purpose,
        currency: packet.currency,
    };
    let sender =
        lock_account::<D>(conn, account(campaign.owner.as_str(), AccountPurpose::User)).await?;
    let held = sender.map_or(0, |(_, balance)| balance);
    let (Some((debit, _)), true) = (sender, held >= total) else {
        let (held, needed) = (
            Money::new(held, packet.currency),
            Money::new(total, packet.currency),
        );
        return Err(LedgerError::InsufficientFunds { held, needed }.into());
    };
    adjust::<D>(conn, &[(debit, -total)]).await?;
    let escrow = credit::<D>(conn, &[(account(&id, AccountPurpose::Escrow), total)]).await?;
    let &[escrow] = &escrow[..] else {
        return Err(WorkError::damaged(format!("{id} has no escrow")));
    };
    let (seq, accounts) = (D::next_direct(conn).await?, (debit, escrow));
    let posting = PostingRow::direct(seq, "fund", accounts, total, Some(campaign_ref), now);
    post::<D>(conn, &[posting]).await?;
    Ok(true)
}

/// Inserts the shares of a red packet. The amounts of a lazy packet are not known yet.
async fn enter_shares<D: Dialect>(
    conn: &mut D::Connection,
    campaign_ref: i64,
    count: u32,
    amounts: &[i64],
) -> Result<(), WorkError> {
    let numbers: Vec<u32> = (1..=count).collect();
    for numbers in numbers.chunks(SHARES_AT_ONCE_MAX) {
        let row = |number: &u32| -> [Value<'_>; 3] {
            let amount = amounts.get(*number as usize - 1).copied();
            [
                campaign_ref.into(),
                i64::from(*number).into(),
                amount.into(),
            ]
        };
        let rows: Vec<_> = numbers.iter().map(row).collect();
        D::execute_rows(conn, &ENTER_SHARES, &rows).await?;
    }
    Ok(())
}

/// Inserts shares of a red packet that have no row: numbers and amounts.
pub(crate) async fn enter_missing_shares<D: Dialect>(
    conn: &mut D::Connection,
    campaign_ref: i64,
    shares: &[(i64, i64)],
) -> Result<(), WorkError> {
    for shares in shares.chunks(SHARES_AT_ONCE_MAX) {
        let row = |share: &(i64, i64)| -> [Value<'_>; 3] {
            [campaign_ref.into(), share.0.into(), Some(share.1).into()]
        };
        let rows: Vec<_> = shares.iter().map(row).collect();
        D::execute_rows(conn, &ENTER_SHARES, &rows).await?;
    }
    Ok(())
}

/// One campaign.
pub(crate) async fn campaign<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, WorkError> {
    let row = campaign_row::<D>(conn, &id.to_string()).await?;
    Ok(row.map(|row| row.record()).transpose()?)
}

/// Campaigns that no engine has opened, oldest first.
pub(crate) async fn drafts<D: Dialect>(
    conn: &mut D::Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, WorkError> {
    ids_behind::<D>(conn, &DRAFTS, after, limit).await
}

/// A campaign with its shares.
pub(crate) async fn setup<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<Setup>, WorkError> {
    let Some(row) = campaign_row::<D>(conn, &id.to_string()).await? else {
        return Ok(None);
    };
    let campaign = row.record()?.campaign;
    let mut amounts: Vec<(Option<i64>,)> = Vec::new();
    if has_fixed_shares(&campaign) {
        amounts = fetch::<D, _>(conn, &AMOUNTS, &[row.campaign_ref.into()]).await?;
    }
    let amounts = amounts.into_iter().filter_map(|(amount,)| amount);
    Ok(Some(setup_of(campaign, amounts.collect())?))
}

/// Red packets with all shares claimed that are not closed.
pub(crate) async fn claimed_packets<D: Dialect>(
    conn: &mut D::Connection,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, WorkError> {
    ids_behind::<D>(conn, &CLAIMED_PACKETS, after, limit).await
}

/// One page of ids, in order of creation.
async fn ids_behind<D: Dialect>(
    conn: &mut D::Connection,
    statement: &'static Statement,
    after: Option<CampaignId>,
    limit: u32,
) -> Result<Vec<CampaignId>, WorkError> {
    // No campaign has the empty id.
    let after = after.map_or_else(String::new, |after| after.to_string());
    let page = [after.as_str().into(), i64::from(limit).into()];
    let ids = fetch::<D, (String,)>(conn, statement, &page).await?;
    ids.iter().map(|(id,)| campaign_id(id)).collect()
}

/// Parses the id column of a campaign.
pub(crate) fn campaign_id(text: &str) -> Result<CampaignId, WorkError> {
    let parsed = text.parse();
    parsed.map_err(|_| WorkError::damaged(format!("{text} is no campaign")))
}

/// Settled grants with numbers above `after`, in order.
pub(crate) async fn grants<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, WorkError> {
    let rows = numbered_rows::<D>(conn, id, (after, limit), &GRANTED_SHARES).await?;
    Ok(rows.into_iter().filter_map(GrantRecord::from_row).collect())
}

/// Times of the settled grants with these numbers, each read by its key.
pub(crate) async fn grant_times<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    numbers: &[u32],
) -> Result<Vec<GrantTimes>, WorkError> {
    let Some(row) = campaign_row::<D>(conn, &id.to_string()).await? else {
        return Ok(Vec::new());
    };
    let statement = match row.kind == CampaignKind::RedPacket.name() {
        true => &SHARE_TIMES,
        false => &ORDER_TIMES,
    };
    let key = |number: &u32| [row.campaign_ref.into(), i64::from(*number).into()];
    let wanted: Vec<[Value<'_>; 2]> = numbers.iter().map(key).collect();
    let rows: Vec<(i64, i64, Option<i64>)> =
        fetch_of::<D, _, 2>(conn, statement, &[], &wanted).await?;
    let mut times: Vec<_> = rows
        .into_iter()
        .filter_map(|(number, granted_at, paid_at)| {
            Some(GrantTimes {
                number: number.try_into().ok()?,
                granted_at: Timestamp::from_millis(granted_at),
                paid_at: paid_at.map(Timestamp::from_millis),
            })
        })
        .collect();
    times.sort_unstable_by_key(|times| times.number);
    Ok(times)
}

/// A user's rows in a campaign, in order.
pub(crate) async fn rows_of_user<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    user: &UserId,
) -> Result<Vec<SettledRow>, WorkError> {
    let Some(row) = campaign_row::<D>(conn, &id.to_string()).await? else {
        return Ok(Vec::new());
    };
    let statement = match row.kind == CampaignKind::RedPacket.name() {
        true => &SHARE_OF_USER,
        false => &SETTLED_ORDERS_OF_USER,
    };
    let values = [row.campaign_ref.into(), user.as_str().into()];
    let rows = fetch::<D, SettledRowColumns>(conn, statement, &values).await?;
    rows.into_iter()
        .map(|row| Ok(SettledRow::from_columns(row)?))
        .collect()
}

/// Up to `limit` rows with numbers above `after`, in order: shares by a statement, or orders.
pub(crate) async fn numbered_rows<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    (after, limit): (u32, u32),
    shares: &'static Statement,
) -> Result<Vec<SettledRow>, WorkError> {
    let Some(row) = campaign_row::<D>(conn, &id.to_string()).await? else {
        return Ok(Vec::new());
    };
    let page = [
        row.campaign_ref.into(),
        i64::from(after).into(),
        i64::from(limit).into(),
    ];
    let statement = match row.kind == CampaignKind::RedPacket.name() {
        true => shares,
        false => &SETTLED_ORDERS,
    };
    let rows = fetch::<D, SettledRowColumns>(conn, statement, &page).await?;
    rows.into_iter()
        .map(|row| Ok(SettledRow::from_columns(row)?))
        .collect()
}

#[cfg(test)]
mod tests {
    /// Shares and orders are read as the same columns. A statement with fewer fails once it has a row.
    #[test]
    fn each_statement_of_settled_rows_has_all_columns() {
        for sql in [
            include_str!("sql/settled_orders.sql"),
            include_str!("sql/settled_orders_of_user.sql"),
            include_str!("postgres/sql/settled_shares.sql"),
            include_str!("postgres/sql/granted_shares.sql"),
            include_str!("postgres/sql/share_of_user.sql"),
            include_str!("mysql/sql/settled_shares.sql"),
            include_str!("mysql/sql/granted_shares.sql"),
            include_str!("mysql/sql/share_of_user.sql"),
        ] {
            let (columns, _) = sql.split_once("FROM").expect("it reads a table");
            assert_eq!(columns.split(',').count(), 10, "{sql}");
        }
    }
}
