//! The `Ledger` and `EventLog` ports of the embedded engine.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    money::Money,
    ports::{
        AccountStore, Balance, CampaignRecord, CampaignStore, EventLog, GrantRecord, KeyBinding,
        KeyStore, LedgerError, QuarantineCount, QuarantineStore, QuarantinedEntry, SettlementStore,
    },
};
use uuid::Uuid;

use crate::{
    Embedded, PARTITION,
    books::{self, Books},
    log,
    log::Refs,
    reader::{self, Readers},
    task::{LedgerJob, Task},
};

/// How long a sender with too little money waits for what was just claimed to be settled.
const FUNDS_WAIT_MAX: Duration = Duration::from_secs(2);

impl Books for Embedded {
    fn push_job(&self, job: Box<dyn LedgerJob>) {
        self.push(Task::Ledger(job));
    }

    fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }
}

#[async_trait]
impl KeyStore for Embedded {
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
impl AccountStore for Embedded {
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        books::deposit(self, id, user, amount).await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        books::balances(self, user).await
    }
}

#[async_trait]
impl CampaignStore for Embedded {
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        match books::create(self, setup).await {
            // The missing money may have been claimed and not settled yet.
            Err(LedgerError::InsufficientFunds { .. }) => {
                self.await_settled(PARTITION, self.positions().0, FUNDS_WAIT_MAX)
                    .await?;
                books::create(self, setup).await
            }
            result => result,
        }
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
impl SettlementStore for Embedded {
    async fn settled(&self, _partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.positions().1)
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        let settled = Embedded::positions(self).1;
        Ok(Vec::from_iter(
            (settled > 0).then_some((PARTITION, settled)),
        ))
    }

    async fn await_settled(
        &self,
        _: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let mut settled = self.shared.settled.subscribe();
        let reached =
            tokio::time::timeout(wait_max, settled.wait_for(|position| *position >= seq)).await;
        Ok(matches!(reached, Ok(Ok(_))))
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        own(partition)?;
        books::settle(self, partition, entries).await
    }
}

#[async_trait]
impl QuarantineStore for Embedded {
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        own(partition)?;
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

/// Refuses partitions that the file does not have.
fn own(partition: PartitionId) -> Result<(), LedgerError> {
    if partition == PARTITION {
        return Ok(());
    }
    let reason = format!("this file has partition 0 alone, and not {}", partition.0);
    Err(LedgerError::Damaged { reason })
}

#[async_trait]
impl EventLog for Embedded {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PARTITION]
    }

    async fn head(&self, _partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.positions().0)
    }

    async fn read(
        &self,
        _partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        reader::query(&self.readers, move |conn| {
            let mut entries = Vec::new();
            log::read(conn, &mut Refs::default(), after, limit, |entry| {
                entries.push(entry)
            })?;
            Ok(entries)
        })
        .await
    }
}
