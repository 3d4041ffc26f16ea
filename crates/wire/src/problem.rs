//! Problem details of the service (RFC 9457).

mod kind;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::kind::ProblemKind;
use crate::{values::Timestamp, words::AckLevel};

/// Path before the last word of a type.
const TYPES: &str = "/problems/";

/// Refusal by the service. Unknown fields are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "service"), non_exhaustive)]
pub struct Problem {
    /// Type of the problem: a path of the service with a page about the remedy. See [`Problem::kind`].
    #[serde(rename = "type")]
    #[cfg_attr(feature = "service", schema(example = "/problems/sold-out"))]
    pub problem_type: String,
    /// Title; the same for all problems of a type.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Details of this occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Outcome; for claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Start of the campaign; for `not-started`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// Remaining units, fewer than requested; for `sold-out`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// Maximum units per user; for `limit-reached`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Units of this user; for `limit-reached`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u32>,
    /// Offered levels; for `ack-unavailable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<AckLevel>,
    /// Id of the campaign or order that has the reference; for `reference-taken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_id: Option<String>,
    /// Scope that the token must have; for `forbidden`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Known wrong fields and parameters; for `bad-request` and `invalid`. For a batch with the mode `all`, the refused
    /// campaigns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Exceeded limits; for status 429.
    #[serde(
        default,
        rename = "violated-policies",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub violated_policies: Vec<String>,
    /// Id of the request. Log lines of the service contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Seconds to wait before a retry, if the service requests a pause.
    #[serde(skip)]
    pub retry_after_s: Option<u64>,
}

/// Wrong field of a body, or wrong parameter: of the path, of the query, or a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "service"), non_exhaustive)]
pub struct FieldError {
    /// Position of the field in the body: `#` and a JSON pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The error.
    pub detail: String,
}

impl Problem {
    /// Kind of the problem: the last word of its type, such as `sold-out`, `limit-reached` or `uncertain`. Kinds are
    /// stable, so you can match on them.
    pub fn kind(&self) -> &str {
        let kind = self.problem_type.rsplit_once(TYPES);
        kind.map_or(self.problem_type.as_str(), |(_, kind)| kind)
    }

    /// Problem for an answer without problem details, such as that of a proxy.
    #[must_use]
    pub fn without_details(status: u16, title: &str) -> Self {
        Self {
            problem_type: "about:blank".to_owned(),
            title: title.to_owned(),
            status,
            ..Self::default()
        }
    }
}

/// One line: title, details, fields, and the request's id.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        for error in &self.errors {
            let place = error.pointer.as_ref().or(error.parameter.as_ref());
            write!(
                f,
                "; {}: {}",
                place.map_or("", String::as_str),
                error.detail
            )?;
        }
        write!(f, " ({}", self.kind())?;
        match &self.request_id {
            Some(id) => write!(f, ", request {id})"),
            None => write!(f, ")"),
        }
    }
}
