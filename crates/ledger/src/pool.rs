//! Work on a connection of the pool: in a task that is never cancelled, in a transaction, and within a time limit.
//! Repeated if the database rolled it back in favour of another transaction.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{error::chain, ports::LedgerError};
use sqlx::{Database, Pool, pool::PoolConnection};

use crate::{
    dialect::{Dialect, ErrorClass},
    error::WorkError,
    table_keys::KeyCheck,
};

/// Maximum attempts of work that the database rolls back in favour of other transactions.
const ATTEMPTS_MAX: u32 = 12;
/// Pause after the first such attempt. It doubles with each further one, up to the bound.
const BACKOFF_FIRST: Duration = Duration::from_millis(1);
const BACKOFF_MAX: Duration = Duration::from_millis(64);
/// Factor of the time limit for entering campaigns: a red packet with millions of shares takes minutes.
const ENTER_FACTOR: u32 = 15;
/// Time limit of a rollback. After it, the connection is closed instead.
const ROLLBACK_MAX: Duration = Duration::from_secs(5);

/// Future of the work on a connection.
pub(crate) type Worked<'c, T> = Pin<Box<dyn Future<Output = Result<T, WorkError>> + Send + 'c>>;

/// Kind of work, by its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessMode {
    /// Changes nothing; each of its statements is independent.
    Read,
    /// One transaction.
    Write,
    /// One transaction that may be large.
    Enter,
}

/// Connection pool with the time limit of one attempt.
pub(crate) struct BoundedPool<D: Database> {
    pub(crate) pool: Pool<D>,
    pub(crate) work_max: Duration,
    pub(crate) outdated: OutdatedSession,
    pub(crate) keys: KeyCheck,
}

/// Moment before which all sessions are outdated: one of them could no longer write, and the others began with the same
/// server in the same role. They are closed when they are next acquired, even if the pool is busy.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutdatedSession(Arc<Mutex<Option<Instant>>>);

impl OutdatedSession {
    /// Outdates all open sessions after a session acquired at this moment has failed. Does nothing if its generation is
    /// already outdated.
    fn outdate(&self, acquired_at: Instant) {
        let mut since = self.0.lock();
        if since.is_none_or(|since| since < acquired_at) {
            *since = Some(Instant::now());
        }
    }

    /// Whether a session of this age may be used.
    pub(crate) fn allows(&self, age: Duration) -> bool {
        let since = *self.0.lock();
        since.is_none_or(|since| age < since.elapsed())
    }
}

impl<D: Database> Clone for BoundedPool<D> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            work_max: self.work_max,
            outdated: self.outdated.clone(),
            keys: self.keys.clone(),
        }
    }
}

impl<D: Database> BoundedPool<D> {
    fn work_max(&self, mode: AccessMode) -> Duration {
        match mode {
            AccessMode::Read | AccessMode::Write => self.work_max,
            AccessMode::Enter => self.work_max.saturating_mul(ENTER_FACTOR),
        }
    }
}

/// Work on `args`, and its result. To the task that runs it, all work is one type. A task is then compiled once per
/// database instead of once per query, which halves the compile time of this crate.
struct WorkPiece<A, F, T> {
    args: A,
    work: F,
    made: Mutex<Option<T>>,
}

trait LedgerWork<D: Dialect>: Send + Sync {
    fn attempt<'c>(&'c self, conn: &'c mut D::Connection) -> Worked<'c, ()>;
}

impl<D, A, F, T> LedgerWork<D> for WorkPiece<A, F, T>
where
    D: Dialect,
    A: Send + Sync,
    F: for<'c> Fn(&'c mut D::Connection, &'c A) -> Worked<'c, T> + Send + Sync,
    T: Send,
{
    fn attempt<'c>(&'c self, conn: &'c mut D::Connection) -> Worked<'c, ()> {
        let work = (self.work)(conn, &self.args);
        Box::pin(async move {
            let made = work.await?;
            *self.made.lock() = Some(made);
            Ok(())
        })
    }
}

/// Runs work on `args` to its end, even if the caller is cancelled.
///
/// A transaction that is dropped half-way can leave its connection in the pool with the transaction open. So the work
/// runs in a task that continues without the caller. A connection returns to the pool only in a known state.
pub(crate) async fn run<D: Dialect, A: Send + Sync + 'static, T: Send + 'static>(
    pool: &BoundedPool<D>,
    mode: AccessMode,
    args: A,
    work: impl for<'c> Fn(&'c mut D::Connection, &'c A) -> Worked<'c, T> + Send + Sync + 'static,
) -> Result<T, LedgerError> {
    let made = Mutex::new(None);
    let piece = Arc::new(WorkPiece { args, work, made });
    spawn(pool.clone(), mode, piece.clone()).await?;
    let made = piece.made.lock().take();
    Ok(made.expect("successful work has a result"))
}

fn spawn<D: Dialect>(
    pool: BoundedPool<D>,
    mode: AccessMode,
    work: Arc<dyn LedgerWork<D>>,
) -> Pin<Box<dyn Future<Output = Result<(), LedgerError>> + Send>> {
    let task = tokio::spawn(async move {
        let mut attempt = 1;
        let mut had_new_session = false;
        loop {
            match once(&pool, mode, &*work).await {
                // The sessions that were open are outdated now: try once more in a new one.
                Err(error) if !had_new_session && needs_new_session::<D>(&error) => {
                    tracing::debug!(reason = chain(&error), "a session of the database failed");
                    had_new_session = true;
                }
                Err(error) if attempt < ATTEMPTS_MAX && is_transient::<D>(&error) => {
                    tracing::debug!(
                        attempt,
                        reason = chain(&error),
                        "the database asks to try again"
                    );
                    tokio::time::sleep(backoff(attempt)).await;
                    attempt += 1;
                }
                result => return result.map_err(|error| into_ledger_error::<D>(error)),
            }
        }
    });
    Box::pin(async move {
        task.await.unwrap_or_else(|error| {
            let reason = error.to_string();
            Err(match mode {
                AccessMode::Read => unavailable(&reason),
                AccessMode::Write | AccessMode::Enter => LedgerError::Uncertain { reason },
            })
        })
    })
}

fn backoff(attempt: u32) -> Duration {
    let wait = BACKOFF_FIRST.saturating_mul(1 << (attempt - 1).min(10));
    // Spreads the retries of transactions that conflicted.
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let apart = TURNS.fetch_add(1, Ordering::Relaxed) % 8;
    wait.min(BACKOFF_MAX) + BACKOFF_FIRST.saturating_mul(apart)
}

/// Connection that returns to the pool only by [`PooledSession::give_back`]. Otherwise it is closed, and the server
/// rolls back its open transaction.
struct PooledSession<D: Database>(Option<PoolConnection<D>>);

impl<D: Database> PooledSession<D> {
    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<D: Database> Drop for PooledSession<D> {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            drop(conn.detach());
        }
    }
}

/// Makes one attempt.
async fn once<D: Dialect>(
    pool: &BoundedPool<D>,
    mode: AccessMode,
    work: &dyn LedgerWork<D>,
) -> Result<(), WorkError> {
    let mut session = PooledSession(Some(pool.pool.acquire().await?));
    let acquired_at = Instant::now();
    let Some(conn) = session.0.as_mut() else {
        return Err(WorkError::Sqlx(sqlx::Error::PoolClosed));
    };
    let committing = AtomicBool::new(false);
    let transaction = async {
        if mode == AccessMode::Read {
            return work.attempt(&mut *conn).await;
        }
        pool.keys.before_writing::<D>(&mut *conn).await?;
        D::run(&mut *conn, D::BEGIN).await?;
        work.attempt(&mut *conn).await?;
        committing.store(true, Ordering::Relaxed);
        D::run(&mut *conn, "COMMIT")
            .await
            .map_err(WorkError::Commit)
    };
    let work_max = pool.work_max(mode);
    let Ok(result) = tokio::time::timeout(work_max, transaction).await else {
        return Err(WorkError::TimedOut {
            seconds: work_max.as_secs(),
            committing: committing.load(Ordering::Relaxed),
        });
    };
    let sound = match (&result, mode) {
        (Ok(_), _) => true,
        (Err(error), AccessMode::Read) => !is_connection_failure::<D>(error),
        (Err(error), AccessMode::Write | AccessMode::Enter) => {
            !is_connection_failure::<D>(error) && undone::<D>(conn).await
        }
    };
    if sound {
        session.give_back();
    } else if result.as_ref().is_err_and(is_session_failure::<D>) {
        pool.outdated.outdate(acquired_at);
    }
    result
}

async fn undone<D: Dialect>(conn: &mut D::Connection) -> bool {
    let undone = tokio::time::timeout(ROLLBACK_MAX, D::run(conn, "ROLLBACK")).await;
    matches!(undone, Ok(Ok(())))
}

/// Whether the connection failed, not the work: the next work on it would fail too.
fn is_connection_failure<D: Dialect>(error: &WorkError) -> bool {
    match error {
        WorkError::Sqlx(error) | WorkError::Commit(error) => {
            let failed = matches!(
                error,
                sqlx::Error::Io(_)
                    | sqlx::Error::Tls(_)
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::WorkerCrashed
            );
            failed || is_of_session::<D>(error)
        }
        WorkError::TimedOut { .. } => true,
        WorkError::Raced | WorkError::Refused(_) => false,
    }
}

/// Whether the database refused because of the session: it refuses other sessions of this age too.
fn is_session_failure<D: Dialect>(error: &WorkError) -> bool {
    match error {
        WorkError::Sqlx(error) | WorkError::Commit(error) => is_of_session::<D>(error),
        WorkError::TimedOut { .. } | WorkError::Raced | WorkError::Refused(_) => false,
    }
}

/// Whether the same work may succeed in a new session. After a commit nothing is repeated, because it may be kept.
fn needs_new_session<D: Dialect>(error: &WorkError) -> bool {
    matches!(error, WorkError::Sqlx(error) if is_of_session::<D>(error))
}

fn is_of_session<D: Dialect>(error: &sqlx::Error) -> bool {
    matches!(
        class::<D>(error),
        Some(ErrorClass::ReadOnly | ErrorClass::Session)
    )
}

/// Class of an error that the database returned; `None` for other errors.
fn class<D: Dialect>(error: &sqlx::Error) -> Option<ErrorClass> {
    error.as_database_error().map(D::class)
}

/// Whether a retry may succeed.
fn is_transient<D: Dialect>(error: &WorkError) -> bool {
    match error {
        WorkError::Sqlx(error) | WorkError::Commit(error) => {
            class::<D>(error) == Some(ErrorClass::Retry)
        }
        WorkError::Raced => true,
        WorkError::TimedOut { .. } | WorkError::Refused(_) => false,
    }
}

/// Converts to the port's error.
fn into_ledger_error<D: Dialect>(error: WorkError) -> LedgerError {
    let reason = chain(&error);
    match error {
        WorkError::Refused(refusal) => refusal,
        WorkError::Sqlx(error) | WorkError::Commit(error) if is_bad_row(&error) => {
            LedgerError::Damaged { reason }
        }
        WorkError::Sqlx(error) => match class::<D>(&error) {
            Some(ErrorClass::Contradiction) => LedgerError::Damaged { reason },
            Some(ErrorClass::Overflow) => LedgerError::Overflow,
            Some(
                ErrorClass::Retry | ErrorClass::ReadOnly | ErrorClass::Session | ErrorClass::Other,
            )
            | None => unavailable(&reason),
        },
        WorkError::Commit(error) => match class::<D>(&error) {
            // The database answered and refused.
            Some(ErrorClass::Retry | ErrorClass::ReadOnly) => unavailable(&reason),
            Some(ErrorClass::Contradiction) => LedgerError::Damaged { reason },
            Some(ErrorClass::Overflow | ErrorClass::Session | ErrorClass::Other) | None => {
                LedgerError::Uncertain { reason }
            }
        },
        WorkError::TimedOut {
            committing: true, ..
        } => LedgerError::Uncertain { reason },
        WorkError::TimedOut { .. } | WorkError::Raced => unavailable(&reason),
    }
}

fn unavailable(reason: &str) -> LedgerError {
    let reason = format!("the ledger's database failed: {reason}");
    LedgerError::Unavailable { reason }
}

/// Whether the content of a row could not be read.
fn is_bad_row(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::RowNotFound
            | sqlx::Error::InvalidArgument(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
    )
}
