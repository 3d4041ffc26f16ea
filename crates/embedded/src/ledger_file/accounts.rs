//! The account and action ports of a file.

use async_trait::async_trait;
use qiang_core::{
    id::UserId,
    money::{Currency, Money},
    ports::{AccountStore, Action, ActionStore, Balance, LedgerError},
};
use uuid::Uuid;

use crate::{
    ledger::{accounts, actions},
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> AccountStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn deposit_by(
        &self,
        id: Uuid,
        user: &UserId,
        amount: Money,
        by: Option<&Action>,
    ) -> Result<(), LedgerError> {
        let (user, by) = (user.clone(), by.cloned());
        job(self, 0, move |context| {
            let (conn, now) = (context.conn, context.now);
            accounts::deposit(conn, now, id, (&user, amount), by.as_ref())
        })
        .await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        let user = user.clone();
        query(self.readers(), move |conn| accounts::balances(conn, &user)).await
    }

    async fn money_in(&self, currency: Currency) -> Result<i64, LedgerError> {
        query(self.readers(), move |conn| {
            accounts::money_in(conn, currency)
        })
        .await
    }
}

#[async_trait]
impl<H: 'static> ActionStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn record(&self, action: &Action) -> Result<(), LedgerError> {
        let action = action.clone();
        job(self, 0, move |context| {
            actions::enter(context.conn, &action)
        })
        .await
    }

    async fn strike(&self, action: Uuid) -> Result<(), LedgerError> {
        job(self, 0, move |context| {
            actions::strike(context.conn, action)
        })
        .await
    }

    async fn actions(
        &self,
        subject: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        let subject = subject.to_owned();
        let list = move |conn: &_| actions::list(conn, &subject, after, limit);
        query(self.readers(), list).await
    }
}
