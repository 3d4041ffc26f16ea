//! What every file does for the `Ledger` port, whether it is an engine's or a standalone ledger: changes go to the
//! writer as jobs, queries to the readers.

use std::sync::Arc;

use qiang_core::{
    book::Setup,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, UserId},
    money::Money,
    ports::{
        Balance, CampaignRecord, GrantRecord, KeyBinding, LedgerError, QuarantineCount,
        QuarantinedEntry,
    },
};
use rusqlite::Connection;
use uuid::Uuid;

use crate::{
    error::StoreError,
    ledger::{accounts, campaigns, keys, quarantine, settle},
    reader::{self, Readers},
    task::{Job, JobContext, LedgerJob},
};

/// A file with the ledger's tables, its one writer, and its readers.
pub(crate) trait SqliteLedgerHost: Sync {
    /// Hands a job to the writer, or answers it at once that it cannot be done.
    fn push_job(&self, job: Box<dyn LedgerJob>);

    fn readers(&self) -> &Arc<Readers>;
}

/// Has the writer do some work that settles so many entries.
async fn job<T: Send + 'static>(
    host: &impl SqliteLedgerHost,
    entries: usize,
    work: impl FnMut(&mut JobContext<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, LedgerError> {
    let (job, receiver) = Job::boxed(entries, work);
    host.push_job(job);
    receiver.await.unwrap_or_else(|_| {
        Err(LedgerError::Unavailable {
            reason: "the writer is gone".to_owned(),
        })
    })
}

pub(crate) async fn bind_key(
    host: &impl SqliteLedgerHost,
    scope: &str,
    key: &IdempotencyKey,
    fingerprint: [u8; 32],
    id: Uuid,
) -> Result<KeyBinding, LedgerError> {
    let (scope, key) = (scope.to_owned(), key.clone());
    let bind = move |context: &mut JobContext<'_>| {
        keys::bind(context.conn, context.now, &scope, &key, &fingerprint, id)
    };
    job(host, 0, bind).await
}

pub(crate) async fn deposit(
    host: &impl SqliteLedgerHost,
    id: Uuid,
    user: &UserId,
    amount: Money,
) -> Result<(), LedgerError> {
    let user = user.clone();
    let deposit = move |context: &mut JobContext<'_>| {
        accounts::deposit(context.conn, context.now, id, &user, amount)
    };
    job(host, 0, deposit).await
}

pub(crate) async fn create(host: &impl SqliteLedgerHost, setup: &Setup) -> Result<(), LedgerError> {
    let setup = setup.clone();
    let create =
        move |context: &mut JobContext<'_>| campaigns::create(context.conn, context.now, &setup);
    job(host, 0, create).await
}

pub(crate) async fn settle(
    host: &impl SqliteLedgerHost,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, LedgerError> {
    let entries = entries.to_vec();
    // To settle nothing is to settle all the same: it waits for its turn.
    let count = entries.len().max(1);
    let settle = move |context: &mut JobContext<'_>| {
        let position = settle::settle(context.conn, partition, &entries)?;
        context.moved.push((partition, position));
        Ok(position)
    };
    job(host, count, settle).await
}

pub(crate) async fn quarantine(
    host: &impl SqliteLedgerHost,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, LedgerError> {
    let (entry, reason) = (entry.clone(), reason.to_owned());
    let keep = move |context: &mut JobContext<'_>| {
        let position = settle::quarantine(context.conn, context.now, partition, &entry, &reason)?;
        context.moved.push((partition, position));
        Ok(position)
    };
    job(host, 1, keep).await
}

pub(crate) async fn redrive(
    host: &impl SqliteLedgerHost,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, LedgerError> {
    let redrive = move |context: &mut JobContext<'_>| settle::redrive(context.conn, partition, seq);
    job(host, 1, redrive).await
}

pub(crate) async fn count_quarantined(
    host: &impl SqliteLedgerHost,
    partition: PartitionId,
) -> Result<QuarantineCount, LedgerError> {
    let count = move |conn: &Connection| quarantine::count(conn, partition);
    reader::query(host.readers(), count).await
}

pub(crate) async fn list_quarantined(
    host: &impl SqliteLedgerHost,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, LedgerError> {
    let list = move |conn: &Connection| quarantine::list(conn, after, limit);
    reader::query(host.readers(), list).await
}

pub(crate) async fn balances(
    host: &impl SqliteLedgerHost,
    user: &UserId,
) -> Result<Vec<Balance>, LedgerError> {
    let user = user.clone();
    reader::query(host.readers(), move |conn| accounts::balances(conn, &user)).await
}

pub(crate) async fn campaign(
    host: &impl SqliteLedgerHost,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, LedgerError> {
    reader::query(host.readers(), move |conn| campaigns::campaign(conn, id)).await
}

pub(crate) async fn drafts(host: &impl SqliteLedgerHost) -> Result<Vec<Setup>, LedgerError> {
    reader::query(host.readers(), |conn| {
        let mut drafts = Vec::new();
        let mut take = |_, setup| drafts.push(setup);
        campaigns::each_setup(conn, campaigns::Which::Drafts, &mut take)?;
        Ok(drafts)
    })
    .await
}

pub(crate) async fn grants(
    host: &impl SqliteLedgerHost,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, LedgerError> {
    let page = move |conn: &Connection| campaigns::grants(conn, id, after, limit);
    reader::query(host.readers(), page).await
}
