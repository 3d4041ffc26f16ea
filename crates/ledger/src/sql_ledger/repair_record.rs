//! The `RepairStore` port.

use async_trait::async_trait;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, RepairRecord, RepairStore, Restatement, WithheldRecord},
    reconcile::{DeletedOrders, PartFacts},
};

use super::SqlLedger;
use crate::{dialect::Dialect, order_restoration, pool::Mode, recounts, repairs, restatements};

#[async_trait]
impl<D: Dialect> RepairStore for SqlLedger<D> {
    async fn begin_repair(&self, repair: &RepairRecord) -> Result<(), LedgerError> {
        self.run(Mode::Write, repair.clone(), |conn, repair| {
            Box::pin(repairs::begin::<D>(conn, repair))
        })
        .await
    }

    async fn withhold(&self, withheld: &WithheldRecord) -> Result<(), LedgerError> {
        self.run(Mode::Write, withheld.clone(), |conn, withheld| {
            Box::pin(repairs::withhold::<D>(conn, withheld))
        })
        .await
    }

    async fn recount(
        &self,
        partition: PartitionId,
        part: PartFacts,
        units: u64,
    ) -> Result<(), LedgerError> {
        self.run(Mode::Write, part, move |conn, part| {
            Box::pin(recounts::recount::<D>(conn, partition, part, units))
        })
        .await
    }

    async fn restore_orders(&self, deleted: &DeletedOrders) -> Result<(), LedgerError> {
        self.run(Mode::Write, deleted.clone(), |conn, deleted| {
            Box::pin(order_restoration::restore::<D>(conn, deleted))
        })
        .await
    }

    async fn restate(&self, restatement: &Restatement) -> Result<bool, LedgerError> {
        self.run(Mode::Write, restatement.clone(), |conn, restatement| {
            Box::pin(restatements::restate::<D>(conn, restatement))
        })
        .await
    }

    async fn finish_repair(
        &self,
        partition: PartitionId,
        epoch: &str,
        upto: Seq,
    ) -> Result<(), LedgerError> {
        self.run(Mode::Write, epoch.to_owned(), move |conn, epoch| {
            Box::pin(repairs::finish::<D>(conn, partition, epoch, upto))
        })
        .await
    }

    async fn release_withheld(&self, partition: PartitionId) -> Result<(), LedgerError> {
        self.run(Mode::Write, self.clock.now(), move |conn, now| {
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
