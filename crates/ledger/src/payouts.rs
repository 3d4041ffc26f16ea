//! Payouts: money that leaves Qiang, reversed refunds and transfers between users.

use async_trait::async_trait;
use qiang_core::{
    id::{OrderId, PaymentRef, UserId},
    ports::{
        Action, LedgerError, Payout, PayoutKind, PayoutReceipt, PayoutStore, RefundBalance,
        RefundBalanceQuery, RefundDueOrder,
    },
    rows::{
        AccountKey, AccountPurpose, EventRow, MovedColumns, OUTSIDE, OwedOrderColumns,
        PostedRefund, PostingRow, Spend, owed_of, owed_order_of, paid_out_of,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    accounts::{add, adjust, lock_account, post},
    actions,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    discards,
    error::{WorkError, raced},
    pool::AccessMode,
    sql_ledger::SqlLedger,
    webhooks,
};

const PAID_OUT: Statement = sql!(both include_str!("sql/paid_out.sql"));
const DEPOSITED: Statement = sql!(both include_str!("sql/deposited.sql"));
const REVERSALS: Statement = sql!(both
    "SELECT amount FROM payouts WHERE kind = 'reversal' AND reference >= $1 AND reference < $2");
const IS_PAID_OUT: Statement =
    sql!(both "SELECT posting FROM payouts WHERE kind = $1 AND reference = $2");
const REFUND_PLACE: Statement = sql!(both
    "SELECT campaign, number FROM payouts WHERE kind = 'refund_paid' AND reference = $1");
const ENTER_PAYOUT: Statement = sql!(both include_str!("sql/enter_payout.sql"));
const ORDERED: Statement = sql!(both include_str!("sql/ordered.sql"));
const OWED: Statement = sql!(both include_str!("sql/owed.sql"));
const OWED_ORDERS: Statement = sql!("owed_orders");

#[async_trait]
impl<D: Dialect> PayoutStore for SqlLedger<D> {
    async fn pay_out_by(
        &self,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        let args = (self.now(), payout.clone(), by.cloned());
        self.run(AccessMode::Write, args, |conn, (now, payout, by)| {
            Box::pin(pay_out::<D>(conn, *now, payout, by.as_ref()))
        })
        .await
    }

    async fn owed(&self, order: OrderId) -> Result<Vec<RefundBalance>, LedgerError> {
        let owed = self.run(AccessMode::Read, order, |conn, order| {
            Box::pin(owed::<D>(conn, *order))
        });
        Ok(owed.await?.map_or_else(Vec::new, |(_, owed)| owed))
    }

    async fn owed_orders(
        &self,
        query: &RefundBalanceQuery,
    ) -> Result<Vec<RefundDueOrder>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(async {
                let (owner, campaign, number) = query.begins();
                let values = [
                    owner.into(),
                    owner.into(),
                    campaign.as_str().into(),
                    number.into(),
                    i64::from(query.limit).into(),
                ];
                let rows = fetch::<D, OwedOrderColumns>(conn, &OWED_ORDERS, &values).await?;
                rows.into_iter()
                    .map(|row| Ok(owed_order_of(row)?))
                    .collect()
            })
        })
        .await
    }
}

/// Posts a payout, once per reference.
pub(crate) async fn pay_out<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    payout: &Payout,
    by: Option<&Action>,
) -> Result<PayoutReceipt, WorkError> {
    let (kind, reference) = (payout.kind().name(), payout.reference());
    let name = [kind.into(), reference.as_str().into()];
    if let Some(columns) = fetch_one::<D, _>(conn, &PAID_OUT, &name).await? {
        return Ok(paid_out_of(payout, columns)?);
    }
    let spend = match payout {
        Payout::Refund { order, amount, .. } => {
            Spend::refund(*order, *amount, owed::<D>(conn, *order).await?)?
        }
        Payout::Withdrawal { user, amount, .. } => Spend::withdrawal(user, *amount)?,
        Payout::Reversal { .. } => reversal::<D>(conn, payout).await?,
        Payout::RefundReversal { order, reference } => {
            return reverse_refund::<D>(conn, now, (*order, reference), by).await;
        }
        Payout::Transfer {
            user, to, amount, ..
        } => {
            let spend = Spend::transfer(user, to, *amount)?;
            return transfer::<D>(conn, now, (&spend, to, &reference), by).await;
        }
    };
    let locked = lock_account::<D>(conn, spend.account()).await?;
    let (debit, held) = locked.unwrap_or_default();
    // With this lock no other transaction takes from the account. One may have, since the first read: another caller of
    // the same payout, too.
    if let Some(columns) = fetch_one::<D, _>(conn, &PAID_OUT, &name).await? {
        return Ok(paid_out_of(payout, columns)?);
    }
    let spend = match payout {
        Payout::Refund { order, amount, .. } => {
            Spend::refund(*order, *amount, owed::<D>(conn, *order).await?)?
        }
        Payout::Withdrawal { .. } | Payout::RefundReversal { .. } | Payout::Transfer { .. } => {
            spend
        }
        Payout::Reversal { .. } => reversal::<D>(conn, payout).await?,
    };
    let minor = spend.amount.minor;
    spend.check(held)?;
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, spend.amount.currency);
    adjust::<D>(conn, &[(debit, -minor)]).await?;
    let locked = lock_account::<D>(conn, outside).await?;
    let (credit, held) = locked.ok_or_else(|| WorkError::damaged("an account is gone"))?;
    spend.check_outside(held)?;
    adjust::<D>(conn, &[(credit, minor)]).await?;
    let (campaign, number) = spend.order.unzip();
    let number = number.map(i64::from);
    if let Some(action) = by {
        actions::enter::<D>(conn, action).await?;
    }
    let seq = D::next_direct(conn).await?;
    let values = [
        kind.into(),
        reference.as_str().into(),
        seq.into(),
        campaign.into(),
        number.into(),
        minor.into(),
    ];
    raced(D::execute(conn, &ENTER_PAYOUT, &values).await)?;
    let posting = PostingRow::direct(seq, kind, (debit, credit), minor, campaign, now);
    post::<D>(conn, &[PostingRow { number, ..posting }]).await?;
    let told = EventRow::refunded(seq, now, &spend, &reference);
    if let (Payout::Refund { order, .. }, Some(told)) = (payout, told) {
        webhooks::insert_direct_webhook_events::<D>(conn, order.campaign, told).await?;
    }
    Ok(PayoutReceipt {
        amount: spend.amount,
        at: now,
        fresh: true,
    })
}

/// Makes a recorded refund due again. Another transaction that does so at the same time has the same row, and fails.
async fn reverse_refund<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    (order, reference): (OrderId, &PaymentRef),
    by: Option<&Action>,
) -> Result<PayoutReceipt, WorkError> {
    let name = [PayoutKind::Refund.name().into(), reference.as_str().into()];
    let columns = fetch_one::<D, _>(conn, &PAID_OUT, &name).await?;
    let refund = PostedRefund::from_columns(order, columns)?;
    let name = [reference.as_str().into()];
    let place = fetch_one::<D, (i64, i64)>(conn, &REFUND_PLACE, &name).await?;
    let gone = || WorkError::damaged("a refund or an account of it is gone");
    let (campaign, number) = place.ok_or_else(gone)?;
    let (kind, minor) = (PayoutKind::RefundReversal.name(), refund.amount.minor);
    let locked = lock_account::<D>(conn, refund.account()).await?;
    let (credit, due) = locked.ok_or_else(gone)?;
    adjust::<D>(conn, &[(credit, minor)]).await?;
    let outside = AccountKey::new(OUTSIDE, AccountPurpose::Outside, refund.amount.currency);
    let (debit, held) = lock_account::<D>(conn, outside).await?.ok_or_else(gone)?;
    refund.check(due, held)?;
    adjust::<D>(conn, &[(debit, -minor)]).await?;
    if let Some(action) = by {
        actions::enter::<D>(conn, action).await?;
    }
    let seq = D::next_direct(conn).await?;
    let values = [
        kind.into(),
        reference.as_str().into(),
        seq.into(),
        campaign.into(),
        number.into(),
        minor.into(),
    ];
    raced(D::execute(conn, &ENTER_PAYOUT, &values).await)?;
    let posting = PostingRow::direct(seq, kind, (debit, credit), minor, Some(campaign), now);
    let number = Some(number);
    post::<D>(conn, &[PostingRow { number, ..posting }]).await?;
    Ok(PayoutReceipt {
        amount: refund.amount,
        at: now,
        fresh: true,
    })
}

/// Moves money from one user to another. Both accounts are locked in the order of their owners, as by all others.
async fn transfer<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    (spend, to, reference): (&Spend, &UserId, &str),
    by: Option<&Action>,
) -> Result<PayoutReceipt, WorkError> {
    let (kind, minor) = (PayoutKind::Transfer.name(), spend.amount.minor);
    let own = AccountKey::new(to.as_str(), AccountPurpose::User, spend.amount.currency);
    let is_first = spend.user.as_str() < to.as_str();
    let mut locked = None;
    if is_first {
        locked = lock_account::<D>(conn, spend.account()).await?;
    }
    let credited = add::<D>(conn, own, minor).await?;
    if !is_first {
        locked = lock_account::<D>(conn, spend.account()).await?;
    }
    let (debit, held) = locked.unwrap_or_default();
    // Another caller of the same transfer may have taken the money since the first read.
    let name = [kind.into(), reference.into()];
    if fetch_one::<D, (i64,)>(conn, &IS_PAID_OUT, &name)
        .await?
        .is_some()
    {
        return Err(WorkError::Raced);
    }
    spend.check(held)?;
    Spend::check_credited(credited.1)?;
    adjust::<D>(conn, &[(debit, -minor)]).await?;
    if let Some(action) = by {
        actions::enter::<D>(conn, action).await?;
    }
    let seq = D::next_direct(conn).await?;
    let none: Option<i64> = None;
    let values = [
        kind.into(),
        reference.into(),
        seq.into(),
        none.into(),
        none.into(),
        minor.into(),
    ];
    raced(D::execute(conn, &ENTER_PAYOUT, &values).await)?;
    let accounts = (debit, credited.0);
    let posting = PostingRow::direct(seq, kind, accounts, minor, None, now);
    post::<D>(conn, &[posting]).await?;
    Ok(PayoutReceipt {
        amount: spend.amount,
        at: now,
        fresh: true,
    })
}

/// The spend of a deposit's reversal.
async fn reversal<D: Dialect>(
    conn: &mut D::Connection,
    payout: &Payout,
) -> Result<Spend, WorkError> {
    let Payout::Reversal {
        user,
        deposit,
        part,
    } = payout
    else {
        return Err(LedgerError::UnknownDeposit.into());
    };
    let id = deposit.to_string();
    let found = fetch_one::<D, _>(conn, &DEPOSITED, &[id.as_str().into()]).await?;
    let reversed_minor = reversed_minor::<D>(conn, *deposit).await?;
    Ok(Spend::reversal(user, part.as_ref(), found, reversed_minor)?)
}

/// Minor units of a deposit that were reversed.
pub(crate) async fn reversed_minor<D: Dialect>(
    conn: &mut D::Connection,
    deposit: Uuid,
) -> Result<i64, WorkError> {
    let [from, upto] = Payout::reversals_of(deposit);
    let range = [from.as_str().into(), upto.as_str().into()];
    let reversals: Vec<(i64,)> = fetch::<D, _>(conn, &REVERSALS, &range).await?;
    Ok(reversals.iter().map(|(amount,)| amount).sum())
}

/// Refunds due to the buyer of an order by currency, and the campaign's `ref`; `None` if there is no such order.
async fn owed<D: Dialect>(
    conn: &mut D::Connection,
    order: OrderId,
) -> Result<Option<(i64, Vec<RefundBalance>)>, WorkError> {
    let (id, number) = (order.campaign.to_string(), i64::from(order.number));
    let values = [number.into(), id.as_str().into()];
    let Some(columns) = fetch_one::<D, _>(conn, &ORDERED, &values).await? else {
        return Ok(None);
    };
    let (campaign, _, user, ..): &qiang_core::rows::OwedColumns = &columns;
    let (campaign, is_there) = (*campaign, user.is_some());
    let values = [
        campaign.into(),
        number.into(),
        campaign.into(),
        number.into(),
    ];
    let moved: Vec<MovedColumns> = fetch::<D, _>(conn, &OWED, &values).await?;
    let discarded = match is_there {
        true => Vec::new(),
        false => discards::discarded::<D>(conn, order.campaign).await?,
    };
    Ok(owed_of(order, columns, &moved, &discarded)?)
}
