//! Rows of orders and shares that were deleted by hand, put back before a repair.

use qiang_core::{
    ports::RepairAttempt,
    reconcile::DeletedOrders,
    rows::AccountKey,
    settlement::{
        RemainingOrderColumns, RemainingPaymentColumns, RemainingPostingColumns,
        RemainingReturnColumns, RemainingRows, RemainingShareColumns, SettlementPlan,
    },
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{repairs, settle};
use crate::error::DataFileError;

/// Puts back what the ledger lacks of orders or shares. Doing it again changes nothing.
pub(crate) fn restore(
    conn: &Connection,
    deleted: &DeletedOrders,
    attempt: &RepairAttempt,
) -> Result<(), DataFileError> {
    repairs::check_attempt(conn, attempt)?;
    let numbers = || deleted.orders.iter().map(|order| order.number);
    let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else {
        return Ok(());
    };
    let campaigns = settle::known_campaigns(conn, deleted.partition, &[deleted.campaign])?;
    let Some(known) = campaigns.first() else {
        return Ok(());
    };
    let left = remaining_rows(conn, (known.campaign_ref, first, last))?;
    let mut enter =
        conn.prepare_cached("INSERT INTO shares (campaign, number, amount) VALUES (?1, ?2, ?3)")?;
    for (number, amount) in left.missing_shares(known, deleted) {
        enter.execute((known.campaign_ref, number, amount))?;
    }
    let mut plan = SettlementPlan::restore_orders(known, deleted, &left)?;
    if !are_balanced(conn, &plan)? {
        for (_, amount) in &mut plan.accounts {
            *amount = 0;
        }
    }
    settle::write(conn, deleted.partition, plan, &campaigns)
}

fn remaining_rows(
    conn: &Connection,
    range: (i64, u32, u32),
) -> Result<RemainingRows, DataFileError> {
    let mut orders = conn.prepare_cached(
        "SELECT number, updated_at FROM orders WHERE campaign = ?1 AND number BETWEEN ?2 AND ?3",
    )?;
    let orders = orders.query_map(range, |row| RemainingOrderColumns::try_from(row))?;
    let mut shares = conn.prepare_cached(
        "SELECT number, user FROM shares WHERE campaign = ?1 AND number BETWEEN ?2 AND ?3",
    )?;
    let shares = shares.query_map(range, |row| RemainingShareColumns::try_from(row))?;
    let mut payments = conn.prepare_cached(
        "SELECT number, payment, at FROM payments WHERE campaign = ?1 AND number BETWEEN ?2 AND ?3",
    )?;
    let payments = payments.query_map(range, |row| RemainingPaymentColumns::try_from(row))?;
    let mut returns = conn.prepare_cached(
        "SELECT number, quantity, amount, at FROM order_returns \
         WHERE campaign = ?1 AND number BETWEEN ?2 AND ?3 AND kind = 'return'",
    )?;
    let returns = returns.query_map(range, |row| RemainingReturnColumns::try_from(row))?;
    let mut postings = conn.prepare_cached(
        "SELECT p.number, p.kind, p.amount, a.currency, p.at \
         FROM postings p LEFT JOIN accounts a ON a.id = p.credit \
         WHERE p.campaign = ?1 AND p.number BETWEEN ?2 AND ?3 \
         AND p.kind IN ('grant', 'payment', 'refund_due', 'return')",
    )?;
    let postings = postings.query_map(range, |row| RemainingPostingColumns::try_from(row))?;
    Ok(RemainingRows {
        orders: orders.collect::<Result<_, _>>()?,
        shares: shares.collect::<Result<_, _>>()?,
        payments: payments.collect::<Result<_, _>>()?,
        returns: returns.collect::<Result<_, _>>()?,
        postings: postings.collect::<Result<_, _>>()?,
    })
}

/// Whether all accounts of a plan have the balances that their postings say. If one has not, its balance still has the
/// money of deleted postings. Then no account moves: a posting that moved one of its accounts would create money.
///
/// Deleted postings do not add up to nothing by coincidence. Each posting of an order moves the account outside or what
/// a buyer is owed, and only payouts move these the other way. Payouts are numbered, so that a missing one shows.
fn are_balanced(conn: &Connection, plan: &SettlementPlan<'_>) -> Result<bool, DataFileError> {
    for (account, _) in &plan.accounts {
        if !is_balanced(conn, *account)? {
            return Ok(false);
        }
    }
    let mut statement = conn.prepare_cached(
        "SELECT d.seq = (SELECT count(*) FROM postings WHERE source = -1 AND seq <= d.seq) FROM direct_postings d",
    )?;
    let whole = statement.query_row([], |row| row.get(0));
    Ok(whole.optional()?.unwrap_or(false))
}

/// Whether an account's balance is what its postings say; an account that is not there has none.
fn is_balanced(conn: &Connection, account: AccountKey<'_>) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached(
        "SELECT a.balance = coalesce((SELECT sum(amount) FROM postings WHERE credit = a.id), 0) \
         - coalesce((SELECT sum(amount) FROM postings WHERE debit = a.id), 0) \
         FROM accounts a WHERE a.owner = ?1 AND a.purpose = ?2 AND a.currency = ?3",
    )?;
    let (owner, purpose, currency) = account.columns();
    let balanced = statement.query_row(params![owner, purpose, currency], |row| row.get(0));
    Ok(balanced.optional()?.unwrap_or(true))
}
