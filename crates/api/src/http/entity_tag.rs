//! Strong entity tags of objects that a PATCH changes, and the condition of a change: `If-Match` (RFC 9110, 13.1.1).
//!
//! The tag of a sale has two parts: a hash of all values that a PATCH of it changes, and a hash of everything except
//! the time. A condition compares the first part, so units that are sold in between do not refuse a change.

use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use qiang_wire::{answers, problem::ProblemKind};
use serde::Serialize;

use crate::http::{
    problem::ApiProblem,
    wire::{self, OWN_CACHING},
};

/// Separates the parts of a sale's tag.
const SEPARATOR: char = '.';

/// Strong entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StrongTag {
    /// Hash of the values that a condition compares.
    values: String,
    /// Hash of the whole body; `None` if the values are all of it.
    body: Option<String>,
}

impl StrongTag {
    /// Tag of metadata, which a PATCH changes as a whole.
    pub(crate) fn from_metadata(body: &answers::Metadata) -> Self {
        Self {
            values: wire::text_hash(&text(body)),
            body: None,
        }
    }

    /// Tag of a sale.
    pub(crate) fn from_sale(sale: &answers::Sale) -> Self {
        let details = (
            &sale.title,
            &sale.product_id,
            &sale.description,
            &sale.image_url,
            &sale.gallery,
            &sale.list_price,
        );
        let terms = (
            &sale.state.starts_at,
            &sale.state.ends_at,
            sale.per_user_limit,
            &sale.unit_price,
            sale.admission_percent,
        );
        Self {
            values: wire::text_hash(&text(&(&sale.id, details, sale.stock, terms))),
            body: Some(wire::body_hash(sale)),
        }
    }

    /// Value of the header `ETag`. Hexadecimal digits are always allowed there.
    fn to_header(&self) -> Option<HeaderValue> {
        let tag = match &self.body {
            Some(body) => format!("\"{}{SEPARATOR}{body}\"", self.values),
            None => format!("\"{}\"", self.values),
        };
        HeaderValue::from_str(&tag).ok()
    }

    /// Adds the header `ETag` to a response.
    pub(crate) fn add_to(&self, response: &mut Response) {
        if let Some(tag) = self.to_header() {
            response.headers_mut().insert(header::ETAG, tag);
        }
    }
}

/// Structs of texts and numbers always serialise.
fn text(values: &impl Serialize) -> String {
    serde_json::to_string(values).unwrap_or_default()
}

/// A body with its strong tag; 304 without a body if the request names that tag.
pub(crate) fn tagged(headers: &HeaderMap, tag: &StrongTag, body: &impl Serialize) -> Response {
    let value = tag.to_header();
    let written = value.as_ref().and_then(|tag| tag.to_str().ok());
    let caching = [(header::CACHE_CONTROL, OWN_CACHING)];
    let mut response = match wire::has_tag(headers, written.unwrap_or_default()) {
        true => (StatusCode::NOT_MODIFIED, caching).into_response(),
        false => (caching, Json(body)).into_response(),
    };
    tag.add_to(&mut response);
    response
}

/// Condition of a change: tags of the object, one of which must still be its tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct IfMatch {
    /// Strong tags, without quotation marks.
    tags: Vec<String>,
}

impl IfMatch {
    /// Refuses the change of an object that has another tag.
    pub(crate) fn check(&self, tag: &StrongTag) -> Result<(), ApiProblem> {
        let mut compared = self.tags.iter().map(|tag| tag.split(SEPARATOR).next());
        match compared.any(|values| values == Some(tag.values.as_str())) {
            true => Ok(()),
            false => Err(ProblemKind::PreconditionFailed.into()),
        }
    }
}

/// The header `If-Match`. A list that names only weak tags is refused once the caller may make the change.
pub(crate) struct Condition {
    found: Option<IfMatch>,
    is_weak: bool,
}

impl Condition {
    /// The condition; `None` if the request has none, or `*`: the object exists.
    ///
    /// # Errors
    /// `weak-entity-tag` if no named tag can be compared.
    pub(crate) fn check_strong(self) -> Result<Option<IfMatch>, ApiProblem> {
        match self.is_weak {
            true => Err(ProblemKind::WeakEntityTag.into()),
            false => Ok(self.found),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Condition {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiProblem> {
        let values = parts.headers.get_all(header::IF_MATCH).into_iter();
        let lines: Vec<&[u8]> = values.map(HeaderValue::as_bytes).collect();
        if lines.is_empty() || lines.iter().all(|line| line.trim_ascii() == b"*") {
            return Ok(Self {
                found: None,
                is_weak: false,
            });
        }
        let tags = entity_tags(&lines.join(&b','));
        let tags = tags.filter(|tags| !tags.is_empty()).ok_or_else(|| {
            let detail =
                "write entity tags as the service sent them, with their quotation marks, or `*`";
            ApiProblem::bad_request(detail).in_parameter("If-Match")
        })?;
        let strong = tags.iter().filter(|(is_weak, _)| !is_weak);
        let tags: Vec<_> = strong.map(|(_, tag)| tag.clone()).collect();
        Ok(Self {
            is_weak: tags.is_empty(),
            found: Some(IfMatch { tags }),
        })
    }
}

/// Entity tags of a list, each with whether it is weak; `None` if the list is malformed.
fn entity_tags(mut list: &[u8]) -> Option<Vec<(bool, String)>> {
    let mut tags = Vec::new();
    loop {
        list = list.trim_ascii_start();
        let Some(first) = list.first() else {
            return Some(tags);
        };
        if *first == b',' {
            list = &list[1..];
            continue;
        }
        let (is_weak, quoted) = match list.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, list),
        };
        let rest = quoted.strip_prefix(b"\"")?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        let (tag, after) = (&rest[..end], rest[end + 1..].trim_ascii_start());
        let is_good = tag.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        if !is_good || !matches!(after.first(), None | Some(b',')) {
            return None;
        }
        tags.push((is_weak, String::from_utf8_lossy(tag).into_owned()));
        list = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tags_is_read() {
        let read = |list: &str| {
            let tags = entity_tags(list.as_bytes())?;
            let written = tags.iter().map(|(is_weak, tag)| format!("{is_weak} {tag}"));
            Some(written.collect::<Vec<_>>().join("; "))
        };
        for (list, expected) in [
            ("\"a\"", Some("false a")),
            (
                " ,\"a\" , W/\"b,c\",,\"\"",
                Some("false a; true b,c; false "),
            ),
            ("", Some("")),
            ("a", None),
            ("\"a", None),
            ("\"a\" \"b\"", None),
            ("w/\"a\"", None),
            ("\"a b\"", None),
            ("*", None),
            ("\"a\", *", None),
        ] {
            assert_eq!(read(list).as_deref(), expected, "{list}");
        }
    }

    #[test]
    fn a_tag_covers_metadata_with_the_name_of_the_time() {
        let sale = |now: &str, metadata: serde_json::Value| -> answers::Sale {
            let time = "2026-11-21T12:00:00Z";
            let body = serde_json::json!({
                "id": "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80", "object": "sale", "seller": "sam", "title": "lamps",
                "stock": 5, "per_user_limit": 1, "unit_price": { "amount": 500, "currency": "CNY" },
                "hold_seconds": 900, "admission_percent": 0, "payment_policy": "owed", "ack": "fsync",
                "waiting_room": false, "requirements": [], "created_at": time, "updated_at": time, "metadata": metadata,
                "state": { "phase": "live", "supply": 5, "granted": 0, "remaining": 5, "returned": 0, "withheld": 0,
                    "starts_at": time, "ends_at": "2026-11-21T13:00:00Z", "now": now },
            });
            serde_json::from_value(body).unwrap()
        };
        let tag = |now, metadata| StrongTag::from_sale(&sale(now, metadata));
        let (early, late) = ("2026-11-21T12:00:01Z", "2026-11-21T12:00:02Z");
        let named = |value: &str| serde_json::json!({ "now": value });
        assert_eq!(tag(early, named("1")), tag(late, named("1")));
        assert_ne!(tag(early, named("1")), tag(early, named("2")));
        assert_ne!(tag(early, named("1")), tag(early, serde_json::json!({})));
    }

    #[test]
    fn a_condition_compares_the_values() {
        let tag = |values: &str, body: Option<&str>| StrongTag {
            values: values.to_owned(),
            body: body.map(str::to_owned),
        };
        let condition = |tags: &[&str]| IfMatch {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        };
        let holds = |tags: &[&str], tag: &StrongTag| condition(tags).check(tag).is_ok();
        assert!(holds(&["x", "1.2"], &tag("1", Some("3"))));
        assert!(holds(&["1"], &tag("1", None)));
        assert!(!holds(&["2.1", "", "12", "x"], &tag("1", Some("2"))));
    }
}
