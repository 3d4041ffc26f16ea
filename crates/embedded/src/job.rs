//! Changes of the ledger's tables that the writer makes in the transaction of a batch.

use std::ops::Deref;

use qiang_core::{
    book::Setup,
    event::{PartitionId, Seq},
    ports::{EngineError, LedgerError},
    time::Timestamp,
};
use rusqlite::{Connection, Transaction};

use crate::{
    error::StoreError,
    file,
    ledger::entering::Entering,
    transaction::{Apart, Basis},
};

/// How the commit that a task belonged to went.
pub(crate) type Committed<'a> = Result<(), &'a EngineError>;

/// A change to the ledger's tables: done in the batch's transaction, answered after its commit.
pub(crate) trait LedgerJob: Send {
    /// Makes the change, which is undone if it returns an error. It may be run again in the same commit.
    fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), StoreError>;

    /// How many entries it settles; 0 for a job that settles none.
    fn entries(&self) -> usize;

    fn answer(self: Box<Self>, committed: Committed<'_>);
}

/// What a ledger job works with.
pub(crate) struct JobContext<'a, 'c> {
    pub(crate) basis: &'a Basis<'c>,
    /// For parts of a job that are refused alone.
    pub(crate) apart: &'a mut Apart,
    /// What the first job that enters campaigns leaves to the next one.
    pub(crate) entering: &'a mut Option<Entering<'c>>,
    pub(crate) done: &'a mut Done,
}

impl<'c> Deref for JobContext<'_, 'c> {
    type Target = Basis<'c>;

    fn deref(&self) -> &Basis<'c> {
        self.basis
    }
}

/// What the jobs of a transaction have done, beside their changes.
#[derive(Default)]
pub(crate) struct Done {
    /// Where jobs that settle have moved the positions of their partitions.
    pub(crate) moved: Vec<(PartitionId, Seq)>,
    /// Campaigns that jobs have entered and that are opened with them, where this ledger is an engine's own.
    pub(crate) opens: Vec<Setup>,
    /// Set by jobs behind which what the writer remembers of campaigns may be wrong. Those that settle need not.
    pub(crate) forgets: bool,
}

/// Runs jobs in the transaction that is open, until one of them makes it [mixed](Apart::is_mixed).
pub(crate) fn run_jobs<'j>(
    basis: Basis<'_>,
    jobs: impl Iterator<Item = &'j mut dyn LedgerJob>,
    apart: &mut Apart,
    done: &mut Done,
) -> Result<(), StoreError> {
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

/// Undoes a transaction that is mixed, and runs all of its jobs in another one, apart by savepoints.
pub(crate) fn run_again<'c, 'j>(
    (conn, now): (&'c Connection, Timestamp),
    settles_openings: bool,
    mixed: Transaction<'_>,
    jobs: impl Iterator<Item = &'j mut dyn LedgerJob>,
) -> Result<(Transaction<'c>, Apart, Done), StoreError> {
    mixed.rollback()?;
    let tx = file::begin(conn)?;
    let (mut apart, mut done) = (Apart::by_savepoints(), Done::default());
    let basis = Basis {
        conn: &tx,
        now,
        settles_openings,
    };
    run_jobs(basis, jobs, &mut apart, &mut done)?;
    Ok((tx, apart, done))
}

/// Runs a job. A refusal undoes the job alone; any other error fails the batch.
fn run_job(job: &mut dyn LedgerJob, context: &mut JobContext<'_, '_>) -> Result<(), StoreError> {
    let (conn, opens) = (context.conn, context.done.opens.len());
    let begun = context.apart.begin(conn)?;
    let is_refused = match job.run(context) {
        Ok(()) => false,
        Err(StoreError::Refused(_)) => true,
        Err(error) => return Err(error),
    };
    if is_refused {
        context.done.opens.truncate(opens);
    }
    context.apart.end(conn, begun, is_refused)
}

/// A [`LedgerJob`] made of a closure.
pub(crate) struct Job<T, F> {
    entries: usize,
    work: F,
    result: Option<Result<T, LedgerError>>,
    answer: tokio::sync::oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut JobContext<'_, '_>) -> Result<T, StoreError> + Send + 'static,
{
    /// A job that settles so many entries, and the receiver of its result.
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
    F: FnMut(&mut JobContext<'_, '_>) -> Result<T, StoreError> + Send + 'static,
{
    fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), StoreError> {
        match (self.work)(context) {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) if error.is_io() => Err(error),
            // A rule of the ledger: this job's change is undone, the batch goes on.
            Err(error) => {
                let refusal = LedgerError::from(error);
                self.result = Some(Err(refusal.clone()));
                Err(StoreError::Refused(refusal))
            }
        }
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn answer(self: Box<Self>, committed: Committed<'_>) {
        let result = result_of(committed, self.result);
        drop(self.answer.send(result)); // the caller may have stopped waiting
    }
}

/// What a job is answered that has come to this, if it was run.
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
    use super::*;

    /// Puts a number into the table, if it changes anything, and is refused if it is to be.
    struct Put {
        number: i64,
        changes: bool,
        is_refused: bool,
    }

    impl LedgerJob for Put {
        fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), StoreError> {
            if self.changes {
                let sql = "INSERT INTO numbers VALUES (?1)";
                context.conn.execute(sql, [self.number])?;
                context
                    .done
                    .moved
                    .push((PartitionId(0), self.number as u64));
            }
            match self.is_refused {
                true => Err(StoreError::Refused(LedgerError::IdUsed)),
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

    /// Three jobs of which the second is refused, before or behind a change.
    fn jobs(changes: bool) -> [Put; 3] {
        [1, 2, 3].map(|number| Put {
            number,
            changes: number != 2 || changes,
            is_refused: number == 2,
        })
    }

    fn table() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
            .unwrap();
        conn
    }

    fn numbers(conn: &Connection) -> Vec<i64> {
        let mut select = conn.prepare("SELECT number FROM numbers").unwrap();
        let numbers = select.query_map([], |row| row.get(0)).unwrap();
        numbers.map(Result::unwrap).collect()
    }

    #[test]
    fn what_is_refused_before_it_changes_anything_leaves_the_others_alone() {
        let (conn, now) = (table(), Timestamp::default());
        let (mut apart, mut done) = (Apart::default(), Done::default());
        let mut jobs = jobs(false);
        let tx = conn.unchecked_transaction().unwrap();
        run_jobs(Basis::new(&tx, now), each(&mut jobs), &mut apart, &mut done).unwrap();
        assert!(!apart.is_mixed());
        tx.commit().unwrap();
        assert_eq!((numbers(&conn), done.moved.len()), (vec![1, 3], 2));
    }

    #[test]
    fn what_is_refused_behind_a_change_is_undone_alone() {
        let (conn, now) = (table(), Timestamp::default());
        let (mut apart, mut done) = (Apart::default(), Done::default());
        let mut jobs = jobs(true);
        let tx = conn.unchecked_transaction().unwrap();
        run_jobs(Basis::new(&tx, now), each(&mut jobs), &mut apart, &mut done).unwrap();
        assert!(apart.is_mixed());
        let (tx, apart, _) = run_again((&conn, now), false, tx, each(&mut jobs)).unwrap();
        tx.commit().unwrap();
        assert!(!apart.is_mixed());
        assert_eq!(numbers(&conn), [1, 3]);
    }
}
