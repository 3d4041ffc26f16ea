//! Partitions, and operations on halted partitions. Scope `admin`.

use crate::{
    answers::{PartitionDetail, Partitions, Reconciled, Released, Repair, Resumed},
    call::RepeatableCall,
    client::Client,
    error::Error,
};

impl Client {
    /// All partitions, as the node that answers sees them.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn partitions(&self) -> Result<Partitions, Error> {
        self.json(RepeatableCall::get("/v1/partitions")).await
    }

    /// Partition with its nodes and repairs.
    ///
    /// # Errors
    /// `not-found` if there is no partition with this number; see [`Error`].
    pub async fn partition(&self, number: u16) -> Result<PartitionDetail, Error> {
        self.json(RepeatableCall::get(path(number, ""))).await
    }

    /// Repairs a partition after data loss, without waiting for missing node reports. If nothing is lost, the call
    /// changes nothing.
    ///
    /// # Errors
    /// `not-for-engine` if partitions of the engine cannot lose entries; see [`Error`].
    pub async fn repair_partition(&self, number: u16) -> Result<Repair, Error> {
        self.json(RepeatableCall::post(path(number, "/repair")).changing())
            .await
    }

    /// Reconciles a partition with the ledger now. Changes nothing.
    ///
    /// # Errors
    /// `not-for-engine` if the engine is the ledger's own file; see [`Error`].
    pub async fn reconcile_partition(&self, number: u16) -> Result<Reconciled, Error> {
        self.json(RepeatableCall::post(path(number, "/reconcile")).changing())
            .await
    }

    /// Ends the halt of a partition without a repair, and accepts its losses. Idempotent.
    ///
    /// # Errors
    /// As for [`Client::repair_partition`].
    pub async fn resume_partition(&self, number: u16) -> Result<Resumed, Error> {
        self.json(RepeatableCall::post(path(number, "/resume")).changing())
            .await
    }

    /// Releases the withheld units of a partition. A repeated call releases none.
    ///
    /// # Errors
    /// As for [`Client::repair_partition`].
    pub async fn release_withheld(&self, number: u16) -> Result<Released, Error> {
        self.json(RepeatableCall::post(path(number, "/release-withheld")).changing())
            .await
    }
}

fn path(number: u16, rest: &str) -> String {
    format!("/v1/partitions/{number}{rest}")
}
