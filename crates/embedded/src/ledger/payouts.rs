//! Payouts: money that leaves Qiang, reversed refunds and transfers between users.

use qiang_core::{
    id::{OrderId, PaymentRef, UserId},
    ports::{
        Action, Payout, PayoutKind, PayoutReceipt, RefundBalance, RefundBalanceQuery,
        RefundDueOrder,
    },
    rows::{
        AccountKey, AccountPurpose, EventRow, MovedColumns, OUTSIDE, OwedColumns, OwedOrderColumns,
        PaidOutColumns, PostedRefund, PostingRow, Spend, owed_of, owed_order_of, paid_out_of,
    },
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use super::{
    accounts::{Accounts, balance, next_direct, post},
    actions, discards, webhooks,
};
use crate::error::DataFileError;

/// Posts a payout, once per reference.
pub(crate) fn pay_out(
    conn: &Connection,
    now: Timestamp,
    payout: &Payout,
    by: Option<&Action>,
) -> Result<PayoutReceipt, DataFileError> {
    let (kind, reference) = (payout.kind().name(), payout.reference());
    if let Some(columns) = posted(conn, payout.kind(), &reference)? {
        return paid_out_of(payout, columns).map_err(DataFileError::Refused);
    }
    let spend = match payout {
        Payout::Refund { order, amount, .. } => Spend::refund(*order, *amount, owed(conn, *order)?),
        Payout::Withdrawal { user, amount, .. } => Spend::withdrawal(user, *amount),
        Payout::Reversal {
            user,
            deposit: id,
            part,
        } => {
            let mut deposit = conn.prepare_cached(
                "SELECT p.amount, a.owner, a.currency FROM deposits d \
                 JOIN postings p ON p.source = -1 AND p.seq = d.posting JOIN accounts a ON a.id = p.credit \
                 WHERE d.id = ?1",
            )?;
            let deposit = deposit.query_row([id.to_string()], |row| row.try_into());
            let reversed_minor = reversed_minor(conn, *id)?;
            Spend::reversal(user, part.as_ref(), deposit.optional()?, reversed_minor)
        }
        Payout::RefundReversal { order, reference } => {
            return reverse_refund(conn, now, (*order, reference), by);
        }
        Payout::Transfer {
            user, to, amount, ..
        } => {
            let spend = Spend::transfer(user, to, *amount).map_err(DataFileError::Refused)?;
            return transfer(conn, now, (&spend, to, &reference), by);
        }
    };
    let spend = spend.map_err(DataFileError::Refused)?;
    let held = balance(conn, spend.account())?;
    spend.check(held).map_err(DataFileError::Refused)?;
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, spend.amount.currency);
    let held = balance(conn, outside)?;
    spend.check_outside(held).map_err(DataFileError::Refused)?;
    let (seq, minor) = (next_direct(conn)?, spend.amount.minor);
    let (campaign, number) = spend.order.unzip();
    conn.prepare_cached(
        "INSERT INTO payouts (kind, reference, posting, campaign, number, amount) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![kind, reference, seq, campaign, number, minor])?;
    let mut accounts = Accounts::prepare(conn)?;
    let ids = (
        accounts.add(spend.account(), -minor)?,
        accounts.add(outside, minor)?,
    );
    let posting = PostingRow::direct(seq, kind, ids, minor, campaign, now);
    let number = number.map(i64::from);
    post(conn, &[PostingRow { number, ..posting }])?;
    if let Some(action) = by {
        actions::enter(conn, action)?;
    }
    let told = EventRow::refunded(seq, now, &spend, &reference);
    if let (Payout::Refund { order, .. }, Some(told)) = (payout, told) {
        webhooks::insert_direct_webhook_events(conn, order.campaign, told)?;
    }
    Ok(PayoutReceipt {
        amount: spend.amount,
        at: now,
        fresh: true,
    })
}

/// Columns of a payout's posting, if it was posted.
fn posted(
    conn: &Connection,
    kind: PayoutKind,
    reference: &str,
) -> Result<Option<PaidOutColumns>, DataFileError> {
    let mut found = conn.prepare_cached(
        "SELECT p.amount, p.at, a.owner, a.currency, c.id, p.number, k.owner FROM payouts t \
         JOIN postings p ON p.source = -1 AND p.seq = t.posting JOIN accounts a ON a.id = p.debit \
         JOIN accounts k ON k.id = p.credit LEFT JOIN campaigns c ON c.ref = p.campaign \
         WHERE t.kind = ?1 AND t.reference = ?2",
    )?;
    let found = found.query_row([kind.name(), reference], |row| {
        PaidOutColumns::try_from(row)
    });
    Ok(found.optional()?)
}

/// Makes a recorded refund due again.
fn reverse_refund(
    conn: &Connection,
    now: Timestamp,
    (order, reference): (OrderId, &PaymentRef),
    by: Option<&Action>,
) -> Result<PayoutReceipt, DataFileError> {
    let columns = posted(conn, PayoutKind::Refund, reference.as_str())?;
    let refund = PostedRefund::from_columns(order, columns).map_err(DataFileError::Refused)?;
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, refund.amount.currency);
    let (due, held) = (balance(conn, refund.account())?, balance(conn, outside)?);
    refund.check(due, held).map_err(DataFileError::Refused)?;
    let (kind, minor) = (PayoutKind::RefundReversal.name(), refund.amount.minor);
    let seq = next_direct(conn)?;
    let mut place = conn.prepare_cached(
        "INSERT INTO payouts (kind, reference, posting, campaign, number, amount) \
         SELECT ?1, reference, ?2, campaign, number, amount FROM payouts \
         WHERE kind = 'refund_paid' AND reference = ?3 RETURNING campaign, number",
    )?;
    let place = place.query_row(params![kind, seq, reference.as_str()], |row| row.try_into());
    let (campaign, number): (i64, i64) = place?;
    let mut accounts = Accounts::prepare(conn)?;
    let ids = (
        accounts.add(outside, -minor)?,
        accounts.add(refund.account(), minor)?,
    );
    let posting = PostingRow::direct(seq, kind, ids, minor, Some(campaign), now);
    let number = Some(number);
    post(conn, &[PostingRow { number, ..posting }])?;
    by.map_or(Ok(()), |action| actions::enter(conn, action))?;
    Ok(PayoutReceipt {
        amount: refund.amount,
        at: now,
        fresh: true,
    })
}

/// Moves money from one user to another.
fn transfer(
    conn: &Connection,
    now: Timestamp,
    (spend, to, reference): (&Spend, &UserId, &str),
    by: Option<&Action>,
) -> Result<PayoutReceipt, DataFileError> {
    let (kind, minor) = (PayoutKind::Transfer.name(), spend.amount.minor);
    let own = AccountKey::new(to.as_str(), AccountPurpose::User, spend.amount.currency);
    let held = balance(conn, spend.account())?;
    spend.check(held).map_err(DataFileError::Refused)?;
    let credited = balance(conn, own)?.saturating_add(minor);
    Spend::check_credited(credited).map_err(DataFileError::Refused)?;
    let seq = next_direct(conn)?;
    conn.prepare_cached(
        "INSERT INTO payouts (kind, reference, posting, amount) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![kind, reference, seq, minor])?;
    let mut accounts = Accounts::prepare(conn)?;
    let ids = (
        accounts.add(spend.account(), -minor)?,
        accounts.add(own, minor)?,
    );
    post(
        conn,
        &[PostingRow::direct(seq, kind, ids, minor, None, now)],
    )?;
    by.map_or(Ok(()), |action| actions::enter(conn, action))?;
    Ok(PayoutReceipt {
        amount: spend.amount,
        at: now,
        fresh: true,
    })
}

/// Minor units of a deposit that were reversed.
pub(crate) fn reversed_minor(conn: &Connection, deposit: Uuid) -> Result<i64, DataFileError> {
    let mut sum = conn.prepare_cached(
        "SELECT coalesce(sum(amount), 0) FROM payouts WHERE kind = 'reversal' AND reference >= ?1 AND reference < ?2",
    )?;
    let range = Payout::reversals_of(deposit);
    Ok(sum.query_row(rusqlite::params_from_iter(range), |row| row.get(0))?)
}

/// Refunds due to the buyer of an order by currency, and the campaign's `ref`; `None` if there is no such order.
pub(crate) fn owed(
    conn: &Connection,
    order: OrderId,
) -> Result<Option<(i64, Vec<RefundBalance>)>, DataFileError> {
    let mut columns = conn.prepare_cached(
        "SELECT c.ref, c.currency, o.user, o.amount, o.state, o.quantity, o.returned_in_parts FROM campaigns c \
         LEFT JOIN orders o ON o.campaign = c.ref AND o.number = ?2 WHERE c.id = ?1",
    )?;
    let id = order.campaign.to_string();
    let columns = columns.query_row(params![id, order.number], |row| OwedColumns::try_from(row));
    let Some(columns) = columns.optional()? else {
        return Ok(None);
    };
    // A refund counts also where its posting is gone, then as of the campaign's currency.
    let mut moved = conn.prepare_cached(
        "SELECT outcome, amount, currency FROM payments \
         WHERE campaign = ?1 AND number = ?2 \
         UNION ALL SELECT t.kind, t.amount, a.currency FROM payouts t \
         LEFT JOIN postings p ON p.source = -1 AND p.seq = t.posting LEFT JOIN accounts a ON a.id = p.debit \
         WHERE t.campaign = ?1 AND t.number = ?2",
    )?;
    let moved = moved.query_map(params![columns.0, order.number], |row| row.try_into())?;
    let moved: Vec<MovedColumns> = moved.collect::<Result<_, _>>()?;
    let discarded = match &columns.2 {
        Some(_) => Vec::new(),
        None => discards::discarded(conn, order.campaign)?,
    };
    Ok(owed_of(order, columns, &moved, &discarded)?)
}

/// A page of the orders that something is still owed for.
pub(crate) fn owed_orders(
    conn: &Connection,
    query: &RefundBalanceQuery,
) -> Result<Vec<RefundDueOrder>, DataFileError> {
    let mut orders = conn.prepare_cached(
        // An order is on a page with all currencies that something is owed in: the limit counts orders.
        "SELECT id, number, buyer, currency, due, paid FROM ( \
         SELECT c.ref, c.id, m.number, m.buyer, m.currency, sum(m.due) AS due, sum(m.paid) AS paid, \
         dense_rank() OVER (ORDER BY c.ref, m.number) AS place FROM ( \
             SELECT p.campaign, p.number, a.owner AS buyer, a.currency, p.amount AS due, 0 AS paid \
             FROM accounts a JOIN postings p ON p.credit = a.id \
             WHERE a.purpose = 'refunds_due' AND a.balance > 0 AND p.kind <> 'refund_reversal' \
             UNION ALL SELECT p.campaign, p.number, a.owner, a.currency, 0, p.amount \
             FROM accounts a JOIN postings p ON p.debit = a.id AND p.kind = 'refund_paid' \
             WHERE a.purpose = 'refunds_due' AND a.balance > 0 \
             UNION ALL SELECT p.campaign, p.number, a.owner, a.currency, 0, -p.amount \
             FROM accounts a JOIN postings p ON p.credit = a.id AND p.kind = 'refund_reversal' \
             WHERE a.purpose = 'refunds_due' AND a.balance > 0 \
         ) m JOIN campaigns c ON c.ref = m.campaign WHERE (?1 = '' OR c.owner = ?1) \
         AND (c.ref, m.number) > (coalesce((SELECT b.ref FROM campaigns b WHERE b.id = ?2), 0), ?3) \
         GROUP BY c.ref, c.id, m.number, m.buyer, m.currency HAVING sum(m.due) > sum(m.paid) \
         ) WHERE place <= ?4 ORDER BY ref, number, currency",
    )?;
    let (owner, campaign, number) = query.begins();
    let page = params![owner, campaign, number, query.limit];
    let rows = orders.query_map(page, |row| OwedOrderColumns::try_from(row))?;
    rows.map(|row| Ok(owed_order_of(row?)?)).collect()
}
