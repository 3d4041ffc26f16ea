//! Client: state shared by its clones, and the state of each clone.

use std::{sync::Arc, time::Duration};

use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Semaphore;

use crate::{error::Error, ids::IdempotencyKey, wire::Wire};

/// Client of one service. Clones share connections and limits.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) shared: Arc<ClientState>,
    pub(crate) bearer: Option<HeaderValue>,
    pub(crate) key: Option<IdempotencyKey>,
}

#[derive(Debug)]
pub(crate) struct ClientState {
    /// The URL without its final slash.
    pub(crate) base: String,
    pub(crate) wire: Wire,
    /// Permits for calls.
    pub(crate) turns: Semaphore,
    /// Permits for streams, which last longer than calls.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) bounds: Bounds,
}

impl Client {
    /// Client for another user. It shares connections and limits.
    ///
    /// # Errors
    /// [`Error::Usage`] if the token cannot be part of a header.
    pub fn with_token(&self, token: &str) -> Result<Self, Error> {
        Ok(Self {
            bearer: Some(bearer(token)?),
            ..self.clone()
        })
    }

    /// Client that uses this idempotency key instead of new ones. Use it for one request and its retries: the service
    /// refuses another request under the same key.
    #[must_use]
    pub fn with_key(&self, key: IdempotencyKey) -> Self {
        Self {
            key: Some(key),
            ..self.clone()
        }
    }
}

/// Limits of a client.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) deadline: Duration,
    pub(crate) attempt_max: Duration,
    pub(crate) in_flight_max: usize,
    pub(crate) backoff_first: Duration,
    pub(crate) backoff_max: Duration,
}

/// Authorization header of a token. `Debug` does not show it.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
    let mut value = value.map_err(|_| {
        Error::Usage(format!(
            "{AUTHORIZATION}: the token contains characters that no header allows"
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}
