//! Builder of a client: the URL of the service and all limits.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use url::Url;

use crate::{
    client::{Bounds, Client, ClientState, bearer},
    error::Error,
    wire::Wire,
};

/// Time limit of a call with all its attempts.
const DEADLINE: Duration = Duration::from_secs(30);
/// Time limit of an attempt. After it the request is repeated.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);
/// Maximum number of calls in flight.
const IN_FLIGHT_MAX: usize = 64;
/// Maximum of the first pause. Each further maximum is twice the one before, up to `BACKOFF_MAX`.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Builds a [`Client`].
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    url: String,
    token: Option<String>,
    bounds: Bounds,
}

impl Client {
    /// Builder of a client for the service at this URL, `http://` or `https://`. A path in the URL precedes all paths
    /// of the API.
    pub fn builder(url: &str) -> Builder {
        Builder {
            url: url.to_owned(),
            token: None,
            bounds: Bounds {
                deadline: DEADLINE,
                attempt_max: ATTEMPT_MAX,
                in_flight_max: IN_FLIGHT_MAX,
                backoff_first: BACKOFF_FIRST,
                backoff_max: BACKOFF_MAX,
            },
        }
    }
}

impl Builder {
    /// Sets the bearer token of all requests. Default: none.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the time limit of a call with all its attempts and pauses; default 30 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.bounds.deadline = deadline;
        self
    }

    /// Sets the time limit of an attempt. After it the request is repeated under the same key; default 10 s.
    pub fn attempt_max(mut self, attempt_max: Duration) -> Self {
        self.bounds.attempt_max = attempt_max;
        self
    }

    /// Sets the maximum number of calls in flight over all clones; default 64. Streams of queue entries have a separate
    /// limit of the same size.
    pub fn in_flight_max(mut self, calls: usize) -> Self {
        self.bounds.in_flight_max = calls;
        self
    }

    /// Sets the maximum of the first pause (`first`) and of all pauses (`max`); defaults 50 ms and 2 s. Each maximum is
    /// twice the one before. Pauses are random up to their maximum, and come on top of a `Retry-After`.
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        self.bounds.backoff_first = first;
        self.bounds.backoff_max = max;
        self
    }

    /// Builds the client. It connects at the first call, which needs a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Usage`] if the URL is invalid, the token cannot be part of a header, or no call may be in flight.
    pub fn build(self) -> Result<Client, Error> {
        let url = &self.url;
        let invalid = || {
            Error::Usage(format!(
                "invalid URL `{url}`: use one such as http://127.0.0.1:8080"
            ))
        };
        let base = base(url).ok_or_else(invalid)?;
        let is_secure = base.scheme() == "https";
        if !(1..=Semaphore::MAX_PERMITS).contains(&self.bounds.in_flight_max) {
            return Err(Error::usage("in_flight_max must be at least 1"));
        }
        let calls = self.bounds.in_flight_max;
        Ok(Client {
            shared: Arc::new(ClientState {
                base: base.as_str().trim_end_matches('/').to_owned(),
                wire: Wire::new(is_secure)?,
                turns: Semaphore::new(calls),
                streams: Arc::new(Semaphore::new(calls)),
                bounds: self.bounds,
            }),
            bearer: self.token.as_deref().map(bearer).transpose()?,
            key: None,
        })
    }
}

/// Base URL of all calls; `None` if it has a query, a fragment, or port 0.
fn base(text: &str) -> Option<Url> {
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let url = Url::parse(text).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && text.contains("://");
    let is_bare = url.query().is_none() && url.fragment().is_none() && url.port() != Some(0);
    (is_plain && is_web && is_bare).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_url_with_a_port_that_can_be_connected() {
        let check = |url: &str, expected: Option<&str>| {
            let built = Client::builder(url).build();
            let base = built.map(|client| client.shared.base.clone());
            assert_eq!(base.ok().as_deref(), expected, "{url}");
        };
        check("http://127.0.0.1:8080", Some("http://127.0.0.1:8080"));
        check("http://a.example/q/", Some("http://a.example/q"));
        for wrong in [
            "http://a.example:0",
            "http://a.example:99999",
            "http://a.example:-1",
            "http://a.example/?x=1",
            "http://a.example/#x",
            "ftp://a.example",
            "http:a.example",
            "a.example",
            "http://",
            "",
        ] {
            check(wrong, None);
        }
    }
}
