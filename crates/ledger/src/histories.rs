//! Histories of users, newest first.

use async_trait::async_trait;
use qiang_core::{
    id::PaymentRef,
    ports::{
        DepositRecord, HistoryStore, LedgerError, OrderQuery, PaymentRecord, Posting, PostingQuery,
        UserOrder,
    },
    rows::{
        DepositColumns, PaymentColumns, PostingColumns, UserOrderColumns, deposit_of, payment_of,
        posting_of, user_account_of, user_order_of,
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

const ORDERS: Statement = sql!(both include_str!("sql/orders_of_user.sql"));
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
const PAYMENT: Statement = sql!(both include_str!("sql/payment_of.sql"));

#[async_trait]
impl<D: Dialect> HistoryStore for SqlLedger<D> {
    async fn orders_of(&self, query: &OrderQuery) -> Result<Vec<UserOrder>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(orders::<D>(conn, query))
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

/// A page of a user's orders.
async fn orders<D: Dialect>(
    conn: &mut D::Connection,
    query: &OrderQuery,
) -> Result<Vec<UserOrder>, WorkError> {
    let (at, campaign, number) = query.begins();
    let values = [
        query.user.as_str().into(),
        query.state_pattern().into(),
        at.into(),
        at.into(),
        campaign.as_str().into(),
        campaign.as_str().into(),
        number.into(),
        i64::from(query.limit).into(),
    ];
    let rows = fetch::<D, UserOrderColumns>(conn, &ORDERS, &values).await?;
    rows.into_iter()
        .map(|row| Ok(user_order_of(&query.user, row)?))
        .collect()
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
