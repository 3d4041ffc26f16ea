//! What travels from the callers to the writer thread, and back.

use qiang_core::{
    book::{Claim, Command, Reply},
    event::Seq,
    ports::{Answer, Claimed, EngineError, LedgerError},
    time::Timestamp,
};
use rusqlite::Connection;

use crate::{error::StoreError, log::Refs};

/// Something for the writer thread to do. Each carries the way back to whoever waits.
pub(crate) enum Task {
    Claim(Claim, Answer<Claimed>),
    Command(Command, Answer<Reply>),
    /// A commit that changes nothing but the probe's row.
    Probe(Answer<()>),
    Ledger(Box<dyn LedgerJob>),
}

/// How the commit that a task belonged to went.
pub(crate) type Committed<'a> = Result<(), &'a EngineError>;

/// A change to the ledger's tables: done in the batch's transaction, answered after its commit.
pub(crate) trait LedgerJob: Send {
    /// Makes the change, inside a savepoint that is undone if it returns an error.
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), StoreError>;

    /// Tells the caller.
    fn answer(self: Box<Self>, committed: Committed<'_>);
}

/// What a ledger job works with.
pub(crate) struct Desk<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) refs: &'a mut Refs,
    pub(crate) now: Timestamp,
    /// The position of settlement, which a job that settles moves.
    pub(crate) settled: &'a mut Seq,
}

/// A [`LedgerJob`] made of a closure.
pub(crate) struct Job<T, F> {
    work: F,
    result: Option<Result<T, LedgerError>>,
    answer: tokio::sync::oneshot::Sender<Result<T, LedgerError>>,
}

impl<T, F> Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
{
    pub(crate) fn task(work: F) -> (Task, tokio::sync::oneshot::Receiver<Result<T, LedgerError>>) {
        let (answer, receiver) = tokio::sync::oneshot::channel();
        (
            Task::Ledger(Box::new(Self {
                work,
                result: None,
                answer,
            })),
            receiver,
        )
    }
}

impl<T, F> LedgerJob for Job<T, F>
where
    T: Send + 'static,
    F: FnMut(&mut Desk<'_>) -> Result<T, StoreError> + Send + 'static,
{
    fn run(&mut self, desk: &mut Desk<'_>) -> Result<(), StoreError> {
        match (self.work)(desk) {
            Ok(value) => {
                self.result = Some(Ok(value));
                Ok(())
            }
            Err(error) if error.is_of_the_disk() => Err(error),
            // A rule of the ledger: this job's change is undone, the batch goes on.
            Err(error) => {
                let refusal = LedgerError::from(error);
                self.result = Some(Err(refusal.clone()));
                Err(StoreError::Refused(refusal))
            }
        }
    }

    fn answer(self: Box<Self>, committed: Committed<'_>) {
        let unavailable = |error: &EngineError| {
            Err(LedgerError::Unavailable {
                reason: error.to_string(),
            })
        };
        let result = match (committed, self.result) {
            (Err(EngineError::Uncertain { reason }), _) => Err(LedgerError::Uncertain {
                reason: reason.clone(),
            }),
            (Err(error), _) => unavailable(error),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => unavailable(&EngineError::Stopping),
        };
        drop(self.answer.send(result)); // whoever asked may be gone
    }
}
