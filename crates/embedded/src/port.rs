//! The `Ledger` and `EventLog` ports.

use std::time::Duration;

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    money::Money,
    ports::{Balance, CampaignRecord, EventLog, GrantRecord, KeyBinding, Ledger, LedgerError},
};
use uuid::Uuid;

use crate::{
    Embedded,
    error::StoreError,
    ledger::{accounts, campaigns, keys, settle},
    log,
    log::Refs,
    reader,
    task::{Desk, Job},
    writer::PARTITION,
};

/// How long a sender with too little money waits for what was just claimed to be settled.
const FUNDS_WAIT_MAX: Duration = Duration::from_secs(2);

impl Embedded {
    async fn job<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let (task, receiver) = Job::task(work);
        self.push(task);
        receiver.await.unwrap_or_else(|_| {
            Err(LedgerError::Unavailable {
                reason: "the writer is gone".to_owned(),
            })
        })
    }

    async fn try_create(&self, setup: &Setup) -> Result<(), LedgerError> {
        let setup = setup.clone();
        self.job(move |desk| campaigns::create(desk.conn, desk.now, &setup))
            .await
    }
}

#[async_trait]
impl Ledger for Embedded {
    async fn bind_key(
        &self,
        scope: &str,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        id: Uuid,
    ) -> Result<KeyBinding, LedgerError> {
        let (scope, key) = (scope.to_owned(), key.clone());
        self.job(move |desk| keys::bind(desk.conn, desk.now, &scope, &key, &fingerprint, id))
            .await
    }

    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        let user = user.clone();
        self.job(move |desk| accounts::deposit(desk.conn, desk.now, id, &user, amount))
            .await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        let user = user.clone();
        reader::query(&self.readers, move |conn| accounts::balances(conn, &user)).await
    }

    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        match self.try_create(setup).await {
            // The missing money may have been claimed and not settled yet.
            Err(LedgerError::InsufficientFunds { .. }) => {
                self.await_settled(PARTITION, self.positions().0, FUNDS_WAIT_MAX)
                    .await?;
                self.try_create(setup).await
            }
            result => result,
        }
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        reader::query(&self.readers, move |conn| campaigns::campaign(conn, id)).await
    }

    async fn drafts(&self) -> Result<Vec<Setup>, LedgerError> {
        reader::query(&self.readers, |conn| {
            let mut drafts = Vec::new();
            campaigns::each_setup(conn, campaigns::Which::Drafts, |_, setup| {
                drafts.push(setup)
            })?;
            Ok(drafts)
        })
        .await
    }

    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError> {
        reader::query(&self.readers, move |conn| {
            campaigns::grants(conn, id, after, limit)
        })
        .await
    }

    async fn settled(&self, _partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.positions().1)
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
        let entries = entries.to_vec();
        self.job(move |desk| {
            let position = settle::settle(desk.conn, desk.refs, partition, &entries)?;
            if partition == PARTITION {
                *desk.settled = position;
            }
            Ok(position)
        })
        .await
    }
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
