//! Tasks between their decision and the commit.

use qiang_core::{
    book::{Refusal, Reply},
    outcome::Outcome,
    ports::{Claimed, EngineError, ProbeResult, ReplySender},
};

use crate::job::LedgerJob;

/// A task that was decided and waits for the commit.
pub(super) enum DecidedTask {
    Claim(Result<Outcome, Refusal>, ReplySender<Claimed>),
    Command(Result<Reply, Refusal>, ReplySender<Reply>),
    Probe(ReplySender<ProbeResult>),
    Ledger(Box<dyn LedgerJob>),
}

impl DecidedTask {
    pub(super) fn refuse(self, error: &EngineError) {
        match self {
            Self::Claim(_, answer) => answer.send(Err(error.clone())),
            Self::Command(_, answer) => answer.send(Err(error.clone())),
            Self::Probe(answer) => answer.send(Err(error.clone())),
            Self::Ledger(job) => job.answer(Err(error)),
        }
    }
}
