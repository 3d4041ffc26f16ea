//! Call: repeats a request under one key until an answer decides it or the deadline has passed.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, timeout_at};

use crate::{
    client::{Client, ClientState},
    error::Error,
    ids::IdempotencyKey,
    problem::Problem,
    wire::{AttemptFailure, RawAnswer},
};

const USER_AGENT_VALUE: &str = concat!("qiang-client/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM_JSON: &[u8] = b"application/problem+json";
/// Problems with status 503 that decide the call: a retry at once would not help.
const OUTCOMES: [&str; 1] = ["paused"];
/// Problems that do not tell whether the request was carried out. Answers of proxies have `about:blank`.
const UNCERTAIN: [&str; 2] = ["uncertain", "about:blank"];

/// Request that can be sent several times.
pub(crate) struct RepeatableCall {
    pub(crate) method: Method,
    /// Path and query.
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    key: Option<IdempotencyKey>,
    /// Whether the request changes something.
    changes: bool,
    pub(crate) until: Option<Instant>,
}

impl RepeatableCall {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            headers: vec![(ACCEPT, JSON)],
            body: Bytes::new(),
            key: None,
            changes: false,
            until: None,
        }
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self {
            method: Method::POST,
            ..Self::get(path)
        }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::get(path)
        }
    }

    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self {
            method: Method::PATCH,
            ..Self::get(path)
        }
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| {
            Error::Usage(format!(
                "{name}: the value contains characters that no header allows"
            ))
        })?;
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
        Ok(self)
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Self, Error> {
        self.body = serde_json::to_vec(body).map_err(Error::usage)?.into();
        self.headers.push((CONTENT_TYPE, JSON));
        Ok(self)
    }

    /// Adds the client's idempotency key, or a new one.
    pub(crate) fn keyed(mut self, client: &Client) -> Self {
        let key = client.key.clone();
        self.key = Some(key.unwrap_or_else(IdempotencyKey::random));
        self.changes = true;
        self
    }

    /// Marks an idempotent change: the keys are in the body, or none is needed.
    pub(crate) fn changing(mut self) -> Self {
        self.changes = true;
        self
    }

    /// Sets a time limit that replaces the client's deadline.
    pub(crate) fn until(mut self, until: Instant) -> Self {
        self.until = Some(until);
        self
    }

    pub(crate) fn request(&self, client: &Client) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(format!("{}{}", client.shared.base, self.path))
            .header(USER_AGENT, USER_AGENT_VALUE);
        if let Some(bearer) = &client.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(key) = &self.key {
            request = request.header(IDEMPOTENCY_KEY, key.as_str());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(Full::new(self.body.clone()))
            .map_err(Error::usage)
    }
}

/// Answer that may repeat that of an earlier request with the same key or reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayable<T> {
    /// The answer.
    pub value: T,
    /// Whether an earlier request made the object. A retry of a lost attempt of this call counts as one.
    pub is_replay: bool,
}

/// Result of one attempt.
enum CallAttempt {
    Done(RawAnswer),
    Refused(Box<Problem>),
    Again {
        last: Error,
        after: Duration,
        uncertain: bool,
    },
}

impl Client {
    /// Deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        after(self.shared.bounds.deadline)
    }

    /// Carries a call out and parses the JSON of its answer.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: RepeatableCall) -> Result<T, Error> {
        read(&self.call(&call).await?)
    }

    /// As [`Client::json`], with whether the answer repeats that of an earlier request.
    pub(crate) async fn replayable<T: DeserializeOwned>(
        &self,
        call: RepeatableCall,
    ) -> Result<Replayable<T>, Error> {
        let answer = self.call(&call).await?;
        Ok(Replayable {
            value: read(&answer)?,
            is_replay: is_replay(&answer),
        })
    }

    /// Carries a call out. Returns a success or status 304.
    pub(crate) async fn call(&self, call: &RepeatableCall) -> Result<RawAnswer, Error> {
        let until = call.until.unwrap_or_else(|| self.deadline());
        let gave_up = |attempts, may_have_happened, last: Option<Error>| Error::GaveUp {
            attempts,
            may_have_happened: may_have_happened && call.changes,
            key: call.key.clone(),
            last: last.map(Box::new),
        };
        // Held over attempts and pauses. So while the service is down, callers wait here instead of sending more
        // requests.
        let Ok(turn) = timeout_at(until, self.shared.turns.acquire()).await else {
            return Err(gave_up(0, false, None));
        };
        // The semaphore is never closed.
        let _turn = turn.map_err(Error::usage)?;
        if Instant::now() >= until {
            return Err(gave_up(0, false, None));
        }
        let (mut attempts, mut may_have_happened) = (0, false);
        loop {
            attempts += 1;
            let (last, after) = match self.attempt(call.request(self)?, until).await {
                CallAttempt::Done(answer) => return Ok(answer),
                CallAttempt::Refused(problem) => return Err(Error::Problem(problem)),
                CallAttempt::Again {
                    last,
                    after,
                    uncertain,
                } => {
                    may_have_happened |= uncertain;
                    (last, after)
                }
            };
            let pause = after.saturating_add(self.jitter(attempts));
            if pause >= until.saturating_duration_since(Instant::now()) {
                return Err(gave_up(attempts, may_have_happened, Some(last)));
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn attempt(&self, request: Request<Full<Bytes>>, until: Instant) -> CallAttempt {
        let ClientState { wire, bounds, .. } = &*self.shared;
        let until = until.min(after(bounds.attempt_max));
        match timeout_at(until, wire.exchange(request)).await {
            Ok(Ok(answer)) => judge(answer),
            Ok(Err(AttemptFailure { error, sent })) => CallAttempt::Again {
                last: error,
                after: Duration::ZERO,
                uncertain: sent,
            },
            Err(_) => CallAttempt::Again {
                last: Error::Connection {
                    what: "no answer in time",
                    source: None,
                },
                after: Duration::ZERO,
                uncertain: true,
            },
        }
    }

    /// Random pause; its maximum doubles with each attempt (full jitter).
    fn jitter(&self, attempts: u32) -> Duration {
        let bounds = &self.shared.bounds;
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
        let longest = bounds
            .backoff_first
            .saturating_mul(doubled)
            .min(bounds.backoff_max);
        longest.mul_f64(rand::random::<f64>())
    }
}

/// Whether an answer repeats that of an earlier request.
pub(crate) fn is_replay(answer: &RawAnswer) -> bool {
    let replayed = answer.headers.get(IDEMPOTENCY_REPLAYED);
    replayed.is_some_and(|value| value.as_bytes() == b"true")
}

/// The instant after this time; at most a day from now.
pub(crate) fn after(time: Duration) -> Instant {
    Instant::now() + time.min(Duration::from_secs(86_400))
}

/// Whether an answer decides the call.
fn judge(answer: RawAnswer) -> CallAttempt {
    let status = answer.status;
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return CallAttempt::Done(answer);
    }
    let problem = Box::new(problem(&answer));
    let is_again = match status {
        StatusCode::SERVICE_UNAVAILABLE => !OUTCOMES.contains(&problem.kind()),
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::GATEWAY_TIMEOUT => true,
        _ => false,
    };
    if !is_again {
        return CallAttempt::Refused(problem);
    }
    CallAttempt::Again {
        after: Duration::from_secs(problem.retry_after_s.unwrap_or(0)),
        uncertain: UNCERTAIN.contains(&problem.kind()),
        last: Error::Problem(problem),
    }
}

/// Problem that an answer describes.
pub(crate) fn problem(answer: &RawAnswer) -> Problem {
    let text = |name: HeaderName| answer.headers.get(name)?.to_str().ok();
    let content_type = answer.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_problem = content_type.is_some_and(|found| found.starts_with(PROBLEM_JSON));
    let said = is_problem
        .then(|| serde_json::from_slice(&answer.body).ok())
        .flatten();
    let mut problem: Problem = said.unwrap_or_else(|| {
        let title = answer.status.canonical_reason().unwrap_or("no reason");
        Problem::without_details(answer.status.as_u16(), title)
    });
    problem.retry_after_s = text(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
    let id = text(HeaderName::from_static("x-request-id")).map(str::to_owned);
    problem.request_id = problem.request_id.or(id);
    problem
}

/// Parses the body of an answer.
pub(crate) fn read<T: DeserializeOwned>(answer: &RawAnswer) -> Result<T, Error> {
    let status = answer.status;
    serde_json::from_slice(&answer.body)
        .map_err(|error| Error::Answer(format!("{status}: {error}")))
}
