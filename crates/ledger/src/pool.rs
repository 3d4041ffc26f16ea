//! Work on a connection of the pool: in a task of its own that nobody cancels, in a transaction, within a bound of
//! time, and again if the database rolled it back to let another transaction go on.

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
    dialect::{Class, Dialect},
    error::StoreError,
};

/// How often a piece of work is tried that the database rolls back for the sake of another one.
const ATTEMPTS_MAX: u32 = 12;
/// How long to wait after the first such attempt; twice as long after each further one, up to the bound.
const BACKOFF_FIRST: Duration = Duration::from_millis(1);
const BACKOFF_MAX: Duration = Duration::from_millis(64);
/// How many times longer than other work the entering of a campaign may take: a packet with millions of shares takes
/// minutes.
const ENTER_FACTOR: u32 = 15;
/// How long a rollback may take before the connection is closed instead.
const ROLLBACK_MAX: Duration = Duration::from_secs(5);

/// What a piece of work makes of a connection.
pub(crate) type Worked<'c, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'c>>;

/// Whether a piece of work changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It changes nothing, and each of its statements stands for itself.
    Read,
    /// All it does is one transaction.
    Write,
    /// The same, and it may be a big one.
    Enter,
}

/// A pool, and how long one attempt may take on its connections.
pub(crate) struct BoundedPool<D: Database> {
    pub(crate) pool: Pool<D>,
    pub(crate) work_max: Duration,
    pub(crate) outdated: Outdated,
}

/// Moment before which sessions are outdated: one of them could not write any longer, and the others began under the
/// same server, in the same role. They are closed when they are next acquired, however busy the pool is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outdated(Arc<Mutex<Option<Instant>>>);

impl Outdated {
    /// Outdates every session that is open now, after one failed that was acquired at a moment. Nothing changes if its
    /// like were outdated since.
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
        }
    }
}

impl<D: Database> BoundedPool<D> {
    fn work_max(&self, mode: Mode) -> Duration {
        match mode {
            Mode::Read | Mode::Write => self.work_max,
            Mode::Enter => self.work_max.saturating_mul(ENTER_FACTOR),
        }
    }
}

/// A piece of work on `args`, and what it made. To the task that runs it all pieces are one type: a task and its bounds
/// are compiled once a database instead of once a query, which halves the time that this crate takes to compile.
struct Piece<A, F, T> {
    args: A,
    work: F,
    made: Mutex<Option<T>>,
}

trait Work<D: Dialect>: Send + Sync {
    fn attempt<'c>(&'c self, conn: &'c mut D::Connection) -> Worked<'c, ()>;
}

impl<D, A, F, T> Work<D> for Piece<A, F, T>
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

/// Runs a piece of work on `args` to its end, whatever becomes of the caller.
///
/// A transaction that is dropped half way can leave its connection in the pool with the transaction open. So the
/// caller waits for a task that goes on without it; and a connection goes back to the pool only from where its state
/// is known.
pub(crate) async fn run<D: Dialect, A: Send + Sync + 'static, T: Send + 'static>(
    pool: &BoundedPool<D>,
    mode: Mode,
    args: A,
    work: impl for<'c> Fn(&'c mut D::Connection, &'c A) -> Worked<'c, T> + Send + Sync + 'static,
) -> Result<T, LedgerError> {
    let made = Mutex::new(None);
    let piece = Arc::new(Piece { args, work, made });
    spawn(pool.clone(), mode, piece.clone()).await?;
    let made = piece.made.lock().take();
    Ok(made.expect("work that ended well has made something"))
}

fn spawn<D: Dialect>(
    pool: BoundedPool<D>,
    mode: Mode,
    work: Arc<dyn Work<D>>,
) -> Pin<Box<dyn Future<Output = Result<(), LedgerError>> + Send>> {
    let task = tokio::spawn(async move {
        let mut attempt = 1;
        let mut had_new_session = false;
        loop {
            match once(&pool, mode, &*work).await {
                // The sessions that were open are outdated by now: once more, in a new one.
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
                Mode::Read => unavailable(&reason),
                Mode::Write | Mode::Enter => LedgerError::Uncertain { reason },
            })
        })
    })
}

fn backoff(attempt: u32) -> Duration {
    let wait = BACKOFF_FIRST.saturating_mul(1 << (attempt - 1).min(10));
    // Transactions that stood in each other's way should not come back at the same moment.
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let apart = TURNS.fetch_add(1, Ordering::Relaxed) % 8;
    wait.min(BACKOFF_MAX) + BACKOFF_FIRST.saturating_mul(apart)
}

/// A connection that goes back to the pool only by [`Session::give_back`]; otherwise it is closed, and the server rolls
/// back what was open on it.
struct Session<D: Database>(Option<PoolConnection<D>>);

impl<D: Database> Session<D> {
    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl<D: Database> Drop for Session<D> {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            drop(conn.detach());
        }
    }
}

/// One attempt.
async fn once<D: Dialect>(
    pool: &BoundedPool<D>,
    mode: Mode,
    work: &dyn Work<D>,
) -> Result<(), StoreError> {
    let mut session = Session(Some(pool.pool.acquire().await?));
    let acquired_at = Instant::now();
    let Some(conn) = session.0.as_mut() else {
        return Err(StoreError::Sqlx(sqlx::Error::PoolClosed));
    };
    let committing = AtomicBool::new(false);
    let transaction = async {
        if mode == Mode::Read {
            return work.attempt(&mut *conn).await;
        }
        D::run(&mut *conn, D::BEGIN).await?;
        work.attempt(&mut *conn).await?;
        committing.store(true, Ordering::Relaxed);
        D::run(&mut *conn, "COMMIT")
            .await
            .map_err(StoreError::Commit)
    };
    let work_max = pool.work_max(mode);
    let Ok(result) = tokio::time::timeout(work_max, transaction).await else {
        return Err(StoreError::TimedOut {
            seconds: work_max.as_secs(),
            committing: committing.load(Ordering::Relaxed),
        });
    };
    let sound = match (&result, mode) {
        (Ok(_), _) => true,
        (Err(error), Mode::Read) => !is_connection_failure::<D>(error),
        (Err(error), Mode::Write | Mode::Enter) => {
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

/// Whether the connection failed, as opposed to the work: the next piece of work fails on it as well.
fn is_connection_failure<D: Dialect>(error: &StoreError) -> bool {
    match error {
        StoreError::Sqlx(error) | StoreError::Commit(error) => {
            let failed = matches!(
                error,
                sqlx::Error::Io(_)
                    | sqlx::Error::Tls(_)
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::WorkerCrashed
            );
            failed || is_of_session::<D>(error)
        }
        StoreError::TimedOut { .. } => true,
        StoreError::Raced | StoreError::Refused(_) => false,
    }
}

/// Whether the database refused because of the session: other sessions of its age are refused as well.
fn is_session_failure<D: Dialect>(error: &StoreError) -> bool {
    match error {
        StoreError::Sqlx(error) | StoreError::Commit(error) => is_of_session::<D>(error),
        StoreError::TimedOut { .. } | StoreError::Raced | StoreError::Refused(_) => false,
    }
}

/// Whether the same work may succeed in a new session. After a commit nothing is done again: it may be kept.
fn needs_new_session<D: Dialect>(error: &StoreError) -> bool {
    matches!(error, StoreError::Sqlx(error) if is_of_session::<D>(error))
}

fn is_of_session<D: Dialect>(error: &sqlx::Error) -> bool {
    matches!(class::<D>(error), Some(Class::ReadOnly | Class::Session))
}

/// What the database says of an error, if it was the database that said it.
fn class<D: Dialect>(error: &sqlx::Error) -> Option<Class> {
    error.as_database_error().map(D::class)
}

/// Whether the work may well succeed the next time.
fn is_transient<D: Dialect>(error: &StoreError) -> bool {
    match error {
        StoreError::Sqlx(error) | StoreError::Commit(error) => {
            class::<D>(error) == Some(Class::Retry)
        }
        StoreError::Raced => true,
        StoreError::TimedOut { .. } | StoreError::Refused(_) => false,
    }
}

/// The port's error.
fn into_ledger_error<D: Dialect>(error: StoreError) -> LedgerError {
    let reason = chain(&error);
    match error {
        StoreError::Refused(refusal) => refusal,
        StoreError::Sqlx(error) | StoreError::Commit(error) if is_bad_row(&error) => {
            LedgerError::Damaged { reason }
        }
        StoreError::Sqlx(error) => match class::<D>(&error) {
            Some(Class::Contradiction) => LedgerError::Damaged { reason },
            Some(Class::Overflow) => LedgerError::Overflow,
            Some(Class::Retry | Class::ReadOnly | Class::Session | Class::Other) | None => {
                unavailable(&reason)
            }
        },
        StoreError::Commit(error) => match class::<D>(&error) {
            // An answer, and the answer is no.
            Some(Class::Retry | Class::ReadOnly) => unavailable(&reason),
            Some(Class::Contradiction) => LedgerError::Damaged { reason },
            Some(Class::Overflow | Class::Session | Class::Other) | None => {
                LedgerError::Uncertain { reason }
            }
        },
        StoreError::TimedOut {
            committing: true, ..
        } => LedgerError::Uncertain { reason },
        StoreError::TimedOut { .. } | StoreError::Raced => unavailable(&reason),
    }
}

fn unavailable(reason: &str) -> LedgerError {
    let reason = format!("the ledger's database failed: {reason}");
    LedgerError::Unavailable { reason }
}

/// Whether what a row holds could not be read.
fn is_bad_row(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::RowNotFound
            | sqlx::Error::InvalidArgument(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
    )
}
