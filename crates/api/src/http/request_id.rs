//! Ids of requests: the client's own, or a fresh one. The response, problem details and log lines have it. A request
//! may also belong to a trace: log lines name it, and calls to other services for the request belong to it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use qiang_core::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

use crate::http::auth_failure::AuthFailure;

/// Header of the id, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Header that marks the replay of an earlier answer.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Maximum length in bytes of a client's id.
const BYTES_MAX: usize = 128;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// Id of a request, with its trace, and whether its answer is a replay. The id has letters, digits and `-_.:/+=@`, so
/// that headers, JSON and logs need no escapes.
#[derive(Debug)]
pub(crate) struct RequestId {
    id: HeaderValue,
    trace: Option<Arc<TraceContext>>,
    replays: AtomicBool,
    /// Reason why a token of the request is not valid: index of an [`AuthFailure`] plus 1; 0 for none.
    auth_failure: AtomicUsize,
    /// The closest limit of the request: its number plus 1 in the upper half, the units that are left in the lower one;
    /// 0 for none.
    limit: AtomicU64,
    /// Scopes of the request's caller, as bits, and a bit above them once they are known.
    scopes: AtomicU32,
}

/// Bit of known scopes.
const KNOWN_SCOPES: u32 = 1 << 16;

impl Clone for RequestId {
    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            trace: self.trace.clone(),
            replays: self.replays().into(),
            auth_failure: self.auth_failure.load(Ordering::Relaxed).into(),
            limit: self.limit.load(Ordering::Relaxed).into(),
            scopes: self.scopes.load(Ordering::Relaxed).into(),
        }
    }
}

impl RequestId {
    /// The client's id, or a fresh one if there is no usable one; and the trace that the request names.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID);
        let given = given.filter(|value| is_usable(value.as_bytes()));
        Self {
            trace: trace_of(headers).map(Arc::new),
            ..given.cloned().unwrap_or_else(fresh).into()
        }
    }

    /// Marks the answer of this task as a replay, if it is a success.
    pub(crate) fn mark_replay() {
        // Outside of a request there is no answer to mark.
        let _outside = CURRENT.try_with(|id| id.replays.store(true, Ordering::Relaxed));
    }

    /// Whether the answer was [marked](Self::mark_replay).
    pub(crate) fn replays(&self) -> bool {
        self.replays.load(Ordering::Relaxed)
    }

    /// Records that a token of this task's request is not valid.
    pub(crate) fn mark_auth_failure(why: AuthFailure) {
        let mark = |id: &Self| id.auth_failure.store(why.index() + 1, Ordering::Relaxed);
        // Outside of a request there is no answer to mark.
        let _outside = CURRENT.try_with(mark);
    }

    /// Reason why a token of this task's request is not valid, if there is one.
    pub(crate) fn auth_failure() -> Option<AuthFailure> {
        let marked = CURRENT.try_with(|id| id.auth_failure.load(Ordering::Relaxed));
        AuthFailure::ALL.get(marked.ok()?.checked_sub(1)?).copied()
    }

    /// Records the scopes of the caller of this task's request.
    pub(crate) fn mark_scopes(bits: u16) {
        let word = u32::from(bits) | KNOWN_SCOPES;
        // Outside of a request no handler needs them.
        let _outside = CURRENT.try_with(|id| id.scopes.store(word, Ordering::Relaxed));
    }

    /// Scopes of the caller of this task's request; `None` if its token was not checked.
    pub(crate) fn caller_scopes() -> Option<u16> {
        let word = CURRENT.try_with(|id| id.scopes.load(Ordering::Relaxed));
        let word = word.ok().filter(|word| word & KNOWN_SCOPES != 0)?;
        Some(word as u16)
    }

    /// Records the units that a limit with this number leaves to this task's request. The limit that leaves least
    /// counts, and of two the later one.
    pub(crate) fn mark_limit(number: u16, remaining: u32) {
        let word = (u64::from(number) + 1) << 32 | u64::from(remaining);
        let mark = |id: &Self| {
            let before = id.limit.load(Ordering::Relaxed);
            if before == 0 || remaining <= before as u32 {
                id.limit.store(word, Ordering::Relaxed);
            }
        };
        // Outside of a request there is no answer to mark.
        let _outside = CURRENT.try_with(mark);
    }

    /// Number of the closest limit, and the units that it leaves, if there is one.
    pub(crate) fn closest_limit(&self) -> Option<(u16, u32)> {
        let word = self.limit.load(Ordering::Relaxed);
        let number = (word >> 32).checked_sub(1)?;
        Some((number as u16, word as u32))
    }

    /// Id of the request that this task answers, if any.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs `answer` as the request of this id, and returns the id.
    pub(crate) async fn scope<F: Future>(self, answer: F) -> (F::Output, Self) {
        let mut scoped = std::pin::pin!(CURRENT.scope(self, answer));
        let answered = scoped.as_mut().await;
        // The value is there until it is taken.
        let id = scoped.take_value().unwrap_or_else(|| fresh().into());
        (answered, id)
    }

    /// Runs `make` as the request of this id.
    pub(crate) fn scope_now<T>(&self, make: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), make)
    }

    pub(crate) fn as_str(&self) -> &str {
        // It has visible ASCII characters only.
        self.id.to_str().unwrap_or_default()
    }

    /// Trace of the request, if it named one.
    pub(crate) fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_deref()
    }

    /// Makes the request part of this trace.
    #[cfg(feature = "traces")]
    pub(crate) fn belongs_to(&mut self, trace: Arc<TraceContext>) {
        self.trace = Some(trace);
    }

    pub(crate) fn into_header(self) -> HeaderValue {
        self.id
    }
}

impl From<HeaderValue> for RequestId {
    fn from(id: HeaderValue) -> Self {
        Self {
            id,
            trace: None,
            replays: AtomicBool::new(false),
            auth_failure: AtomicUsize::new(0),
            limit: AtomicU64::new(0),
            scopes: AtomicU32::new(0),
        }
    }
}

/// Trace of the request that this task answers. Send its `headers()` with calls to other services for the request.
pub fn current_trace() -> Option<Arc<TraceContext>> {
    CURRENT.try_with(|current| current.trace.clone()).ok()?
}

/// `None` if the headers name no trace, or several.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let (parent, more) = (parents.next()?, parents.next());
    let state = headers.get_all(TRACESTATE).iter();
    match more {
        None => TraceContext::parse(parent.as_bytes(), state.map(HeaderValue::as_bytes)),
        Some(_) => None,
    }
}

fn is_usable(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=BYTES_MAX).contains(&id.len()) && id.iter().all(plain)
}

fn fresh() -> HeaderValue {
    let random = uuid::Uuid::from_bytes(rand::random());
    let mut digits = [0; uuid::fmt::Simple::LENGTH];
    let digits = random.simple().encode_lower(&mut digits);
    // Hexadecimal digits are always a valid header value.
    HeaderValue::from_str(digits).unwrap_or_else(|_| HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_gives_is_bounded_and_checked() {
        let id_of = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(given).unwrap());
            RequestId::from_headers(&headers).as_str().to_owned()
        };
        for good in ["a", "Root=1-67891233-abcdef", &"x".repeat(128)] {
            assert_eq!(id_of(good), good);
        }
        for bad in ["", "a b", "\"", "\\", "{}", &"x".repeat(129)] {
            let fresh = id_of(bad);
            assert!(fresh != bad && fresh.len() == 32, "{fresh}");
        }
        let (one, other) = (HeaderMap::new(), HeaderMap::new());
        assert_ne!(
            RequestId::from_headers(&one).as_str(),
            RequestId::from_headers(&other).as_str()
        );
    }
}
