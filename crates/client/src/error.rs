//! Why a call failed.

use crate::{ids::IdempotencyKey, problem::Problem};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused, and repeating the request now would not change that.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// There was no answer, or none that decides anything, until the deadline.
    #[error("no answer that decides it after {attempts} attempts")]
    #[non_exhaustive]
    GaveUp {
        /// How often it was tried. 0: the call got no turn; too many others are in flight.
        attempts: u32,
        /// Whether the service may have carried it out all the same.
        may_have_happened: bool,
        /// What the request was made under, if it changes something and has no keys in its body.
        /// [`crate::Client::with_key`] repeats it.
        key: Option<IdempotencyKey>,
        /// How the last attempt failed.
        #[source]
        last: Option<Box<Error>>,
    },
    /// No connection, or one that broke, or no answer in time. It is what [`Error::GaveUp`] says of its last attempt.
    #[error("{what}")]
    #[non_exhaustive]
    Connection {
        /// What failed.
        what: &'static str,
        /// Why.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The service answered something that this client does not understand.
    #[error("an answer that is not understood: {0}")]
    Answer(String),
    /// The client was asked wrongly: a URL, a token or a value that cannot be sent.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// What the service said, if it said anything: at last, where it was tried again and again.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::GaveUp { last, .. } => last.as_ref()?.problem(),
            _ => None,
        }
    }

    /// Which problem it is: the last word of its type, such as `sold-out`. Stable: switch on it.
    pub fn kind(&self) -> Option<&str> {
        self.problem().map(Problem::kind)
    }

    /// Whether the request may have been carried out although there is no answer. Then repeat it under the same key.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::GaveUp {
                may_have_happened, ..
            } => *may_have_happened,
            // It was answered, by a success it may be.
            Self::Answer(_) => true,
            _ => false,
        }
    }

    /// The key of a request that may have been carried out.
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
