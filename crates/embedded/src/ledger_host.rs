//! The `Ledger` port of a file, whether it is an engine's or a standalone ledger: changes go to the writer as jobs,
//! queries to the readers.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Creation, LedgerError},
};

use crate::{
    error::DataFileError,
    job::{Job, JobContext, LedgerJob},
    new_campaign_ids::{Entered, NewCampaignIds},
    positions::PartitionPositions,
    reader::Readers,
};

/// A file with the ledger's tables, its one writer, and its readers. [`impl_ledger`] makes a `Ledger` of it.
pub(crate) trait SqliteLedgerHost: Sync {
    /// Gives a job to the writer, or answers it at once if the writer is closed.
    fn push_job(&self, job: Box<dyn LedgerJob>);

    /// Gives new campaigns to the writer, in the same way.
    fn push_campaigns(&self, campaigns: Box<NewCampaignIds>);

    fn readers(&self) -> &Arc<Readers>;

    /// Settled position of each partition, as committed.
    fn committed_positions(&self) -> &PartitionPositions;

    /// Refuses a partition that the file does not settle.
    fn admit(&self, partition: PartitionId) -> Result<(), LedgerError>;

    /// The last entry that this process has committed, if it decides entries itself: a sender's missing money may have
    /// been claimed in it and not be settled yet.
    fn last_committed(&self) -> Option<(PartitionId, Seq)>;
}

/// Runs work in the writer that settles this many entries.
pub(crate) async fn job<T: Send + 'static>(
    host: &impl SqliteLedgerHost,
    entries: usize,
    work: impl FnMut(&mut JobContext<'_, '_>) -> Result<T, DataFileError> + Send + 'static,
) -> Result<T, LedgerError> {
    let (job, receiver) = Job::boxed(entries, work);
    host.push_job(job);
    receiver
        .await
        .unwrap_or_else(|_| Err(LedgerError::unavailable("the writer is gone")))
}

/// Enters campaigns through the writer, and returns the result of each.
pub(crate) async fn enter(
    host: &impl SqliteLedgerHost,
    campaigns: Arc<[Creation]>,
) -> Result<Entered, LedgerError> {
    let (campaigns, receiver) = NewCampaignIds::boxed(campaigns);
    host.push_campaigns(campaigns);
    receiver
        .await
        .unwrap_or_else(|_| Err(LedgerError::unavailable("the writer is gone")))
}

/// Longest wait of a sender with too little money for the settlement of recent claims.
pub(crate) const FUNDS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Implements the parts of the `Ledger` port for a [`SqliteLedgerHost`].
macro_rules! impl_ledger {
    ($host:ty) => {
        const _: () = {
            use std::time::Duration;

            use async_trait::async_trait;
            use qiang_core::{
                book::Setup,
                campaign::{Details, DetailsChange},
                event::{Entry, PartitionId, Seq},
                id::{CampaignId, UserId},
                ports::{
                    Action, AudienceStore, CampaignOutline, CampaignQuery, CampaignRecord,
                    CampaignStore, Creation, Discard, GrantRecord, KeyStore as _, LedgerError,
                    QuarantineCount, QuarantineStore, QuarantinedEntry, ReconcileStore,
                    RepairAttempt, SettledPart, SettledPayment, SettledReturn, SettledRow,
                    SettlementStore, WaitingRoomStore,
                },
            };
            use $crate::{
                ledger::{
                    audiences, campaigns, discards, listing, quarantine, reconcile, repairs,
                    settle, waiting_rooms,
                },
                ledger_host::{SqliteLedgerHost, job},
                reader::query,
            };

            #[async_trait]
            impl AudienceStore for $host {
                async fn audience(&self, id: CampaignId) -> Result<Option<String>, LedgerError> {
                    query(self.readers(), move |conn| audiences::audience(conn, id)).await
                }

                async fn has_share(
                    &self,
                    id: CampaignId,
                    user: &UserId,
                ) -> Result<bool, LedgerError> {
                    let user = user.clone();
                    let look = move |conn: &_| audiences::has_share(conn, id, &user);
                    query(self.readers(), look).await
                }

                async fn luckiest(
                    &self,
                    id: CampaignId,
                ) -> Result<Option<GrantRecord>, LedgerError> {
                    query(self.readers(), move |conn| audiences::luckiest(conn, id)).await
                }
            }

            #[async_trait]
            impl CampaignStore for $host {
                async fn create_by(
                    &self,
                    setup: &Setup,
                    details: &Details,
                    audience: Option<&str>,
                    by: Option<&Action>,
                ) -> Result<(), LedgerError> {
                    let creation = Creation {
                        used: None,
                        setup: setup.clone(),
                        details: details.clone(),
                        audience: audience.map(str::to_owned),
                        waiting_room: false,
                        by: by.cloned(),
                        opens: false,
                    };
                    match self.create_under(creation).await {
                        // It was there before, and stays as it is.
                        Ok(_) | Err(LedgerError::IdUsed) => Ok(()),
                        Err(error) => Err(error),
                    }
                }

                async fn describe(
                    &self,
                    id: CampaignId,
                    change: &DetailsChange,
                    by: Option<&Action>,
                ) -> Result<(), LedgerError> {
                    let (change, by) = (change.clone(), by.cloned());
                    job(self, 0, move |context| {
                        listing::describe(context.conn, context.now, id, &change, by.as_ref())
                    })
                    .await
                }

                async fn archive(
                    &self,
                    id: CampaignId,
                    by: Option<&Action>,
                ) -> Result<bool, LedgerError> {
                    let by = by.cloned();
                    job(self, 0, move |context| {
                        listing::archive(context.conn, context.now, id, by.as_ref())
                    })
                    .await
                }

                async fn list(
                    &self,
                    wanted: &CampaignQuery,
                ) -> Result<Vec<CampaignRecord>, LedgerError> {
                    let wanted = wanted.clone();
                    query(self.readers(), move |conn| listing::list(conn, &wanted)).await
                }

                async fn campaign(
                    &self,
                    id: CampaignId,
                ) -> Result<Option<CampaignRecord>, LedgerError> {
                    query(self.readers(), move |conn| campaigns::campaign(conn, id)).await
                }

                async fn drafts(
                    &self,
                    after: Option<CampaignId>,
                    limit: u32,
                ) -> Result<Vec<CampaignId>, LedgerError> {
                    let drafts = move |conn: &_| campaigns::drafts(conn, after, limit);
                    query(self.readers(), drafts).await
                }

                async fn setup(&self, id: CampaignId) -> Result<Option<Setup>, LedgerError> {
                    query(self.readers(), move |conn| campaigns::setup_by_id(conn, id)).await
                }

                async fn claimed_packets(
                    &self,
                    after: Option<CampaignId>,
                    limit: u32,
                ) -> Result<Vec<CampaignId>, LedgerError> {
                    let claimed = move |conn: &_| campaigns::claimed_packets(conn, after, limit);
                    query(self.readers(), claimed).await
                }

                async fn grants(
                    &self,
                    id: CampaignId,
                    after: u32,
                    limit: u32,
                ) -> Result<Vec<GrantRecord>, LedgerError> {
                    let grants = move |conn: &_| campaigns::grants(conn, id, after, limit);
                    query(self.readers(), grants).await
                }
            }

            #[async_trait]
            impl WaitingRoomStore for $host {
                async fn add_waiting_room(&self, id: CampaignId) -> Result<(), LedgerError> {
                    job(self, 0, move |context| waiting_rooms::add(context.conn, id)).await
                }

                async fn has_waiting_room(&self, id: CampaignId) -> Result<bool, LedgerError> {
                    query(self.readers(), move |conn| waiting_rooms::has(conn, id)).await
                }
            }

            #[async_trait]
            impl SettlementStore for $host {
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

                async fn settle(
                    &self,
                    partition: PartitionId,
                    entries: &[Entry],
                ) -> Result<Seq, LedgerError> {
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
            impl QuarantineStore for $host {
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
                    let found =
                        move |conn: &_| quarantine::has_grant(conn, partition, campaign, number);
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

                async fn redrive(
                    &self,
                    partition: PartitionId,
                    seq: Seq,
                ) -> Result<bool, LedgerError> {
                    let redrive = move |context: &mut $crate::job::JobContext<'_, '_>| {
                        settle::redrive(context.conn, partition, seq)
                    };
                    job(self, 1, redrive).await
                }

                async fn ask_discard(
                    &self,
                    partition: PartitionId,
                    seq: Seq,
                ) -> Result<bool, LedgerError> {
                    let ask = move |context: &mut $crate::job::JobContext<'_, '_>| {
                        discards::ask(context.conn, partition, seq)
                    };
                    job(self, 1, ask).await
                }

                async fn discards(&self, limit: u32) -> Result<Vec<Discard>, LedgerError> {
                    query(self.readers(), move |conn| discards::list(conn, limit)).await
                }

                async fn discard(
                    &self,
                    partition: PartitionId,
                    seq: Seq,
                ) -> Result<bool, LedgerError> {
                    let discard = move |context: &mut $crate::job::JobContext<'_, '_>| {
                        discards::discard(context.conn, partition, seq)
                    };
                    job(self, 1, discard).await
                }

                async fn end_discard(
                    &self,
                    partition: PartitionId,
                    seq: Seq,
                ) -> Result<(), LedgerError> {
                    let end = move |context: &mut $crate::job::JobContext<'_, '_>| {
                        discards::end(context.conn, partition, seq)
                    };
                    job(self, 1, end).await
                }
            }

            #[async_trait]
            impl ReconcileStore for $host {
                async fn live_campaigns(
                    &self,
                    after: Option<CampaignId>,
                    limit: u32,
                ) -> Result<Vec<CampaignId>, LedgerError> {
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
        };
    };
}
pub(crate) use impl_ledger;
