//! The history port of a file.

use async_trait::async_trait;
use qiang_core::{
    id::PaymentRef,
    ports::{
        DepositRecord, HistoryPage, HistoryStore, LedgerError, Movement, MovementQuery, OrderQuery,
        PaymentQuery, PaymentRecord, Posting, PostingQuery, UserOrder,
    },
};
use uuid::Uuid;

use crate::{
    ledger::histories,
    ledger_file::{LedgerFile, SqliteLedgerHost},
    reader::query,
};

#[async_trait]
impl<H: 'static> HistoryStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn orders_of(&self, wanted: &OrderQuery) -> Result<HistoryPage<UserOrder>, LedgerError> {
        let wanted = wanted.clone();
        let orders = move |conn: &_| histories::orders(conn, &wanted);
        query(self.readers(), orders).await
    }

    async fn payments(
        &self,
        wanted: &PaymentQuery,
    ) -> Result<HistoryPage<PaymentRecord>, LedgerError> {
        let wanted = wanted.clone();
        let payments = move |conn: &_| histories::payments(conn, &wanted);
        query(self.readers(), payments).await
    }

    async fn movements(&self, wanted: &MovementQuery) -> Result<Vec<Movement>, LedgerError> {
        let wanted = wanted.clone();
        let movements = move |conn: &_| histories::movements(conn, &wanted);
        query(self.readers(), movements).await
    }

    async fn postings_of(&self, wanted: &PostingQuery) -> Result<Vec<Posting>, LedgerError> {
        let wanted = wanted.clone();
        let postings = move |conn: &_| histories::postings(conn, &wanted);
        query(self.readers(), postings).await
    }

    async fn deposit_of(&self, id: Uuid) -> Result<Option<DepositRecord>, LedgerError> {
        query(self.readers(), move |conn| histories::deposit(conn, id)).await
    }

    async fn payment_of(
        &self,
        reference: &PaymentRef,
    ) -> Result<Option<PaymentRecord>, LedgerError> {
        let reference = reference.clone();
        let payment = move |conn: &_| histories::payment(conn, &reference);
        query(self.readers(), payment).await
    }
}
