//! The ports of settlement, the quarantine and reconciliation.

use std::time::Duration;

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, UserId},
    ports::{
        CampaignOutline, Discard, LedgerError, LiveCampaign, QuarantineCount, QuarantineStore,
        QuarantinedEntry, ReconcileStore, RepairAttempt, SettledPart, SettledPayment,
        SettledReturn, SettledRow, SettlementStore,
    },
};

use crate::{
    ledger::{discards, quarantine, reconcile, repairs, settle},
    ledger_file::{LedgerFile, SqliteLedgerHost, job},
    reader::query,
};

#[async_trait]
impl<H: 'static> SettlementStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn settled(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        Ok(self.committed_positions().for_partition(partition))
    }

    async fn positions(&self) -> Result<Vec<(PartitionId, Seq)>, LedgerError> {
        Ok(self.committed_positions().all())
    }

    async fn await_settled(
        &self,
        partition: PartitionId,
        seq: Seq,
        wait_max: Duration,
    ) -> Result<bool, LedgerError> {
        let mut settled = self.committed_positions().watch(partition)?;
        let reached = settled.wait_for(|position| *position >= seq);
        let reached = tokio::time::timeout(wait_max, reached).await;
        Ok(matches!(reached, Ok(Ok(_))))
    }

    async fn settle(&self, partition: PartitionId, entries: &[Entry]) -> Result<Seq, LedgerError> {
        self.admit(partition)?;
        let entries = entries.to_vec();
        // A job without entries still waits for its turn.
        job(self, entries.len().max(1), move |context| {
            let position = settle::settle(context.conn, partition, &entries)?;
            context.done.moved.push((partition, position));
            Ok(position)
        })
        .await
    }

    async fn settle_past(
        &self,
        attempt: &RepairAttempt,
        position: Seq,
        entries: &[Entry],
        upto: Seq,
    ) -> Result<Seq, LedgerError> {
        let (attempt, partition) = (attempt.clone(), attempt.partition);
        self.admit(partition)?;
        let (entries, gap) = (entries.to_vec(), (position, upto));
        job(self, entries.len().max(1), move |context| {
            let conn = context.conn;
            repairs::check_attempt(conn, &attempt)?;
            let position = settle::settle_past(conn, partition, &entries, gap)?;
            context.done.moved.push((partition, position));
            Ok(position)
        })
        .await
    }
}

#[async_trait]
impl<H: 'static> QuarantineStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn quarantine(
        &self,
        partition: PartitionId,
        entry: &Entry,
        reason: &str,
    ) -> Result<Seq, LedgerError> {
        self.admit(partition)?;
        let (entry, reason) = (entry.clone(), reason.to_owned());
        job(self, 1, move |context| {
            let (conn, now) = (context.conn, context.now);
            let position = settle::quarantine(conn, now, partition, &entry, &reason)?;
            context.done.moved.push((partition, position));
            Ok(position)
        })
        .await
    }

    async fn is_grant_quarantined(
        &self,
        partition: PartitionId,
        campaign: CampaignId,
        number: u32,
    ) -> Result<bool, LedgerError> {
        let found = move |conn: &_| quarantine::has_grant(conn, partition, campaign, number);
        query(self.readers(), found).await
    }

    async fn count_quarantined(
        &self,
        partition: PartitionId,
    ) -> Result<QuarantineCount, LedgerError> {
        let count = move |conn: &_| quarantine::count(conn, partition);
        query(self.readers(), count).await
    }

    async fn list_quarantined(
        &self,
        after: Option<(PartitionId, Seq)>,
        limit: u32,
    ) -> Result<Vec<QuarantinedEntry>, LedgerError> {
        let list = move |conn: &_| quarantine::list(conn, after, limit);
        query(self.readers(), list).await
    }

    async fn redrive(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        let redrive = move |context: &mut crate::job::JobContext<'_, '_>| {
            settle::redrive(context.conn, partition, seq)
        };
        job(self, 1, redrive).await
    }

    async fn ask_discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        let ask = move |context: &mut crate::job::JobContext<'_, '_>| {
            discards::ask(context.conn, partition, seq)
        };
        job(self, 1, ask).await
    }

    async fn is_discarded(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        let found = move |conn: &_| discards::is_discarded(conn, partition, seq);
        query(self.readers(), found).await
    }

    async fn discards(&self, limit: u32) -> Result<Vec<Discard>, LedgerError> {
        query(self.readers(), move |conn| discards::list(conn, limit)).await
    }

    async fn discard(&self, partition: PartitionId, seq: Seq) -> Result<bool, LedgerError> {
        let discard = move |context: &mut crate::job::JobContext<'_, '_>| {
            discards::discard(context.conn, partition, seq)
        };
        job(self, 1, discard).await
    }

    async fn end_discard(&self, partition: PartitionId, seq: Seq) -> Result<(), LedgerError> {
        let end = move |context: &mut crate::job::JobContext<'_, '_>| {
            discards::end(context.conn, partition, seq)
        };
        job(self, 1, end).await
    }
}

#[async_trait]
impl<H: 'static> ReconcileStore for LedgerFile<H>
where
    Self: SqliteLedgerHost,
{
    async fn live_campaigns(
        &self,
        after: Option<CampaignId>,
        limit: u32,
    ) -> Result<Vec<LiveCampaign>, LedgerError> {
        let live = move |conn: &_| reconcile::live_campaigns(conn, after, limit);
        query(self.readers(), live).await
    }

    async fn settled_part(
        &self,
        id: CampaignId,
        partition: PartitionId,
    ) -> Result<Option<SettledPart>, LedgerError> {
        let part = move |conn: &_| reconcile::settled_part(conn, id, partition);
        query(self.readers(), part).await
    }

    async fn campaign_outline(
        &self,
        id: CampaignId,
    ) -> Result<Option<CampaignOutline>, LedgerError> {
        let outline = move |conn: &_| reconcile::campaign_outline(conn, id);
        query(self.readers(), outline).await
    }

    async fn settled_rows(
        &self,
        id: CampaignId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        let rows = move |conn: &_| reconcile::settled_rows(conn, id, after, limit);
        query(self.readers(), rows).await
    }

    async fn settled_rows_of_user(
        &self,
        id: CampaignId,
        user: &UserId,
    ) -> Result<Vec<SettledRow>, LedgerError> {
        let user = user.clone();
        let rows = move |conn: &_| reconcile::settled_rows_of_user(conn, id, &user);
        query(self.readers(), rows).await
    }

    async fn last_order(&self, id: CampaignId) -> Result<u32, LedgerError> {
        let last = move |conn: &_| reconcile::last_order(conn, id);
        query(self.readers(), last).await
    }

    async fn settled_payments(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledPayment>, LedgerError> {
        let paid = move |conn: &_| reconcile::settled_payments(conn, id, after, upto);
        query(self.readers(), paid).await
    }

    async fn settled_returns(
        &self,
        id: CampaignId,
        after: u32,
        upto: u32,
    ) -> Result<Vec<SettledReturn>, LedgerError> {
        let returns = move |conn: &_| reconcile::settled_returns(conn, id, after, upto);
        query(self.readers(), returns).await
    }
}
