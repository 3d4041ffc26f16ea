//! The `Ledger` port, on either database.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    money::Money,
    ports::{
        AccountStore, Balance, CampaignRecord, CampaignStore, Clock, GrantRecord, KeyBinding,
        KeyStore, LedgerError, QuarantineCount, QuarantineStore, QuarantinedEntry, SettlementStore,
    },
};
use uuid::Uuid;

use crate::{
    accounts, campaigns,
    dialect::Dialect,
    error::StoreError,
    keys,
    positions::Positions,
    quarantine,
    session::{self, Desk, Mode, Worked},
    settle,
};

/// A ledger in a database.
pub(crate) struct Books<D: Dialect> {
    desk: Desk<D>,
    clock: Arc<dyn Clock>,
    positions: Arc<Positions>,
}

impl<D: Dialect> Books<D> {
    pub(crate) fn new(desk: Desk<D>, clock: Arc<dyn Clock>) -> Self {
        Self {
            desk,
            clock,
            positions: Arc::default(),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c mut D::Connection) -> Worked<'c, T> + Send + Sync + 'static,
    ) -> Result<T, LedgerError> {
        session::run(&self.desk, Mode::Read, work).await
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c mut D::Connection) -> Worked<'c, T> + Send + Sync + 'static,
    ) -> Result<T, LedgerError> {
        session::run(&self.desk, Mode::Write, work).await
    }
}

/// A partition and its position as the port has them.
fn position_of((partition, seq): (i64, i64)) -> Result<(PartitionId, Seq), StoreError> {
    let damaged = |_| StoreError::damaged(format!("partition {partition} is settled up to {seq}"));
    let partition = PartitionId(partition.try_into().map_err(damaged)?);
    Ok((partition, seq.try_into().map_err(damaged)?))
}

#[async_trait]
impl<D: Dialect> KeyStore for Books<D> {
    async fn bind_key(
        &self,
        scope: &str,
        key: &IdempotencyKey,
        fingerprint: [u8; 32],
        id: Uuid,
    ) -> Result<KeyBinding, LedgerError> {
        let (now, asked) = (self.clock.now(), Arc::new((scope.to_owned(), key.clone())));
        self.write(move |conn| {
            let asked = Arc::clone(&asked);
            Box::pin(async move {
                keys::bind::<D>(conn, now, &asked.0, &asked.1, &fingerprint, id).await
            })
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> AccountStore for Books<D> {
    async fn deposit(&self, id: Uuid, user: &UserId, amount: Money) -> Result<(), LedgerError> {
        let (now, user) = (self.clock.now(), Arc::new(user.clone()));
        self.write(move |conn| {
            let user = Arc::clone(&user);
            Box::pin(async move { accounts::deposit::<D>(conn, now, id, &user, amount).await })
        })
        .await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        let user = Arc::new(user.clone());
        self.read(move |conn| {
            let user = Arc::clone(&user);
            Box::pin(async move { accounts::balances::<D>(conn, &user).await })
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> CampaignStore for Books<D> {
    async fn create(&self, setup: &Setup) -> Result<(), LedgerError> {
        let (now, setup) = (self.clock.now(), Arc::new(setup.clone()));
        session::run(&self.desk, Mode::Enter, move |conn| {
            let setup = Arc::clone(&setup);
            Box::pin(async move { campaigns::create::<D>(conn, now, &setup).await })
        })
        .await
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::campaign::<D>(conn, id)))
            .await
    }

    async fn drafts(&self) -> Result<Vec<Setup>, LedgerError> {
        self.read(|conn| Box::pin(campaigns::drafts::<D>(conn)))
            .await
    }

    async fn grants(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<GrantRecord>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::grants::<D>(conn, id, after, limit)))
            .await
    }
}

#[async_trait]
impl<D: Dialect> SettlementStore for Books<D> {
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        self.read(move |conn| {
            Box::pin(async move {
                let found = D::positions(conn, Some(i64::from(partition.0))).await?;
                let position = found.first().copied().map(position_of).transpose()?;
                Ok(position.map_or(0, |(_, seq)| seq))
            })
        })
        .await
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        self.read(|conn| {
            Box::pin(async move {
                let all = D::positions(conn, None).await?.into_iter();
                all.map(position_of).collect()
            })
        })
        .await
    }

    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let place = self.positions.of(partition);
        place.wait(seq, wait_max, || self.settled(partition)).await
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        let entries: Arc<[Entry]> = entries.into();
        let settled = self.write(move |conn| {
            let entries = Arc::clone(&entries);
            Box::pin(async move { settle::settle::<D>(conn, partition, &entries).await })
        });
        let position = settled.await?;
        self.positions.of(partition).reach(position);
        Ok(position)
    }
}

#[async_trait]
impl<D: Dialect> QuarantineStore for Books<D> {
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        let (now, kept) = (
            self.clock.now(),
            Arc::new((entry.clone(), reason.to_owned())),
        );
        let kept = self.write(move |conn| {
            let kept = Arc::clone(&kept);
            Box::pin(async move {
                quarantine::quarantine::<D>(conn, now, partition, &kept.0, &kept.1).await
            })
        });
        let position = kept.await?;
        self.positions.of(partition).reach(position);
        Ok(position)
    }

    async fn count_quarantined(
        &self,
        partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError> {
        self.read(move |conn| Box::pin(quarantine::count::<D>(conn, partition)))
            .await
    }

    async fn list_quarantined(
        &self,
        after: Option<(PartitionId, Seq)>,
        limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError> {
        self.read(move |conn| Box::pin(quarantine::list::<D>(conn, after, limit)))
            .await
    }

    async fn redrive(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        self.write(move |conn| Box::pin(quarantine::redrive::<D>(conn, partition, seq)))
            .await
    }
}
