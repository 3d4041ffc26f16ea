//! The `Ledger` port of the ledger alone.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    money::Money,
    ports::{
        AccountStore, Balance, CampaignRecord, CampaignStore, GrantRecord, KeyBinding, KeyStore,
        LedgerError, QuarantineCount, QuarantineStore, QuarantinedEntry, SettlementStore,
    },
};
use tokio::sync::watch;
use uuid::Uuid;

use super::{PARTITIONS_MAX, SqliteLedger};
use crate::{
    books::{self, Books},
    reader::Readers,
    task::LedgerJob,
};

impl Books for SqliteLedger {
    fn push_job(&self, job: Box<dyn LedgerJob>) {
        self.push(job);
    }

    fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }
}

impl SqliteLedger {
    fn watch(&self, partition: PartitionId) -> Result<watch::Receiver<Seq>, LedgerError> {
        let watched = self.shared.positions.watch(partition);
        watched.ok_or_else(|| LedgerError::Unavailable {
            reason: format!("a ledger follows up to {PARTITIONS_MAX} partitions"),
        })
    }
}

#[async_trait]
impl KeyStore for SqliteLedger {
    async fn bind_key(
        &self,
        scope: &str,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        id: Uuid,
    ) -> Result<KeyBinding, LedgerError> {
        books::bind_key(self, scope, key, fingerprint, id).await
    }
}

#[async_trait]
impl AccountStore for SqliteLedger {
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        books::deposit(self, id, user, amount).await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        books::balances(self, user).await
    }
}

#[async_trait]
impl CampaignStore for SqliteLedger {
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        books::create(self, setup).await
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        books::campaign(self, id).await
    }

    async fn drafts(&self) -> Result<Vec<Setup>, LedgerError> {
        books::drafts(self).await
    }

    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError> {
        books::grants(self, id, after, limit).await
    }
}

#[async_trait]
impl SettlementStore for SqliteLedger {
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.shared.positions.of(partition))
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        Ok(self.shared.positions.all())
    }

    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let mut settled = self.watch(partition)?;
        let reached =
            tokio::time::timeout(wait_max, settled.wait_for(|position| *position >= seq)).await;
        Ok(matches!(reached, Ok(Ok(_))))
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        self.watch(partition)?; // admits it
        books::settle(self, partition, entries).await
    }
}

#[async_trait]
impl QuarantineStore for SqliteLedger {
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        self.watch(partition)?; // admits it
        books::quarantine(self, partition, entry, reason).await
    }

    async fn count_quarantined(
        &self,
        partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError> {
        books::count_quarantined(self, partition).await
    }

    async fn list_quarantined(
        &self,
        after: Option<(PartitionId, Seq)>,
        limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError> {
        books::list_quarantined(self, after, limit).await
    }

    async fn redrive(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        books::redrive(self, partition, seq).await
    }
}
