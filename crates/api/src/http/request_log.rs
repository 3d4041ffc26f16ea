//! Log lines about failed requests: one per request, with its id, its route and the chain of errors. Also lines about
//! unauthenticated requests.

use std::{net::IpAddr, time::Instant};

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;
use qiang_core::{event::PartitionId, id::CampaignId};

use crate::http::{auth_failure::AuthFailure, request_id::RequestId};

/// Lines at once about components that do not answer, such as a ledger that is down. Under peak load each claim would
/// be one; further ones are counted. A server error (500) always has its line.
const LINES_MAX: u64 = 100;
/// Time after which one more line is allowed. A long outage writes some ten kilobytes per minute.
const LINE_EVERY_MS: u64 = 500;

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
    pub(crate) claim: Option<&'a FailedClaim>,
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

/// Campaign and partition of a failed claim, for the log: an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedClaim {
    pub(crate) campaign: CampaignId,
    pub(crate) partition: Option<PartitionId>,
}

/// Writes the lines, and counts the omitted ones.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Option<LogRoom>>);

/// Room for lines: each takes [`LINE_EVERY_MS`] of a credit that grows with time.
#[derive(Debug)]
struct LogRoom {
    at: Instant,
    credit_ms: u64,
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
            campaign = failure
                .claim
                .map(|claim| tracing::field::display(claim.campaign)),
            partition = failure.claim.and_then(|claim| Some(claim.partition?.0)),
            cause = failure.cause.map_or("unknown", |cause| &cause.0),
            "a request failed"
        );
    }

    /// Logs one line about an unauthenticated request, within the limit.
    pub(crate) fn log_unauthenticated(
        &self,
        why: AuthFailure,
        cause: Option<&Cause>,
        address: Option<IpAddr>,
    ) {
        if self.has_room(Instant::now()) {
            let id = RequestId::current();
            let trace = id.as_ref().and_then(RequestId::trace);
            tracing::warn!(
                request_id = id.as_ref().map(RequestId::as_str),
                trace_id = trace.map(tracing::field::display),
                reason = why.name(),
                cause = cause.map(|cause| cause.0.as_str()),
                address = address.map(tracing::field::display),
                "authentication failed"
            );
        }
    }

    /// Whether there is room for one more line. It also reports how many were left out before.
    fn has_room(&self, now: Instant) -> bool {
        let mut room = self.0.lock();
        let room = room.get_or_insert(LogRoom {
            at: now,
            credit_ms: LINES_MAX * LINE_EVERY_MS,
            left_out: 0,
        });
        let elapsed = now.saturating_duration_since(room.at).as_millis();
        let elapsed_ms = u64::try_from(elapsed).unwrap_or(u64::MAX);
        if elapsed_ms > 0 {
            room.at = now;
            let credit_ms = room.credit_ms.saturating_add(elapsed_ms);
            room.credit_ms = credit_ms.min(LINES_MAX * LINE_EVERY_MS);
        }
        let Some(rest) = room.credit_ms.checked_sub(LINE_EVERY_MS) else {
            room.left_out += 1;
            return false;
        };
        room.credit_ms = rest;
        let left_out = std::mem::take(&mut room.left_out);
        if left_out > 0 {
            tracing::error!(left_out, "further requests failed without a log line");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_long_outage_writes_few_lines() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let lines = |at: Instant| (0..250).filter(|_| log.has_room(at)).count();
        assert_eq!(lines(start), 100);
        assert_eq!(log.0.lock().as_ref().map(|room| room.left_out), Some(150));
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(lines(after(499)), 0);
        assert_eq!(lines(after(500)), 1);
        // A minute of failures.
        let minute: usize = (1..=600).map(|n| lines(after(500 + 100 * n))).sum();
        assert_eq!(minute, 120);
        // A quiet minute.
        assert_eq!(lines(after(180_000)), 100);
    }
}
