//! Problem details (RFC 9457), as the service answers them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{values::Timestamp, words::AckLevel};

/// What stands before the last word of a type.
const TYPES: &str = "/problems/";

/// Why the service refused. What it says beside these fields is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// Which problem: a path of the service, where a page says what to do. See [`Problem::kind`].
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The problem in words, the same for all of its type.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// This occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// For claims: the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// For `not-started`: when it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
    /// For `sold-out`: units left, fewer than were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// For `limit-reached`: units that a user may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// For `limit-reached`: units that this user has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<u32>,
    /// For `ack-unavailable`: the levels that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<AckLevel>,
    /// For `bad-request` and `invalid`: which fields and parameters are wrong, as far as is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// For 429: the limits that the request is above.
    #[serde(
        default,
        rename = "violated-policies",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub violated_policies: Vec<String>,
    /// The request's id. Log lines of the service name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// After how many seconds to come again, if the service says so.
    #[serde(skip)]
    pub retry_after_s: Option<u64>,
}

/// A field of a body that is wrong, or a parameter: of the path, of the query, or a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FieldError {
    /// What is wrong with it.
    pub detail: String,
    /// Where the field is in the body: `#` and a JSON pointer (RFC 6901).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

impl Problem {
    /// The last word of the type: `sold-out`, `limit-reached`, `uncertain` and so on. Stable: switch on it.
    pub fn kind(&self) -> &str {
        let kind = self.problem_type.rsplit_once(TYPES);
        kind.map_or(self.problem_type.as_str(), |(_, kind)| kind)
    }

    /// What an answer without problem details is taken for: that of a proxy, say.
    pub(crate) fn bare(status: hyper::StatusCode) -> Self {
        Self {
            problem_type: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("no reason").to_owned(),
            status: status.as_u16(),
            detail: None,
            outcome: None,
            starts_at: None,
            remaining: None,
            limit: None,
            held: None,
            offered: Vec::new(),
            errors: Vec::new(),
            violated_policies: Vec::new(),
            request_id: None,
            retry_after_s: None,
        }
    }
}

/// One line: the title, this occurrence, the fields, and the request's id.
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
