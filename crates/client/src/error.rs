//! Errors of calls.

use crate::{ids::IdempotencyKey, problem::Problem};

/// Error of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused the request. A retry now would not help.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No answer decided the request before the deadline.
    #[error("no decisive answer after {attempts} attempts")]
    #[non_exhaustive]
    GaveUp {
        /// Number of attempts. 0 if the call got no permit because too many others are in flight.
        attempts: u32,
        /// Whether the service may still have carried the request out.
        may_have_happened: bool,
        /// Idempotency key of a change that has no keys in its body. [`crate::Client::with_key`] repeats the request.
        key: Option<IdempotencyKey>,
        /// Error of the last attempt.
        #[source]
        last: Option<Box<Error>>,
    },
    /// No connection, a broken connection, or no answer in time. [`Error::GaveUp`] has it as the error of its last
    /// attempt.
    #[error("{what}")]
    #[non_exhaustive]
    Connection {
        /// The failed action.
        what: &'static str,
        /// The cause.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The service answered something that this client does not understand.
    #[error("cannot parse the answer: {0}")]
    Answer(String),
    /// The caller passed an invalid URL, token or value.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Problem that the service reported; after retries, the last one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::GaveUp { last, .. } => last.as_ref()?.problem(),
            _ => None,
        }
    }

    /// Kind of the problem: the last word of its type, such as `sold-out`. Kinds are stable, so you can match on them.
    pub fn kind(&self) -> Option<&str> {
        self.problem().map(Problem::kind)
    }

    /// Whether the request may have been carried out although there is no answer. Then repeat it under the same key.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::GaveUp {
                may_have_happened, ..
            } => *may_have_happened,
            // There was an answer; it may have been a success.
            Self::Answer(_) => true,
            _ => false,
        }
    }

    /// Idempotency key of a request that may have been carried out.
    pub fn key(&self) -> Option<&IdempotencyKey> {
        match self {
            Self::GaveUp { key, .. } => key.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn is(&self, kinds: &[&str]) -> bool {
        matches!(self, Self::Problem(problem) if kinds.contains(&problem.kind()))
    }

    pub(crate) fn usage(what: impl ToString) -> Self {
        Self::Usage(what.to_string())
    }
}
