//! Pages of other origins that may call this API from a browser (CORS, the Fetch standard).

use std::time::Duration;

use axum::http::{
    HeaderName, HeaderValue, Method,
    header::{
        AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK, LOCATION, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
};
use qiang_core::{
    trace_context::{TRACEPARENT, TRACESTATE},
    web_url,
};
use tower_http::cors::CorsLayer;

use crate::http::request_id::REQUEST_ID;

/// What pages may send besides what they always may.
const REQUEST_HEADERS: [HeaderName; 8] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    IF_NONE_MATCH,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("grab-ticket"),
    REQUEST_ID,
    HeaderName::from_static(TRACEPARENT),
    HeaderName::from_static(TRACESTATE),
];
/// What pages may read besides what they always may.
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
/// How long a browser keeps what it was told, so that it does not ask before each call.
const KEPT: Duration = Duration::from_secs(600);

/// The layer that answers browsers; none where no other origin may call.
///
/// Credentials of browsers (cookies) are not allowed: a page sends its token itself, so another page cannot make calls
/// in a user's name.
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

/// Origins with commas between; or the first text that is none.
pub(crate) fn origins(list: &str) -> Result<Vec<HeaderValue>, &str> {
    let texts = list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    texts.map(|text| origin(text).ok_or(text)).collect()
}

/// An origin as browsers send it: a scheme and a host, perhaps a port, and nothing behind them (RFC 6454, 6.1).
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
