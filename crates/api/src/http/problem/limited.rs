//! Problems of requests above a limit, with the fields `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-11.

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

impl ApiProblem {
    /// Problem of a request above a limit.
    pub(crate) fn limited(exceeded: &Exceeded) -> Self {
        let Exceeded {
            policy:
                Policy {
                    name,
                    unit,
                    problem,
                },
            quota,
            window_s,
            remaining,
            wait_s,
        } = *exceeded;
        // Units that are not registered get a parameter name of our own.
        let unit = unit.map_or_else(String::new, |unit| format!(";qiang-unit=\"{unit}\""));
        Self::new(problem, "")
            .retry_after(wait_s)
            .for_policy(name)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{name}\";q={quota};w={window_s}{unit}"),
            )
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
