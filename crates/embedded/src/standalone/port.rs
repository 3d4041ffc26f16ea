//! The `Ledger` port of the standalone ledger.

use std::sync::Arc;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::LedgerError,
};
use tokio::sync::watch;

use super::{PARTITIONS_MAX, SqliteLedger};
use crate::{
    ledger_host::{SqliteLedgerHost, impl_ledger},
    reader::Readers,
    task::LedgerJob,
};

impl_ledger!(SqliteLedger);

impl SqliteLedgerHost for SqliteLedger {
    fn push_job(&self, job: Box<dyn LedgerJob>) {
        self.push(job);
    }

    fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    fn admit(&self, partition: PartitionId) -> Result<(), LedgerError> {
        self.watch(partition).map(drop)
    }

    fn position(&self, partition: PartitionId) -> Seq {
        self.shared.positions.of(partition)
    }

    fn all_positions(&self) -> Vec<(PartitionId, Seq)> {
        self.shared.positions.all()
    }

    fn watch(&self, partition: PartitionId) -> Result<watch::Receiver<Seq>, LedgerError> {
        let watched = self.shared.positions.watch(partition);
        watched.ok_or_else(|| LedgerError::Unavailable {
            reason: format!("a ledger follows up to {PARTITIONS_MAX} partitions"),
        })
    }

    fn last_committed(&self) -> Option<(PartitionId, Seq)> {
        None
    }
}
