//! Log lines about failed requests: one per request, with its id, its route and the chain of errors. Also lines about
//! unauthenticated requests.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;

use crate::http::{auth_failure::AuthFailure, request_id::RequestId};

/// Maximum number of lines per second about components that do not answer, such as a ledger that is down. Under peak
/// load each claim would be one; further ones are counted. A server error (500) always has its line.
const LINES_A_SECOND_MAX: u32 = 100;

/// Cause of a failed request, for the log only: an extension of the response.
#[derive(Debug, Clone)]
pub(crate) struct Cause(pub(crate) String);

/// A request that failed.
pub(crate) struct FailedRequest<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) method: Method,
    pub(crate) route: &'a str,
    pub(crate) status: StatusCode,
    pub(crate) cause: Option<&'a Cause>,
}

/// Logs one line about parts that failed in a request that did not.
pub(crate) fn log_of_batch(failed: usize, cause: &str) {
    let id = RequestId::current();
    tracing::error!(
        request_id = id.as_ref().map(RequestId::as_str),
        failed,
        cause,
        "parts of a request failed"
    );
}

/// Writes the lines, and counts the omitted ones.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Option<LogSecond>>);

#[derive(Debug)]
struct LogSecond {
    began: Instant,
    lines: u32,
    left_out: u64,
}

impl FailureLog {
    /// Logs one line, if the server is at fault, or if a component did not answer.
    pub(crate) fn log(&self, failure: &FailedRequest<'_>) {
        let internal = failure.status == StatusCode::INTERNAL_SERVER_ERROR;
        if !internal && (failure.cause.is_none() || !self.has_room(Instant::now())) {
            return;
        }
        tracing::error!(
            request_id = failure.id.as_str(),
            trace_id = failure.id.trace().map(tracing::field::display),
            method = failure.method.as_str(),
            route = failure.route,
            status = failure.status.as_u16(),
            cause = failure.cause.map_or("unknown", |cause| &cause.0),
            "a request failed"
        );
    }

    /// Logs one line about an unauthenticated request, within the limit.
    pub(crate) fn log_unauthenticated(&self, why: AuthFailure, address: Option<IpAddr>) {
        if self.has_room(Instant::now()) {
            let id = RequestId::current();
            let trace = id.as_ref().and_then(RequestId::trace);
            tracing::warn!(
                request_id = id.as_ref().map(RequestId::as_str),
                trace_id = trace.map(tracing::field::display),
                reason = why.name(),
                address = address.map(tracing::field::display),
                "authentication failed"
            );
        }
    }

    /// Whether this second allows one more line. The first line of a second reports how many were left out before.
    fn has_room(&self, now: Instant) -> bool {
        let mut current = self.0.lock();
        let over = |second: &LogSecond| now - second.began >= Duration::from_secs(1);
        if current.as_ref().is_none_or(over) {
            let fresh = LogSecond {
                began: now,
                lines: 0,
                left_out: 0,
            };
            let left_out = current.replace(fresh).map_or(0, |second| second.left_out);
            if left_out > 0 {
                tracing::error!(left_out, "further requests failed without a log line");
            }
        }
        let Some(second) = current.as_mut() else {
            return false;
        };
        let room = second.lines < LINES_A_SECOND_MAX;
        if room {
            second.lines += 1;
        } else {
            second.left_out += 1;
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_room_for_so_many_lines() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let lines = |at: Instant| (0..250).filter(|_| log.has_room(at)).count();
        assert_eq!(lines(start), 100);
        assert_eq!(
            log.0.lock().as_ref().map(|second| second.left_out),
            Some(150)
        );
        assert_eq!(lines(start + Duration::from_millis(999)), 0);
        assert_eq!(lines(start + Duration::from_secs(1)), 100);
    }
}
