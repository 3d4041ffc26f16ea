//! The `RepairStore` port.

use async_trait::async_trait;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, RepairAttempt, RepairRecord, RepairStore, Restatement, WithheldRecord},
    reconcile::{DeletedOrders, PartFacts},
};

use super::SqlLedger;
use crate::{
    dialect::Dialect, order_restoration, pool::AccessMode, recounts, repairs, restatements,
};

#[async_trait]
impl<D: Dialect> RepairStore for SqlLedger<D> {
    async fn last_attempt(&self, partition: PartitionId) -> Result<u64, LedgerError> {
        self.read(move |conn| Box::pin(repairs::last_attempt::<D>(conn, partition)))
            .await
    }

    async fn claim_repair(&self, attempt: &RepairAttempt) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, attempt.clone(), |conn, attempt| {
            Box::pin(repairs::claim::<D>(conn, attempt))
        })
        .await
    }

    async fn begin_repair(
        &self,
        repair: &RepairRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let both = (repair.clone(), attempt.clone());
        self.run(AccessMode::Write, both, |conn, (repair, attempt)| {
            Box::pin(repairs::begin::<D>(conn, repair, attempt))
        })
        .await
    }

    async fn withhold(
        &self,
        withheld: &WithheldRecord,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let both = (withheld.clone(), attempt.clone());
        self.run(AccessMode::Write, both, |conn, (withheld, attempt)| {
            Box::pin(repairs::withhold::<D>(conn, withheld, attempt))
        })
        .await
    }

    async fn recount(
        &self,
        part: PartFacts,
        units: u64,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let both = (part, attempt.clone());
        self.run(AccessMode::Write, both, move |conn, (part, attempt)| {
            Box::pin(recounts::recount::<D>(conn, part, units, attempt))
        })
        .await
    }

    async fn restore_orders(
        &self,
        deleted: &DeletedOrders,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let both = (deleted.clone(), attempt.clone());
        self.run(AccessMode::Write, both, |conn, (deleted, attempt)| {
            Box::pin(order_restoration::restore::<D>(conn, deleted, attempt))
        })
        .await
    }

    async fn restate(&self, restatement: &Restatement) -> Result<bool, LedgerError> {
        self.run(
            AccessMode::Write,
            restatement.clone(),
            |conn, restatement| Box::pin(restatements::restate::<D>(conn, restatement)),
        )
        .await
    }

    async fn finish_repair(
        &self,
        epoch: &str,
        upto: Seq,
        attempt: &RepairAttempt,
    ) -> Result<(), LedgerError> {
        let both = (epoch.to_owned(), attempt.clone());
        self.run(AccessMode::Write, both, move |conn, (epoch, attempt)| {
            Box::pin(repairs::finish::<D>(conn, epoch, upto, attempt))
        })
        .await
    }

    async fn release_withheld(&self, partition: PartitionId) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, self.clock.now(), move |conn, now| {
            Box::pin(repairs::release::<D>(conn, *now, partition))
        })
        .await
    }

    async fn repairs(
        &self,
        partition: PartitionId,
        limit: u32,
    ) -> Result<Vec<RepairRecord>, LedgerError> {
        self.read(move |conn| Box::pin(repairs::list::<D>(conn, partition, limit)))
            .await
    }

    async fn withheld(&self, partition: PartitionId) -> Result<Vec<WithheldRecord>, LedgerError> {
        self.read(move |conn| Box::pin(repairs::withheld::<D>(conn, partition)))
            .await
    }
}
