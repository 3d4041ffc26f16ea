//! Access from pages of other origins in a browser (CORS, the Fetch standard).

use std::time::Duration;

use axum::http::{
    HeaderName, HeaderValue, Method,
    header::{
        AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LINK, LOCATION, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
};
use qiang_core::{
    trace_context::{TRACEPARENT, TRACESTATE},
    web_url,
};
use tower_http::cors::CorsLayer;

use crate::http::request_id::REQUEST_ID;

/// Headers that pages may send, in addition to the standard ones.
const REQUEST_HEADERS: [HeaderName; 9] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    IF_MATCH,
    IF_NONE_MATCH,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("grab-ticket"),
    REQUEST_ID,
    HeaderName::from_static(TRACEPARENT),
    HeaderName::from_static(TRACESTATE),
];
/// Headers that pages may read, in addition to the standard ones.
const RESPONSE_HEADERS: [HeaderName; 9] = [
    ETAG,
    LINK,
    LOCATION,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    REQUEST_ID,
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
];
/// Time for which a browser caches a preflight answer.
const KEPT: Duration = Duration::from_secs(600);

/// CORS layer; `None` if no other origin is allowed.
///
/// Credentials of browsers (cookies) are not allowed. A page sends its token explicitly, so another page cannot make
/// calls as the user.
pub(crate) fn layer(origins: Vec<HeaderValue>) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers(REQUEST_HEADERS)
        .expose_headers(RESPONSE_HEADERS)
        .max_age(KEPT);
    Some(layer)
}

/// Origins of a list separated by commas; the first text that is not an origin as the error.
pub(crate) fn origins(list: &str) -> Result<Vec<HeaderValue>, &str> {
    let texts = list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    texts.map(|text| origin(text).ok_or(text)).collect()
}

/// Origin as browsers send it: scheme, host, optional port, and nothing after them (RFC 6454, 6.1).
fn origin(text: &str) -> Option<HeaderValue> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let is_host =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    let is_sound = !host.is_empty() && host.bytes().all(is_host);
    let is_sound = is_sound && web_url::parse(text).is_ok();
    is_sound.then(|| HeaderValue::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_taken() {
        let sound = "https://shop.example, http://localhost:5173,http://[::1]:80,";
        assert_eq!(origins(sound).unwrap().len(), 3);
        assert_eq!(origins(" ").unwrap().len(), 0);
        for wrong in [
            "*",
            "shop.example",
            "https://",
            "https://shop.example/",
            "https://Shop.example",
            "null",
            "https://shop.example:0",
            "https://shop.example:99999",
        ] {
            assert_eq!(origins(&format!("{sound}{wrong}")), Err(wrong));
        }
    }
}
