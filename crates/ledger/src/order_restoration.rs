//! Rows of orders and shares that were deleted by hand, put back before a repair.

use qiang_core::{
    ports::RepairAttempt,
    reconcile::DeletedOrders,
    rows::{AccountKey, Value},
    settlement::{
        RemainingOrderColumns, RemainingPaymentColumns, RemainingPostingColumns,
        RemainingReturnColumns, RemainingRows, RemainingShareColumns, SettlementPlan,
    },
};

use crate::{
    campaigns as campaign_rows,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::WorkError,
    repairs, settle,
};

const REMAINING_ORDERS: Statement = sql!(both include_str!("sql/remaining_orders.sql"));
const REMAINING_SHARES: Statement = sql!(both r#"SELECT number, "user" FROM shares
WHERE campaign = $1 AND number BETWEEN $2 AND $3"#);
const REMAINING_PAYMENTS: Statement = sql!(both include_str!("sql/remaining_payments.sql"));
const REMAINING_RETURNS: Statement = sql!(both include_str!("sql/remaining_returns.sql"));
const REMAINING_POSTINGS: Statement = sql!(both include_str!("sql/remaining_postings.sql"));
const POSTED_BALANCE: Statement = sql!("posted_balance");
const DIRECT_POSTINGS: Statement = sql!(both include_str!("sql/direct_postings.sql"));

/// Puts back what the ledger lacks of orders or shares. Doing it again changes nothing.
pub(crate) async fn restore<D: Dialect>(
    conn: &mut D::Connection,
    deleted: &DeletedOrders,
    attempt: &RepairAttempt,
) -> Result<(), WorkError> {
    let numbers = || deleted.orders.iter().map(|order| order.number);
    let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else {
        return Ok(());
    };
    let source = i64::from(deleted.partition.0);
    // This locks the partition's position: no other process settles it, or restores its rows, before the commit.
    repairs::check_attempt::<D>(conn, attempt).await?;
    let id = deleted.campaign.to_string();
    let campaigns = settle::known_campaigns::<D>(conn, source, &[id]).await?;
    let Some(known) = campaigns.first() else {
        return Ok(());
    };
    let range = [known.campaign_ref, first.into(), last.into()].map(Value::from);
    let left = RemainingRows {
        orders: fetch::<D, RemainingOrderColumns>(conn, &REMAINING_ORDERS, &range).await?,
        shares: fetch::<D, RemainingShareColumns>(conn, &REMAINING_SHARES, &range).await?,
        payments: fetch::<D, RemainingPaymentColumns>(conn, &REMAINING_PAYMENTS, &range).await?,
        returns: fetch::<D, RemainingReturnColumns>(conn, &REMAINING_RETURNS, &range).await?,
        postings: fetch::<D, RemainingPostingColumns>(conn, &REMAINING_POSTINGS, &range).await?,
    };
    campaign_rows::enter_missing_shares::<D>(
        conn,
        known.campaign_ref,
        &left.missing_shares(known, deleted),
    )
    .await?;
    let mut plan = SettlementPlan::restore_orders(known, deleted, &left)?;
    if !are_balanced::<D>(conn, &plan).await? {
        for (_, amount) in &mut plan.accounts {
            *amount = 0;
        }
    }
    settle::write::<D>(conn, deleted.partition, plan).await
}

/// Whether all accounts of a plan have the balances that their postings say. If one has not, its balance still has the
/// money of deleted postings. Then no account moves: a posting that moved one of its accounts would create money.
///
/// Deleted postings do not add up to nothing by coincidence. Each posting of an order moves the account outside or what
/// a buyer is owed, and only payouts move these the other way. Payouts are numbered, so that a missing one shows.
async fn are_balanced<D: Dialect>(
    conn: &mut D::Connection,
    plan: &SettlementPlan<'_>,
) -> Result<bool, WorkError> {
    for (account, _) in &plan.accounts {
        if !is_balanced::<D>(conn, *account).await? {
            return Ok(false);
        }
    }
    let counted = fetch_one::<D, (i64, i64)>(conn, &DIRECT_POSTINGS, &[]).await?;
    Ok(counted.is_some_and(|(last, count)| last == count))
}

/// Whether an account's balance is what its postings say; an account that is not there has none.
async fn is_balanced<D: Dialect>(
    conn: &mut D::Connection,
    account: AccountKey<'_>,
) -> Result<bool, WorkError> {
    let (owner, purpose, currency) = account.columns();
    let key = [owner.into(), purpose.into(), currency.into()];
    // One statement sees both as of one moment.
    let found = fetch_one::<D, (i64, i64)>(conn, &POSTED_BALANCE, &key).await?;
    Ok(found.is_none_or(|(balance, posted)| balance == posted))
}
