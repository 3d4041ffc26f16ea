//! What every file does for the `Ledger` port, whether an engine writes it too or it is a ledger alone: changes go
//! to the writer as jobs, questions to the readers.

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
pub(crate) trait Books: Sync {
    /// Hands a job to the writer, or answers it at once that it cannot be done.
    fn push_job(&self, job: Box<dyn LedgerJob>);

    fn readers(&self) -> &Arc<Readers>;
}

/// Has the writer do some work that settles so many entries.
async fn job<T: Send + 'static>(
    books: &impl Books,
    entries: usize,
    work: impl FnMut(&mut JobContext<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, LedgerError> {
    let (job, receiver) = Job::boxed(entries, work);
    books.push_job(job);
    receiver.await.unwrap_or_else(|_| {
        Err(LedgerError::Unavailable {
            reason: "the writer is gone".to_owned(),
        })
    })
}

pub(crate) async fn bind_key(
    books: &impl Books,
    scope: &str,
    key: &IdempotencyKey,
    fingerprint: [u8; 32],
    id: Uuid,
) -> Result<KeyBinding, LedgerError> {
    let (scope, key) = (scope.to_owned(), key.clone());
    let bind = move |context: &mut JobContext<'_>| {
        keys::bind(context.conn, context.now, &scope, &key, &fingerprint, id)
    };
    job(books, 0, bind).await
}

pub(crate) async fn deposit(
    books: &impl Books,
    id: Uuid,
    user: &UserId,
    amount: Money,
) -> Result<(), LedgerError> {
    let user = user.clone();
    let deposit = move |context: &mut JobContext<'_>| {
        accounts::deposit(context.conn, context.now, id, &user, amount)
    };
    job(books, 0, deposit).await
}

pub(crate) async fn create(books: &impl Books, setup: &Setup) -> Result<(), LedgerError> {
    let setup = setup.clone();
    let create =
        move |context: &mut JobContext<'_>| campaigns::create(context.conn, context.now, &setup);
    job(books, 0, create).await
}

pub(crate) async fn settle(
    books: &impl Books,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, LedgerError> {
    let entries = entries.to_vec();
    // To settle nothing is to settle all the same: it waits for its turn.
    let count = entries.len().max(1);
    let settle = move |context: &mut JobContext<'_>| {
        let position = settle::settle(context.conn, context.refs, partition, &entries)?;
        context.moved.push((partition, position));
        Ok(position)
    };
    job(books, count, settle).await
}

pub(crate) async fn quarantine(
    books: &impl Books,
    partition: PartitionId,
    entry: &Entry,
    reason: &str,
) -> Result<Seq, LedgerError> {
    let (entry, reason) = (entry.clone(), reason.to_owned());
    let keep = move |context: &mut JobContext<'_>| {
        let position =
            quarantine::quarantine(context.conn, context.now, partition, &entry, &reason)?;
        context.moved.push((partition, position));
        Ok(position)
    };
    job(books, 1, keep).await
}

pub(crate) async fn redrive(
    books: &impl Books,
    partition: PartitionId,
    seq: Seq,
) -> Result<bool, LedgerError> {
    let redrive = move |context: &mut JobContext<'_>| {
        quarantine::redrive(context.conn, context.refs, partition, seq)
    };
    job(books, 1, redrive).await
}

pub(crate) async fn count_quarantined(
    books: &impl Books,
    partition: PartitionId,
) -> Result<QuarantineCount, LedgerError> {
    let count = move |conn: &Connection| quarantine::count(conn, partition);
    reader::query(books.readers(), count).await
}

pub(crate) async fn list_quarantined(
    books: &impl Books,
    after: Option<(PartitionId, Seq)>,
    limit: u32,
) -> Result<Vec<QuarantinedEntry>, LedgerError> {
    let list = move |conn: &Connection| quarantine::list(conn, after, limit);
    reader::query(books.readers(), list).await
}

pub(crate) async fn balances(
    books: &impl Books,
    user: &UserId,
) -> Result<Vec<Balance>, LedgerError> {
    let user = user.clone();
    reader::query(books.readers(), move |conn| accounts::balances(conn, &user)).await
}

pub(crate) async fn campaign(
    books: &impl Books,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, LedgerError> {
    reader::query(books.readers(), move |conn| campaigns::campaign(conn, id)).await
}

pub(crate) async fn drafts(books: &impl Books) -> Result<Vec<Setup>, LedgerError> {
    reader::query(books.readers(), |conn| {
        let mut drafts = Vec::new();
        let mut take = |_, setup| drafts.push(setup);
        campaigns::each_setup(conn, campaigns::Which::Drafts, &mut take)?;
        Ok(drafts)
    })
    .await
}

pub(crate) async fn grants(
    books: &impl Books,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, LedgerError> {
    let page = move |conn: &Connection| campaigns::grants(conn, id, after, limit);
    reader::query(books.readers(), page).await
}
