//! Problems of requests above a limit, with the fields `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-11.

use std::io::Write as _;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use qiang_wire::problem::ProblemKind;

use super::{ApiProblem, RETRY_AFTER_S};

pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Description of a limit, without its rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// Name in `RateLimit-Policy`, `RateLimit` and metrics.
    pub(crate) name: &'static str,
    /// Counted unit; `None` for requests.
    pub(crate) unit: Option<&'static str>,
    /// Problem of requests above the limit.
    pub(crate) problem: ProblemKind,
}

/// An exceeded limit, with its state.
pub(crate) struct Exceeded {
    pub(crate) policy: Policy,
    /// Units that can be used at once.
    pub(crate) quota: u32,
    /// Seconds until the whole quota is available again.
    pub(crate) window_s: u32,
    /// Units available now.
    pub(crate) remaining: u32,
    /// Seconds until the requested units are available.
    pub(crate) wait_s: u32,
}

/// Longest value of `RateLimit`: a name, and up to ten digits.
const VALUE_BYTES_MAX: usize = 64;

/// Header values of answers within a limit. They are built for each answer from constant bytes: copies of a few bytes
/// cost less than a counter that all threads share.
#[derive(Debug)]
pub(crate) struct LimitHeaders {
    policy: Box<[u8]>,
    /// `RateLimit` without the digits at its end.
    prefix: Box<[u8]>,
}

impl LimitHeaders {
    pub(crate) fn new(policy: Policy, quota: u32, window_s: u32) -> Self {
        let name = policy.name;
        Self {
            policy: policy_text(policy, quota, window_s).into_bytes().into(),
            prefix: format!("\"{name}\";r=").into_bytes().into(),
        }
    }

    /// Adds both headers, if these units are left.
    pub(crate) fn add(&self, remaining: u32, headers: &mut HeaderMap) {
        let mut value = [0; VALUE_BYTES_MAX];
        let mut rest = &mut value[..];
        // No name is that long.
        let written = rest.write_all(&self.prefix);
        if written.and_then(|()| write!(rest, "{remaining}")).is_err() {
            return;
        }
        let length = VALUE_BYTES_MAX - rest.len();
        // Both have visible ASCII characters only.
        let values = (
            HeaderValue::from_bytes(&value[..length]),
            HeaderValue::from_bytes(&self.policy),
        );
        if let (Ok(state), Ok(policy)) = values {
            headers.insert(RATE_LIMIT, state);
            headers.insert(RATE_LIMIT_POLICY, policy);
        }
    }
}

/// Value of `RateLimit-Policy`.
fn policy_text(policy: Policy, quota: u32, window_s: u32) -> String {
    let Policy { name, unit, .. } = policy;
    // Units that are not registered get a parameter name of our own.
    let unit = unit.map_or_else(String::new, |unit| format!(";qiang-unit=\"{unit}\""));
    format!("\"{name}\";q={quota};w={window_s}{unit}")
}

impl ApiProblem {
    /// Problem of a request above a limit.
    pub(crate) fn limited(exceeded: &Exceeded) -> Self {
        let Exceeded {
            policy,
            quota,
            window_s,
            remaining,
            wait_s,
        } = *exceeded;
        let Policy { name, problem, .. } = policy;
        Self::new(problem, "")
            .retry_after(wait_s)
            .for_policy(name)
            .with(RATE_LIMIT_POLICY, &policy_text(policy, quota, window_s))
            .with(RATE_LIMIT, &format!("\"{name}\";r={remaining};t={wait_s}"))
    }

    /// Problem of an address with the maximum number of connections.
    pub(crate) fn too_many_connections(connections_max: u32) -> Self {
        const NAME: &str = "connections-of-address";
        Self::from(ProblemKind::TooManyConnections)
            .retry_after(RETRY_AFTER_S)
            .for_policy(NAME)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{NAME}\";q={connections_max};qiang-unit=\"connections\""),
            )
            .with(RATE_LIMIT, &format!("\"{NAME}\";r=0"))
    }

    /// Problem of a connection, user or address with the maximum number of live streams.
    pub(crate) fn too_many_streams(name: &'static str, streams_max: u32) -> Self {
        Self::from(ProblemKind::TooManyStreams)
            .retry_after(RETRY_AFTER_S)
            .for_policy(name)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{name}\";q={streams_max};qiang-unit=\"streams\""),
            )
            .with(RATE_LIMIT, &format!("\"{name}\";r=0"))
    }

    fn for_policy(mut self, name: &'static str) -> Self {
        self.0.body.violated_policies.push(name.to_owned());
        self
    }

    fn with(mut self, name: HeaderName, value: &str) -> Self {
        let headers: &mut HeaderMap = &mut self.0.headers;
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
        self
    }
}
