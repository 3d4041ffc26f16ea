//! Headers of all answers: for browsers, and for caches on the path.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE,
        REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
    },
};

/// Header of a proxy that received the request over TLS.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Browsers must not guess content types, and must not send referrers to other sites.
pub(crate) const FOR_BROWSERS: [(HeaderName, HeaderValue); 2] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Policy for a page without its own: text and links only, and no other site may frame it.
const TEXT_ALONE: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Parts of a request that decide on these headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderContext {
    with_token: bool,
    over_tls: bool,
}

impl HeaderContext {
    /// `over_tls`: whether the node itself accepted the connection over TLS.
    pub(crate) fn from_headers(headers: &HeaderMap, over_tls: bool) -> Self {
        Self {
            with_token: headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE),
            over_tls: came_over_tls(headers, over_tls),
        }
    }
}

/// Whether a client's request came over TLS, to the node or to a proxy in front of it.
pub(crate) fn came_over_tls(headers: &HeaderMap, to_node: bool) -> bool {
    let proto = headers.get(FORWARDED_PROTO);
    let proto = proto.and_then(|value| value.to_str().ok()).unwrap_or("");
    // With several proxies, the first value is the client's.
    let first = proto.split(',').next().unwrap_or("").trim();
    to_node || first.eq_ignore_ascii_case("https")
}

/// Configured header values.
#[derive(Debug)]
pub(crate) struct ResponseHeaders {
    transport_security: Option<HeaderValue>,
}

impl ResponseHeaders {
    /// `hsts_max_age_s`: lifetime of `Strict-Transport-Security`; 0 sends none.
    pub(crate) fn new(hsts_max_age_s: u32) -> Self {
        let seconds = Some(hsts_max_age_s).filter(|seconds| *seconds > 0);
        let value = seconds.map(|seconds| format!("max-age={seconds}"));
        Self {
            transport_security: value.and_then(|value| value.try_into().ok()),
        }
    }

    /// Adds the headers to an answer. Answers to a request with a token are private, unless the handler sets caching.
    pub(crate) fn add(&self, asked: HeaderContext, headers: &mut HeaderMap) {
        for (name, value) in FOR_BROWSERS {
            headers.insert(name, value);
        }
        let is_page = headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if is_page && !headers.contains_key(CONTENT_SECURITY_POLICY) {
            headers.insert(CONTENT_SECURITY_POLICY, TEXT_ALONE);
        }
        if asked.with_token && !headers.contains_key(CACHE_CONTROL) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        // RFC 6797, 7.2: never over an insecure connection.
        if asked.over_tls
            && let Some(value) = &self.transport_security
        {
            headers.insert(STRICT_TRANSPORT_SECURITY, value.clone());
        }
    }
}
