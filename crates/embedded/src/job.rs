//! Jobs that change the ledger's tables in the transaction of a batch.

use std::ops::Deref;

use qiang_core::{
    book::Setup,
    event::{PartitionId, Seq},
    ports::{EngineError, LedgerError},
    time::Timestamp,
};
use rusqlite::Transaction;

use crate::{
    error::DataFileError,
    fence::FencedConnection,
    ledger::campaign_insert::CampaignInsert,
    transaction::{ChangeIsolation, TransactionContext},
};

/// Result of the commit of a task's batch.
pub(crate) type Committed<'a> = Result<(), &'a EngineError>;

/// Change of the ledger's tables: runs in the transaction of a batch, answered after the commit.
pub(crate) trait LedgerJob: Send {
    /// Makes the change. An error undoes it. One commit may run it twice.
    fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), DataFileError>;

    /// Number of entries that the job settles; 0 if it settles none.
    fn entries(&self) -> usize;

    fn answer(self: Box<Self>, committed: Committed<'_>);
}

/// Context of a running ledger job.
pub(crate) struct JobContext<'a, 'c> {
    pub(crate) basis: &'a TransactionContext<'c>,
    /// Isolation for the parts of a job that may be refused separately.
    pub(crate) apart: &'a mut ChangeIsolation,
    /// Statements and cursor of the first job that enters campaigns, reused by later ones.
    pub(crate) entering: &'a mut Option<CampaignInsert<'c>>,
    pub(crate) done: &'a mut JobResult,
}

impl<'c> Deref for JobContext<'_, 'c> {
    type Target = TransactionContext<'c>;

    fn deref(&self) -> &TransactionContext<'c> {
        self.basis
    }
}

/// Results of the jobs of a transaction, apart from their changes.
#[derive(Default)]
pub(crate) struct JobResult {
    /// Partition positions to which jobs have settled.
    pub(crate) moved: Vec<(PartitionId, Seq)>,
    /// Campaigns that jobs entered and that open in the same commit, if the ledger belongs to an engine in the same
    /// file.
    pub(crate) opens: Vec<Setup>,
    /// Set by a job that may invalidate the writer's cache of campaigns. [`run_jobs`] sets it for every job that
    /// settles.
    pub(crate) forgets: bool,
}

/// Runs jobs in the open transaction. Stops early if one makes it [mixed](Apart::is_mixed).
pub(crate) fn run_jobs<'j>(
    basis: TransactionContext<'_>,
    jobs: impl Iterator<Item = &'j mut dyn LedgerJob>,
    apart: &mut ChangeIsolation,
    done: &mut JobResult,
) -> Result<(), DataFileError> {
    let mut entering = None;
    for job in jobs {
        let mut context = JobContext {
            basis: &basis,
            apart,
            entering: &mut entering,
            done,
        };
        run_job(job, &mut context)?;
        done.forgets |= job.entries() > 0;
        if apart.is_mixed() {
            break;
        }
    }
    Ok(())
}

/// Rolls back a mixed transaction and runs all its jobs in a new one, each isolated by a savepoint.
pub(crate) fn run_again<'c, 'j>(
    (conn, now): (&'c FencedConnection, Timestamp),
    settles_openings: bool,
    mixed: Transaction<'_>,
    jobs: impl Iterator<Item = &'j mut dyn LedgerJob>,
) -> Result<(Transaction<'c>, ChangeIsolation, JobResult), DataFileError> {
    mixed.rollback()?;
    let tx = conn.begin()?;
    let (mut apart, mut done) = (ChangeIsolation::by_savepoints(), JobResult::default());
    let basis = TransactionContext {
        conn: &tx,
        now,
        settles_openings,
    };
    run_jobs(basis, jobs, &mut apart, &mut done)?;
    Ok((tx, apart, done))
}

/// Runs a job. A refusal undoes only this job; any other error fails the batch.
fn run_job(job: &mut dyn LedgerJob, context: &mut JobContext<'_, '_>) -> Result<(), DataFileError> {
    let (conn, opens) = (context.conn, context.done.opens.len());
    let begun = context.apart.begin(conn)?;
    let is_refused = match job.run(context) {
        Ok(()) => false,
        Err(DataFileError::Refused(_)) => true,
        Err(error) => return Err(error),
    };
    if is_refused {
        context.done.opens.truncate(opens);
    }
    context.apart.end(conn, begun, is_refused)
}

/// [`LedgerJob`] made from a closure.
pub(crate) struct Job<T, F> {
    entries: usize,
    work: F,
    result: Option<Result<T, LedgerError>>,
    answer: tokio::sync::oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut JobContext<'_, '_>) -> Result<T, DataFileError> + Send + 'static,
{
    /// Returns a job that settles `entries` entries, and the receiver of its result.
    pub(crate) fn boxed(
        entries: usize,
        work: F,
    ) -> (
        Box<dyn LedgerJob>,
        tokio::sync::oneshot::Receiver<Result<T, LedgerError>>,
    ) {
        let (answer, receiver) = tokio::sync::oneshot::channel();
        let job = Self {
            entries,
            work,
            result: None,
            answer,
        };
        (Box::new(job), receiver)
    }
}

impl<T, F> LedgerJob for Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut JobContext<'_, '_>) -> Result<T, DataFileError> + Send + 'static,
{
    fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), DataFileError> {
        match (self.work)(context) {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) if error.is_io() => Err(error),
            // A rule of the ledger refused it. Only this job's change is undone; the batch continues.
            Err(error) => {
                let refusal = LedgerError::from(error);
                self.result = Some(Err(refusal.clone()));
                Err(DataFileError::Refused(refusal))
            }
        }
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn answer(self: Box<Self>, committed: Committed<'_>) {
        let result = result_of(committed, self.result);
        drop(self.answer.send(result)); // // the caller may have stopped waiting
    }
}

/// Combines the result of the commit with the job's own result; `None` if the job did not run.
pub(crate) fn result_of<T>(
    committed: Committed<'_>,
    result: Option<Result<T, LedgerError>>,
) -> Result<T, LedgerError> {
    let unavailable = |error: &EngineError| Err(LedgerError::unavailable(error.to_string()));
    match (committed, result) {
        (Err(EngineError::Uncertain { reason }), _) => Err(LedgerError::uncertain(reason.clone())),
        (Err(error), _) => unavailable(error),
        (Ok(()), Some(result)) => result,
        (Ok(()), None) => unavailable(&EngineError::Stopping),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::*;
    use crate::file::{self, DataFileKind};

    /// Test job that inserts a number if `changes`, and returns a refusal if `is_refused`.
    struct Put {
        number: i64,
        changes: bool,
        is_refused: bool,
    }

    impl LedgerJob for Put {
        fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), DataFileError> {
            if self.changes {
                let sql = "INSERT INTO numbers VALUES (?1)";
                context.conn.execute(sql, [self.number])?;
                context
                    .done
                    .moved
                    .push((PartitionId(0), self.number as u64));
            }
            match self.is_refused {
                true => Err(DataFileError::Refused(LedgerError::IdUsed)),
                false => Ok(()),
            }
        }

        fn entries(&self) -> usize {
            0
        }

        fn answer(self: Box<Self>, _: Committed<'_>) {}
    }

    fn each(jobs: &mut [Put]) -> impl Iterator<Item = &mut dyn LedgerJob> {
        jobs.iter_mut().map(|job| job as &mut dyn LedgerJob)
    }

    /// Three jobs; the second is refused, after a change or without one.
    fn jobs(changes: bool) -> [Put; 3] {
        [1, 2, 3].map(|number| Put {
            number,
            changes: number != 2 || changes,
            is_refused: number == 2,
        })
    }

    fn table(folder: &TempDir) -> FencedConnection {
        let path = folder.path().join("qiang.db");
        let conn = file::open_writer(&path, DataFileKind::Ledger, Timestamp::default()).unwrap();
        let tx = conn.begin().unwrap();
        tx.execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
            .unwrap();
        tx.commit().unwrap();
        conn
    }

    fn numbers(conn: &Connection) -> Vec<i64> {
        let mut select = conn.prepare("SELECT number FROM numbers").unwrap();
        let numbers = select.query_map([], |row| row.get(0)).unwrap();
        numbers.map(Result::unwrap).collect()
    }

    #[test]
    fn what_is_refused_before_it_changes_anything_leaves_the_others_alone() {
        let folder = TempDir::new().unwrap();
        let (conn, now) = (table(&folder), Timestamp::default());
        let (mut apart, mut done) = (ChangeIsolation::default(), JobResult::default());
        let mut jobs = jobs(false);
        let tx = conn.begin().unwrap();
        run_jobs(
            TransactionContext::new(&tx, now),
            each(&mut jobs),
            &mut apart,
            &mut done,
        )
        .unwrap();
        assert!(!apart.is_mixed());
        tx.commit().unwrap();
        assert_eq!((numbers(&conn), done.moved.len()), (vec![1, 3], 2));
    }

    #[test]
    fn what_is_refused_behind_a_change_is_undone_alone() {
        let folder = TempDir::new().unwrap();
        let (conn, now) = (table(&folder), Timestamp::default());
        let (mut apart, mut done) = (ChangeIsolation::default(), JobResult::default());
        let mut jobs = jobs(true);
        let tx = conn.begin().unwrap();
        run_jobs(
            TransactionContext::new(&tx, now),
            each(&mut jobs),
            &mut apart,
            &mut done,
        )
        .unwrap();
        assert!(apart.is_mixed());
        let (tx, apart, _) = run_again((&conn, now), false, tx, each(&mut jobs)).unwrap();
        tx.commit().unwrap();
        assert!(!apart.is_mixed());
        assert_eq!(numbers(&conn), [1, 3]);
    }
}
