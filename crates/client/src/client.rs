//! The client: what its clones share, and what each has of its own.

use std::{sync::Arc, time::Duration};

use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Semaphore;

use crate::{error::Error, ids::IdempotencyKey, wire::Wire};

/// A client of one service. Clones share connections and bounds.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) bearer: Option<HeaderValue>,
    pub(crate) key: Option<IdempotencyKey>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// The URL without a slash at its end.
    pub(crate) base: String,
    pub(crate) wire: Wire,
    /// Of calls.
    pub(crate) turns: Semaphore,
    /// Of streams, which last.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) bounds: Bounds,
}

impl Client {
    /// The same for another user. Connections and bounds are shared.
    ///
    /// # Errors
    /// [`Error::Usage`] when the token cannot stand in a header.
    pub fn with_token(&self, token: &str) -> Result<Self, Error> {
        Ok(Self {
            bearer: Some(bearer(token)?),
            ..self.clone()
        })
    }

    /// The same, with this key instead of a new one. For one request and its repetitions: the service refuses another
    /// request under it.
    #[must_use]
    pub fn with_key(&self, key: IdempotencyKey) -> Self {
        Self {
            key: Some(key),
            ..self.clone()
        }
    }
}

/// The bounds of a client.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) deadline: Duration,
    pub(crate) attempt_max: Duration,
    pub(crate) in_flight_max: usize,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
}

/// The header of a token. It is not shown by `Debug`.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| Error::Usage(format!("{AUTHORIZATION}: not a token")))?;
    value.set_sensitive(true);
    Ok(value)
}
