//! Changes of the ledger's tables that the writer makes in the transaction of a batch.

use qiang_core::{
    book::Setup,
    event::{PartitionId, Seq},
    ports::{EngineError, LedgerError},
    time::Timestamp,
};
use rusqlite::Connection;

use crate::error::StoreError;

/// How the commit that a task belonged to went.
pub(crate) type Committed<'a> = Result<(), &'a EngineError>;

/// A change to the ledger's tables: done in the batch's transaction, answered after its commit.
pub(crate) trait LedgerJob: Send {
    /// Makes the change, inside a savepoint that is undone if it returns an error.
    fn run(&mut self, context: &mut JobContext<'_>) -> Result<(), StoreError>;

    /// How many entries it settles; 0 for a job that settles none.
    fn entries(&self) -> usize;

    fn answer(self: Box<Self>, committed: Committed<'_>);
}

/// What a ledger job works with: the transaction, and what the writer keeps between transactions.
pub(crate) struct JobContext<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Timestamp,
    /// Where jobs that settle have moved the positions of their partitions.
    pub(crate) moved: &'a mut Vec<(PartitionId, Seq)>,
    /// Campaigns that jobs have entered and that are opened with them, where this ledger is an engine's own.
    pub(crate) opens: &'a mut Vec<Setup>,
    /// Set by jobs behind which what the writer remembers of campaigns may be wrong. Those that settle need not.
    pub(crate) forgets: &'a mut bool,
}

/// Runs a job in a savepoint. A refusal undoes the job alone; any other error fails the batch.
pub(crate) fn run_job(
    job: &mut dyn LedgerJob,
    context: &mut JobContext<'_>,
) -> Result<(), StoreError> {
    let opens = context.opens.len();
    let conn = context.conn;
    let run = |sql| -> Result<(), StoreError> {
        conn.prepare_cached(sql)?.execute([])?;
        Ok(())
    };
    run("SAVEPOINT job")?;
    match job.run(context) {
        Ok(()) => {}
        Err(StoreError::Refused(_)) => {
            context.opens.truncate(opens);
            run("ROLLBACK TO job")?;
        }
        Err(error) => return Err(error),
    }
    run("RELEASE job")
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
    F: FnMut(&mut JobContext<'_>) -> Result<T, StoreError> + Send + 'static,
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
    F: FnMut(&mut JobContext<'_>) -> Result<T, StoreError> + Send + 'static,
{
    fn run(&mut self, context: &mut JobContext<'_>) -> Result<(), StoreError> {
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
