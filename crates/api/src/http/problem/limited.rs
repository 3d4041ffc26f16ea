//! Answers to those who ask for more than they may: with the fields `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-11.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::{Problem, ProblemKind, RETRY_AFTER_S};

pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What a limit is, beside its rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    /// In `RateLimit-Policy`, `RateLimit` and metrics.
    pub(crate) name: &'static str,
    /// What is counted, where that is not requests.
    pub(crate) unit: Option<&'static str>,
    /// What is answered above it.
    pub(crate) problem: ProblemKind,
}

/// A limit, and how far somebody is above it.
pub(crate) struct Exceeded {
    pub(crate) policy: Policy,
    /// What may be used at once.
    pub(crate) quota: u32,
    /// How long it takes to have all of it again, in seconds.
    pub(crate) window_s: u32,
    /// What could be used now.
    pub(crate) remaining: u32,
    /// When what was asked for can be had, in seconds.
    pub(crate) wait_s: u32,
}

impl Problem {
    /// Somebody is above a limit.
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
        // Units that are not registered have a name of our own.
        let unit = unit.map_or_else(String::new, |unit| format!(";qiang-unit=\"{unit}\""));
        Self::new(problem, "")
            .retry_after(wait_s)
            .of_policy(name)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{name}\";q={quota};w={window_s}{unit}"),
            )
            .with(RATE_LIMIT, &format!("\"{name}\";r={remaining};t={wait_s}"))
    }

    /// An address has as many connections as it may have.
    pub(crate) fn too_many_connections(connections_max: u32) -> Self {
        const NAME: &str = "connections-of-address";
        Self::from(ProblemKind::TooManyConnections)
            .retry_after(RETRY_AFTER_S)
            .of_policy(NAME)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{NAME}\";q={connections_max};qiang-unit=\"connections\""),
            )
            .with(RATE_LIMIT, &format!("\"{NAME}\";r=0"))
    }

    /// A connection, a user or an address has as many live streams as it may have.
    pub(crate) fn too_many_streams(name: &'static str, streams_max: u32) -> Self {
        Self::from(ProblemKind::TooManyStreams)
            .retry_after(RETRY_AFTER_S)
            .of_policy(name)
            .with(
                RATE_LIMIT_POLICY,
                &format!("\"{name}\";q={streams_max};qiang-unit=\"streams\""),
            )
            .with(RATE_LIMIT, &format!("\"{name}\";r=0"))
    }

    fn of_policy(mut self, name: &'static str) -> Self {
        self.0.body.violated_policies.push(name);
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
