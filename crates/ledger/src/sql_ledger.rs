//! The `Ledger` port, on either database.

mod bindings;
mod metadata;
mod repair_record;
mod waiting_rooms;
mod webhooks;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use qiang_core::{
    book::Setup,
    campaign::{Details, DetailsChange},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, PaymentRef, UserId},
    money::{Currency, Money},
    ports::{
        AccountStore, Action, ActionQuery, ActionStore, AudienceStore, Balance, CampaignOutline,
        CampaignQuery, CampaignRecord, CampaignStore, Clock, Discard, GrantRecord, GrantTimes,
        LedgerError, LiveCampaign, QuarantineCount, QuarantineStore, QuarantinedEntry,
        ReconcileStore, RepairAttempt, SettledPart, SettledPayment, SettledReturn, SettledRow,
        SettlementStore,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    accounts, actions, audiences,
    bindings::{self as engine, Fence},
    campaigns,
    dialect::Dialect,
    discards, listing,
    pool::{self, AccessMode, BoundedPool, Worked},
    positions::KnownPositions,
    quarantine, reconcile, repairs, settle, settled_positions,
};

/// A ledger in a database.
pub(crate) struct SqlLedger<D: Dialect> {
    pool: BoundedPool<D>,
    clock: Arc<dyn Clock>,
    positions: Arc<KnownPositions>,
    fence: Fence,
}

impl<D: Dialect> SqlLedger<D> {
    pub(crate) fn new(pool: BoundedPool<D>, clock: Arc<dyn Clock>) -> Self {
        Self {
            pool,
            clock,
            positions: Arc::default(),
            fence: Fence::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn show(&self, partition: PartitionId, position: Seq) -> Seq {
        self.positions.for_partition(partition).show(position);
        position
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c mut D::Connection) -> Worked<'c, T> + Send + Sync + 'static,
    ) -> Result<T, LedgerError> {
        self.run(AccessMode::Read, (), move |conn, ()| work(conn))
            .await
    }

    pub(crate) async fn run<A: Send + Sync + 'static, T: Send + 'static>(
        &self,
        mode: AccessMode,
        args: A,
        work: impl for<'c> Fn(&'c mut D::Connection, &'c A) -> Worked<'c, T> + Send + Sync + 'static,
    ) -> Result<T, LedgerError> {
        pool::run(&self.pool, mode, args, work).await
    }
}

#[async_trait]
impl<D: Dialect> AccountStore for SqlLedger<D> {
    async fn deposit_by(
        &self,
        id: Uuid,
        user: &UserId,
        amount: Money,
        by: Option<&Action>,
    ) -> Result<(), LedgerError> {
        let args = (self.clock.now(), user.clone(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (now, user, by)| {
            let deposit = (user, amount);
            Box::pin(accounts::deposit::<D>(conn, *now, id, deposit, by.as_ref()))
        })
        .await
    }

    async fn balances(&self, user: &UserId) -> Result<Vec<Balance>, LedgerError> {
        self.run(AccessMode::Read, user.clone(), |conn, user| {
            Box::pin(accounts::balances::<D>(conn, user))
        })
        .await
    }

    async fn money_in(&self, currency: Currency) -> Result<i64, LedgerError> {
        self.run(AccessMode::Read, currency, |conn, currency| {
            Box::pin(accounts::money_in::<D>(conn, *currency))
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> ActionStore for SqlLedger<D> {
    async fn record(&self, action: &Action) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, action.clone(), |conn, action| {
            Box::pin(actions::enter::<D>(conn, action))
        })
        .await
    }

    async fn strike(&self, action: Uuid) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, action, |conn, action| {
            Box::pin(actions::strike::<D>(conn, *action))
        })
        .await
    }

    async fn actions(
        &self,
        subject: &str,
        after: Option<Uuid>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        self.run(
            AccessMode::Read,
            subject.to_owned(),
            move |conn, subject| Box::pin(actions::list::<D>(conn, subject, after, limit)),
        )
        .await
    }

    async fn record_refusal(
        &self,
        action: &Action,
        payment: &PaymentRef,
    ) -> Result<(), LedgerError> {
        let args = (action.clone(), payment.clone());
        self.run(AccessMode::Write, args, |conn, (action, payment)| {
            Box::pin(actions::enter_refusal::<D>(conn, action, payment))
        })
        .await
    }

    async fn refusal_of(&self, payment: &PaymentRef) -> Result<Option<Action>, LedgerError> {
        self.run(AccessMode::Read, payment.clone(), |conn, payment| {
            Box::pin(actions::refusal::<D>(conn, payment))
        })
        .await
    }

    async fn action_log(&self, query: &ActionQuery) -> Result<Vec<Action>, LedgerError> {
        self.run(AccessMode::Read, *query, |conn, query| {
            Box::pin(actions::log::<D>(conn, query))
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> CampaignStore for SqlLedger<D> {
    async fn create_by(
        &self,
        setup: &Setup,
        details: &Details,
        audience: Option<&str>,
        by: Option<&Action>,
    ) -> Result<(), LedgerError> {
        let (now, audience) = (self.clock.now(), audience.map(str::to_owned));
        let args = (setup.clone(), details.clone(), audience, by.cloned());
        self.run(
            AccessMode::Enter,
            args,
            move |conn, (setup, details, audience, by)| {
                let (entered, audience) = ((setup, details), audience.as_deref());
                let by = by.as_ref();
                Box::pin(async move {
                    campaigns::create::<D>(conn, now, entered, audience, by).await?;
                    Ok(())
                })
            },
        )
        .await
    }

    async fn describe(
        &self,
        id: CampaignId,
        change: &DetailsChange,
        by: Option<&Action>,
        made: Option<Uuid>,
    ) -> Result<(), LedgerError> {
        let args = (self.clock.now(), change.clone(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (now, change, by)| {
            let by = (by.as_ref(), made);
            Box::pin(listing::describe::<D>(conn, *now, id, change, by))
        })
        .await
    }

    async fn describe_if(
        &self,
        id: CampaignId,
        (title, details): (&str, &Details),
        change: &DetailsChange,
        (by, made): (Option<&Action>, Option<Uuid>),
    ) -> Result<bool, LedgerError> {
        let at = (self.clock.now(), id);
        let expected = (title.to_owned(), details.clone());
        let args = (expected, change.clone(), by.cloned());
        self.run(
            AccessMode::Write,
            args,
            move |conn, ((title, details), change, by)| {
                let (expected, by) = ((title.as_str(), details), (by.as_ref(), made));
                Box::pin(listing::describe_if::<D>(conn, at, expected, change, by))
            },
        )
        .await
    }

    async fn archive(&self, id: CampaignId, by: Option<&Action>) -> Result<bool, LedgerError> {
        let args = (self.clock.now(), by.cloned());
        self.run(AccessMode::Write, args, move |conn, (now, by)| {
            Box::pin(listing::archive::<D>(conn, *now, id, by.as_ref()))
        })
        .await
    }

    async fn list(&self, query: &CampaignQuery) -> Result<Vec<CampaignRecord>, LedgerError> {
        self.run(AccessMode::Read, query.clone(), |conn, query| {
            Box::pin(listing::list::<D>(conn, query))
        })
        .await
    }

    async fn campaign(&self, id: CampaignId) -> Result<Option<CampaignRecord>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::campaign::<D>(conn, id)))
            .await
    }

    async fn drafts(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::drafts::<D>(conn, after, limit)))
            .await
    }

    async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::setup::<D>(conn, id)))
            .await
    }

    async fn claimed_packets(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<CampaignId>, LedgerError> {
        self.read(move |conn| Box::pin(campaigns::claimed_packets::<D>(conn, after, limit)))
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

    async fn grant_times(
        &self,
        id: CampaignId,
        numbers: Vec<u32>,
    ) -> Result<Vec<GrantTimes>, LedgerError> {
        self.run(AccessMode::Read, (id, numbers), |conn, (id, numbers)| {
            Box::pin(campaigns::grant_times::<D>(conn, *id, numbers))
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> AudienceStore for SqlLedger<D> {
    async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError> {
        self.read(move |conn| Box::pin(audiences::audience::<D>(conn, id)))
            .await
    }

    async fn has_share(&self, id: CampaignId, user: &UserId) -> Result<bool, LedgerError> {
        self.run(AccessMode::Read, user.clone(), move |conn, user| {
            Box::pin(audiences::has_share::<D>(conn, id, user))
        })
        .await
    }

    async fn luckiest(&self, id: CampaignId) -> Result<Option<GrantRecord>, LedgerError> {
        self.read(move |conn| Box::pin(audiences::luckiest::<D>(conn, id)))
            .await
    }
}

#[async_trait]
impl<D: Dialect> SettlementStore for SqlLedger<D> {
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        let position =
            self.read(move |conn| Box::pin(settled_positions::position::<D>(conn, partition)));
        Ok(self.show(partition, position.await?))
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        let all = (PartitionId(0), PartitionId(u16::MAX));
        let positions =
            self.read(move |conn| Box::pin(settled_positions::positions::<D>(conn, all)));
        let positions = positions.await?;
        for (partition, position) in &positions {
            self.positions.for_partition(*partition).show(*position);
        }
        Ok(positions)
    }

    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let place = self.positions.for_partition(partition);
        place.wait(seq, wait_max, || self.settled(partition)).await
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        let args = (self.fence.get(), entries.to_vec());
        let settled = self.run(AccessMode::Write, args, move |conn, (fence, entries)| {
            Box::pin(async move {
                engine::check::<D>(conn, fence.as_deref()).await?;
                settle::settle::<D>(conn, partition, entries).await
            })
        });
        Ok(self.show(partition, settled.await?))
    }

    async fn settle_past(
        &self,
        attempt: &RepairAttempt,
        position: Seq,
        entries: &[Entry],
        upto: Seq,
    ) -> Result<Seq, LedgerError> {
        let partition = attempt.partition;
        let args = (self.fence.get(), attempt.clone(), entries.to_vec());
        let settled = self.run(
            AccessMode::Write,
            args,
            move |conn, (fence, attempt, entries)| {
                let gap = (position, upto);
                Box::pin(async move {
                    engine::check::<D>(conn, fence.as_deref()).await?;
                    repairs::check_attempt::<D>(conn, attempt).await?;
                    settle::settle_past::<D>(conn, partition, entries, gap).await
                })
            },
        );
        Ok(self.show(partition, settled.await?))
    }
}

#[async_trait]
impl<D: Dialect> QuarantineStore for SqlLedger<D> {
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        let entry = (entry.clone(), reason.to_owned());
        let args = (self.fence.get(), self.clock.now(), entry);
        let kept = self.run(AccessMode::Write, args, move |conn, (fence, now, entry)| {
            Box::pin(async move {
                engine::check::<D>(conn, fence.as_deref()).await?;
                settle::quarantine::<D>(conn, *now, partition, &entry.0, &entry.1).await
            })
        });
        Ok(self.show(partition, kept.await?))
    }

    async fn is_grant_quarantined(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        number: u32,
    ) -> Result<bool, LedgerError> {
        self.read(move |conn| {
            let found = quarantine::has_grant::<D>(conn, partition, campaign, number);
            Box::pin(found)
        })
        .await
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
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(settle::redrive::<D>(conn, partition, seq))
        })
        .await
    }

    async fn ask_discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(discards::ask::<D>(conn, partition, seq))
        })
        .await
    }

    async fn is_discarded(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        self.read(move |conn| Box::pin(discards::is_discarded::<D>(conn, partition, seq)))
            .await
    }

    async fn discards(&self, limit: u32) -> Result<Vec<Discard>, LedgerError> {
        self.read(move |conn| Box::pin(discards::list::<D>(conn, limit)))
            .await
    }

    async fn discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(discards::discard::<D>(conn, partition, seq))
        })
        .await
    }

    async fn end_discard(&self, partition: PartitionId, seq: Seq) -> Result<(), LedgerError> {
        self.run(AccessMode::Write, (), move |conn, ()| {
            Box::pin(discards::end::<D>(conn, partition, seq))
        })
        .await
    }
}

#[async_trait]
impl<D: Dialect> ReconcileStore for SqlLedger<D> {
    async fn live_campaigns(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<LiveCampaign>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::live_campaigns::<D>(conn, after, limit)))
            .await
    }

    async fn settled_part(
        &self,
        id: CampaignId,
        partition: PartitionId,
    ) -> Result<Option<SettledPart>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::settled_part::<D>(conn, id, partition)))
            .await
    }

    async fn campaign_outline(
        &self,
        id: CampaignId,
    ) -> Result<Option<CampaignOutline>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::campaign_outline::<D>(conn, id)))
            .await
    }

    async fn settled_rows(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::settled_rows::<D>(conn, id, after, limit)))
            .await
    }

    async fn settled_rows_of_user(
        &self,
        id: CampaignId,
        user: &UserId,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        let user = user.clone();
        self.read(move |conn| {
            Box::pin(reconcile::settled_rows_of_user::<D>(conn, id, user.clone()))
        })
        .await
    }

    async fn last_order(&self, id: CampaignId) -> Result<u32, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::last_order::<D>(conn, id)))
            .await
    }

    async fn settled_payments(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledPayment>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::settled_payments::<D>(conn, id, after, upto)))
            .await
    }

    async fn settled_returns(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledReturn>, LedgerError> {
        self.read(move |conn| Box::pin(reconcile::settled_returns::<D>(conn, id, after, upto)))
            .await
    }
}
