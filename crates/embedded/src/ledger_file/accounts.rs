//! The account and action ports of a file.

use async_trait::async_trait;
use qiang_core::{
    id::{PaymentRef, UserId},
    money::{Currency, Money},
    ports::{AccountStore, Action, ActionQuery, ActionStore, Balance, LedgerError},
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

    async fn record_refusal(
        &self,
        action: &Action,
        payment: &PaymentRef,
    ) -> Result<(), LedgerError> {
        let (action, payment) = (action.clone(), payment.clone());
        job(self, 0, move |context| {
            actions::enter_refusal(context.conn, &action, &payment)
        })
        .await
    }

    async fn refusal_of(&self, payment: &PaymentRef) -> Result<Option<Action>, LedgerError> {
        let payment = payment.clone();
        let find = move |conn: &_| actions::refusal(conn, &payment);
        query(self.readers(), find).await
    }

    async fn action_log(&self, wanted: &ActionQuery) -> Result<Vec<Action>, LedgerError> {
        let wanted = *wanted;
        query(self.readers(), move |conn| actions::log(conn, &wanted)).await
    }
}
