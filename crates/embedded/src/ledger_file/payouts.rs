//! The payout port of a file.

use async_trait::async_trait;
use qiang_core::{
    id::OrderId,
    ports::{
        Action, LedgerError, Payout, PayoutReceipt, PayoutStore, RefundBalance, RefundBalanceQuery,
        RefundDueOrder,
    },
};

use crate::{
    ledger::payouts,
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> PayoutStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn pay_out_by(
        &self,
        payout: &Payout,
        by: Option<&Action>,
    ) -> Result<PayoutReceipt, LedgerError> {
        let (payout, by) = (payout.clone(), by.cloned());
        job(self, 0, move |context| {
            payouts::pay_out(context.conn, context.now, &payout, by.as_ref())
        })
        .await
    }

    async fn owed(&self, order: OrderId) -> Result<Vec<RefundBalance>, LedgerError> {
        let owed = query(self.readers(), move |conn| payouts::owed(conn, order)).await;
        owed.map(|owed| owed.map_or_else(Vec::new, |(_, owed)| owed))
    }

    async fn owed_orders(
        &self,
        wanted: &RefundBalanceQuery,
    ) -> Result<Vec<RefundDueOrder>, LedgerError> {
        let wanted = wanted.clone();
        let owed = move |conn: &_| payouts::owed_orders(conn, &wanted);
        query(self.readers(), owed).await
    }
}
