//! The port of a file that records repairs.

use async_trait::async_trait;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, RepairAttempt, RepairRecord, RepairStore, Restatement, WithheldRecord},
    reconcile::{DeletedOrders, PartFacts},
};

use crate::{
    ledger::{order_restoration, repairs, restatements},
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> RepairStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn last_attempt(&self, partition: PartitionId) -> Result<u64, LedgerError> {
        let last = move |conn: &_| repairs::last_attempt(conn, partition);
        query(self.readers(), last).await
    }

    async fn claim_repair(&self, attempt: &RepairAttempt) -> Result<(), LedgerError> {
        let attempt = attempt.clone();
        job(self, 0, move |context| {
            repairs::claim(context.conn, &attempt)
        })
        .await
    }

    async fn begin_repair(
        &self,
        repair: &RepairRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let (repair, attempt) = (repair.clone(), attempt.clone());
        job(self, 0, move |context| {
            repairs::begin(context.conn, &repair, &attempt)
        })
        .await
    }

    async fn withhold(
        &self,
        withheld: &WithheldRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let (withheld, attempt) = (withheld.clone(), attempt.clone());
        job(self, 0, move |context| {
            repairs::withhold(context.conn, &withheld, &attempt)
        })
        .await
    }

    async fn recount(
        &self,
        part: PartFacts,
        units: u64,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let attempt = attempt.clone();
        job(self, 0, move |context| {
            repairs::recount(context.conn, &part, units, &attempt)
        })
        .await
    }

    async fn restore_orders(
        &self,
        deleted: &DeletedOrders,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let (deleted, attempt) = (deleted.clone(), attempt.clone());
        job(self, 0, move |context| {
            order_restoration::restore(context.conn, &deleted, &attempt)
        })
        .await
    }

    async fn restate(&self, restatement: &Restatement) -> Result<bool, LedgerError> {
        let restatement = restatement.clone();
        job(self, 0, move |context| {
            // The writer remembers phases and terms of campaigns.
            context.done.forgets = true;
            restatements::restate(context.conn, &restatement)
        })
        .await
    }

    async fn finish_repair(
        &self,
        epoch: &str,
        upto: Seq,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let (epoch, attempt) = (epoch.to_owned(), attempt.clone());
        job(self, 0, move |context| {
            repairs::finish(context.conn, &epoch, upto, &attempt)
        })
        .await
    }

    async fn release_withheld(&self, partition: PartitionId) -> Result<(), LedgerError> {
        job(self, 0, move |context| {
            repairs::release(context.conn, context.now, partition)
        })
        .await
    }

    async fn repairs(
        &self,
        partition: PartitionId,
        limit: u32,
    ) -> Result<Vec<RepairRecord>, LedgerError> {
        let list = move |conn: &_| repairs::list(conn, partition, limit);
        query(self.readers(), list).await
    }

    async fn withheld(&self, partition: PartitionId) -> Result<Vec<WithheldRecord>, LedgerError> {
        let list = move |conn: &_| repairs::withheld(conn, partition);
        query(self.readers(), list).await
    }
}
