//! Histories, newest first: orders, payments, postings, and money that came in or left.

use async_trait::async_trait;
use qiang_core::{
    id::PaymentRef,
    ports::{
        DepositRecord, HistoryPage, HistoryStore, LedgerError, Movement, MovementKind,
        MovementQuery, OrderQuery, PaymentQuery, PaymentRecord, Posting, PostingQuery, UserOrder,
    },
    rows::{
        AccountPurpose, DepositColumns, MovementColumns, OldestColumns, PaymentColumns,
        PostingColumns, UserOrderColumns, Value, deposit_of, movement_of, payment_of, posting_of,
        read_from, user_account_of, user_order_of,
    },
};
use uuid::Uuid;

use crate::{
    accounts::accounts_of,
    dialect::{Dialect, Statement, fetch, fetch_one, sql},
    error::WorkError,
    payouts::reversed_minor,
    pool::AccessMode,
    sql_ledger::SqlLedger,
};

/// Texts of statements, one after another.
macro_rules! texts {
    ($($text:expr),*) => { sql!(both concat!($($text),*)) };
}

const ORDERS_OF_USER: Statement = texts!(
    include_str!("sql/orders_listed.sql"),
    include_str!("sql/orders_of_user.sql")
);
const ORDERS_OF_USER_IN_SALE: Statement = texts!(
    include_str!("sql/orders_listed.sql"),
    include_str!("sql/orders_of_user_in_sale.sql")
);
const ORDERS_OF_SALE: Statement = texts!(
    include_str!("sql/orders_listed.sql"),
    include_str!("sql/orders_of_sale.sql")
);
const ORDERS_OF_ALL: Statement = texts!(
    include_str!("sql/orders_listed.sql"),
    include_str!("sql/orders_of_all.sql")
);
const OLDEST_ORDER_OF_SALE: Statement = sql!(both include_str!("sql/oldest_order_of_sale.sql"));
const OLDEST_ORDER: Statement = sql!(both include_str!("sql/oldest_order.sql"));
const POSTINGS_IN: Statement = sql!(both concat!(
    include_str!("sql/postings.sql"),
    include_str!("sql/postings_in.sql"),
    include_str!("sql/postings_page.sql")
));
const POSTINGS_OUT: Statement = sql!(both concat!(
    include_str!("sql/postings.sql"),
    include_str!("sql/postings_out.sql"),
    include_str!("sql/postings_page.sql")
));
const DEPOSIT: Statement = sql!(both include_str!("sql/deposit_of.sql"));
const PAYMENT: Statement = texts!(
    include_str!("sql/payments_listed.sql"),
    include_str!("sql/payment_of.sql")
);
const PAYMENTS_NAMED: Statement = texts!(
    include_str!("sql/payments_listed.sql"),
    include_str!("sql/payments_named.sql")
);
const PAYMENTS_OF_USER: Statement = texts!(
    include_str!("sql/payments_listed.sql"),
    include_str!("sql/payments_of_user.sql")
);
const PAYMENTS_OF_ALL: Statement = sql!(both include_str!("sql/payments_of_all.sql"));
const OLDEST_PAYMENT: Statement = sql!(both include_str!("sql/oldest_payment.sql"));
const DEPOSITS: Statement = sql!(both include_str!("sql/deposits_of_all.sql"));
const DEPOSITS_OF_ACCOUNT: Statement = texts!(
    include_str!("sql/deposits_listed.sql"),
    "  AND p.kind = 'deposit' AND p.credit = $1\n",
    include_str!("sql/movements_page.sql")
);
const DEPOSITS_NAMED: Statement = texts!(
    include_str!("sql/deposits_listed.sql"),
    "  AND d.reference = $1\n"
);
const PAYOUTS: Statement = sql!(both include_str!("sql/payouts_of_all.sql"));
const WITHDRAWALS_OF_ACCOUNT: Statement = texts!(
    include_str!("sql/payouts_listed.sql"),
    "  AND p.kind = 'withdrawal' AND p.debit = $1\n",
    include_str!("sql/movements_page.sql")
);
const REFUNDS_OF_ACCOUNT: Statement = texts!(
    include_str!("sql/payouts_listed.sql"),
    "  AND p.kind = 'refund_paid' AND p.debit = $1\n",
    include_str!("sql/movements_page.sql")
);
const PAYOUTS_NAMED: Statement = texts!(
    include_str!("sql/payouts_listed.sql"),
    "  AND t.kind = $1 AND t.reference = $2\n"
);

#[async_trait]
impl<D: Dialect> HistoryStore for SqlLedger<D> {
    async fn orders_of(&self, query: &OrderQuery) -> Result<HistoryPage<UserOrder>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(orders::<D>(conn, query))
        })
        .await
    }

    async fn payments(
        &self,
        query: &PaymentQuery,
    ) -> Result<HistoryPage<PaymentRecord>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(payments::<D>(conn, query))
        })
        .await
    }

    async fn movements(&self, query: &MovementQuery) -> Result<Vec<Movement>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(movements::<D>(conn, query))
        })
        .await
    }

    async fn postings_of(&self, query: &PostingQuery) -> Result<Vec<Posting>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(postings::<D>(conn, query))
        })
        .await
    }

    async fn deposit_of(&self, id: Uuid) -> Result<Option<DepositRecord>, LedgerError> {
        self.run(AccessMode::Read, id, |conn, id| {
            Box::pin(async {
                let name = id.to_string();
                let values = [name.as_str().into()];
                let found = fetch_one::<D, DepositColumns>(conn, &DEPOSIT, &values);
                let Some(columns) = found.await? else {
                    return Ok(None);
                };
                let reversed_minor = reversed_minor::<D>(conn, *id).await?;
                Ok(Some(deposit_of(columns, reversed_minor)?))
            })
        })
        .await
    }

    async fn payment_of(
        &self,
        reference: &PaymentRef,
    ) -> Result<Option<PaymentRecord>, LedgerError> {
        self.run(AccessMode::Read, reference.clone(), |conn, reference| {
            Box::pin(async {
                let values = [reference.as_str().into()];
                let found = fetch_one::<D, PaymentColumns>(conn, &PAYMENT, &values);
                Ok(found.await?.map(payment_of).transpose()?)
            })
        })
        .await
    }
}

/// A page of orders.
async fn orders<D: Dialect>(
    conn: &mut D::Connection,
    query: &OrderQuery,
) -> Result<HistoryPage<UserOrder>, WorkError> {
    let (at, campaign, number) = query.begins();
    let sale = query.campaign.map(|id| id.to_string());
    let (upto, mut from, mut bound) = (query.ends(), query.created.from_millis(), None);
    if query.is_bounded() {
        let range = [from.into(), upto.into(), i64::from(query.reads_max).into()];
        let oldest = match &sale {
            Some(sale) => {
                let [from, upto, rows] = range;
                let values = [sale.as_str().into(), from, upto, rows];
                fetch_one::<D, OldestColumns>(conn, &OLDEST_ORDER_OF_SALE, &values).await?
            }
            None => fetch_one::<D, OldestColumns>(conn, &OLDEST_ORDER, &range).await?,
        };
        bound = oldest.and_then(|oldest| read_from(oldest, query.reads_max));
        from = bound.unwrap_or(from);
    }
    let (statement, mut values): (_, Vec<Value<'_>>) = match (&query.user, &sale) {
        (Some(user), None) => (&ORDERS_OF_USER, vec![user.as_str().into()]),
        (Some(user), Some(sale)) => {
            let values = vec![user.as_str().into(), sale.as_str().into()];
            (&ORDERS_OF_USER_IN_SALE, values)
        }
        (None, Some(sale)) => (&ORDERS_OF_SALE, vec![sale.as_str().into()]),
        (None, None) => (&ORDERS_OF_ALL, vec![]),
    };
    let page: [Value<'_>; 4] = [
        query.state_pattern().into(),
        from.into(),
        upto.into(),
        at.into(),
    ];
    values.extend(page);
    if sale.is_none() {
        values.push(campaign.as_str().into());
    }
    let end: [Value<'_>; 2] = [number.into(), i64::from(query.limit).into()];
    values.extend(end);
    let rows = fetch::<D, UserOrderColumns>(conn, statement, &values).await?;
    let orders = rows.into_iter().map(|row| Ok(user_order_of(row)?));
    let orders = orders.collect::<Result<_, WorkError>>()?;
    Ok(HistoryPage::new(orders, query.limit, bound))
}

/// A page of payments.
async fn payments<D: Dialect>(
    conn: &mut D::Connection,
    query: &PaymentQuery,
) -> Result<HistoryPage<PaymentRecord>, WorkError> {
    if let Some(reference) = &query.reference {
        let values = [reference.as_str().into()];
        let rows = fetch::<D, PaymentColumns>(conn, &PAYMENTS_NAMED, &values).await?;
        let payments = rows.into_iter().map(|row| Ok(payment_of(row)?));
        let payments = payments.collect::<Result<_, WorkError>>()?;
        return Ok(query.named(payments).into());
    }
    let (at, campaign, number, reference) = query.begins();
    let (upto, mut from, mut bound) = (query.ends(), query.created.from_millis(), None);
    if query.is_bounded() {
        let range = [from.into(), upto.into(), i64::from(query.reads_max).into()];
        let oldest = fetch_one::<D, OldestColumns>(conn, &OLDEST_PAYMENT, &range).await?;
        bound = oldest.and_then(|oldest| read_from(oldest, query.reads_max));
        from = bound.unwrap_or(from);
    }
    let (statement, mut values): (_, Vec<Value<'_>>) = match &query.user {
        Some(user) => (&PAYMENTS_OF_USER, vec![user.as_str().into()]),
        None => (&PAYMENTS_OF_ALL, vec![]),
    };
    let page: [Value<'_>; 8] = [
        query.outcome_pattern().into(),
        from.into(),
        upto.into(),
        at.into(),
        campaign.as_str().into(),
        number.into(),
        reference.as_str().into(),
        i64::from(query.limit).into(),
    ];
    values.extend(page);
    let rows = fetch::<D, PaymentColumns>(conn, statement, &values).await?;
    let payments = rows.into_iter().map(|row| Ok(payment_of(row)?));
    let payments = payments.collect::<Result<_, WorkError>>()?;
    Ok(HistoryPage::new(payments, query.limit, bound))
}

/// A page of deposits, withdrawals or refunds.
async fn movements<D: Dialect>(
    conn: &mut D::Connection,
    query: &MovementQuery,
) -> Result<Vec<Movement>, WorkError> {
    let kind = query.kind.name();
    let (named, all, of_account, purpose) = match query.kind {
        MovementKind::Deposit => (
            &DEPOSITS_NAMED,
            &DEPOSITS,
            &DEPOSITS_OF_ACCOUNT,
            AccountPurpose::User,
        ),
        MovementKind::Withdrawal => (
            &PAYOUTS_NAMED,
            &PAYOUTS,
            &WITHDRAWALS_OF_ACCOUNT,
            AccountPurpose::User,
        ),
        MovementKind::Refund => (
            &PAYOUTS_NAMED,
            &PAYOUTS,
            &REFUNDS_OF_ACCOUNT,
            AccountPurpose::RefundsDue,
        ),
    };
    let mut rows = Vec::new();
    if let Some(reference) = &query.reference {
        let values: &[Value<'_>] = match query.kind {
            MovementKind::Deposit => &[reference.as_str().into()],
            _ => &[kind.into(), reference.as_str().into()],
        };
        rows = fetch::<D, MovementColumns>(conn, named, values).await?;
    } else {
        let (at, seq) = query.begins();
        let page = |first: Value<'static>| -> [Value<'static>; 6] {
            let from = query.created.from_millis();
            let limit = i64::from(query.limit);
            [
                first,
                from.into(),
                at.into(),
                at.into(),
                seq.into(),
                limit.into(),
            ]
        };
        if let Some(user) = &query.user {
            let owner = std::iter::once(user.as_str());
            for (id, _, of, ..) in accounts_of::<D>(conn, owner).await? {
                if of == purpose.name() {
                    let values = page(id.into());
                    rows.extend(fetch::<D, MovementColumns>(conn, of_account, &values).await?);
                }
            }
        } else {
            rows = fetch::<D, MovementColumns>(conn, all, &page(kind.into())).await?;
        }
    }
    let found: Result<Vec<_>, WorkError> =
        rows.into_iter().map(|row| Ok(movement_of(row)?)).collect();
    let mut found = query.newest(found?);
    for movement in &mut found {
        if let Some(deposit) = movement.deposit {
            movement.reversed_minor = reversed_minor::<D>(conn, deposit).await?;
        }
    }
    Ok(found)
}

/// A page of what moved in a user's accounts: the newest of each, and of these the newest.
async fn postings<D: Dialect>(
    conn: &mut D::Connection,
    query: &PostingQuery,
) -> Result<Vec<Posting>, WorkError> {
    let mut found = Vec::new();
    let owner = std::iter::once(query.user.as_str());
    for (id, _, purpose, currency, _) in accounts_of::<D>(conn, owner).await? {
        let Some(account) = user_account_of(&purpose, &currency) else {
            continue;
        };
        for (statement, comes) in [(&POSTINGS_IN, true), (&POSTINGS_OUT, false)] {
            let (at, source, seq) = query.begins(comes);
            let values = [
                id.into(),
                query.kind_pattern().into(),
                at.into(),
                at.into(),
                source.into(),
                source.into(),
                seq.into(),
                i64::from(query.limit).into(),
            ];
            for row in fetch::<D, PostingColumns>(conn, statement, &values).await? {
                found.push(posting_of(account, comes, row)?);
            }
        }
    }
    Ok(query.newest(found))
}
