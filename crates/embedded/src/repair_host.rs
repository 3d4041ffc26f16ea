//! The part of the `Ledger` port that records repairs, for every [`SqliteLedgerHost`](crate::ledger_host).

/// Implements it.
macro_rules! impl_repairs {
    ($host:ty) => {
        const _: () = {
            use async_trait::async_trait;
            use qiang_core::{
                event::{PartitionId, Seq},
                ports::{LedgerError, RepairRecord, RepairStore, Restatement, WithheldRecord},
                reconcile::{DeletedOrders, PartFacts},
            };
            use $crate::{
                ledger::{order_restoration, repairs, restatements},
                ledger_host::{SqliteLedgerHost, job},
                reader::query,
            };

            #[async_trait]
            impl RepairStore for $host {
                async fn begin_repair(&self, repair: &RepairRecord) -> Result<(), LedgerError> {
                    let repair = repair.clone();
                    job(self, 0, move |context| {
                        repairs::begin(context.conn, &repair)
                    })
                    .await
                }

                async fn withhold(&self, withheld: &WithheldRecord) -> Result<(), LedgerError> {
                    let withheld = withheld.clone();
                    job(self, 0, move |context| {
                        repairs::withhold(context.conn, &withheld)
                    })
                    .await
                }

                async fn recount(
                    &self,
                    partition: PartitionId,
                    part: PartFacts,
                    units: u64,
                ) -> Result<(), LedgerError> {
                    job(self, 0, move |context| {
                        repairs::recount(context.conn, partition, &part, units)
                    })
                    .await
                }

                async fn restore_orders(&self, deleted: &DeletedOrders) -> Result<(), LedgerError> {
                    let deleted = deleted.clone();
                    job(self, 0, move |context| {
                        order_restoration::restore(context.conn, &deleted)
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
                    partition: PartitionId,
                    epoch: &str,
                    upto: Seq,
                ) -> Result<(), LedgerError> {
                    let epoch = epoch.to_owned();
                    job(self, 0, move |context| {
                        repairs::finish(context.conn, partition, &epoch, upto)
                    })
                    .await
                }

                async fn release_withheld(
                    &self,
                    partition: PartitionId,
                ) -> Result<(), LedgerError> {
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

                async fn withheld(
                    &self,
                    partition: PartitionId,
                ) -> Result<Vec<WithheldRecord>, LedgerError> {
                    let list = move |conn: &_| repairs::withheld(conn, partition);
                    query(self.readers(), list).await
                }
            }
        };
    };
}
pub(crate) use impl_repairs;
