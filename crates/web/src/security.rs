//! Security headers of pages.

use std::sync::LazyLock;

use axum::{
    extract::Request,
    http::{HeaderValue, header},
    middleware::Next,
    response::Response,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use crate::assets::{
    COVER_STYLE, COVER_STYLES, DEAL_STYLE, DESK_STYLE, HOME_STYLE, PACKET_STYLE, SALE_STYLE,
    SEND_STYLE, STYLE,
};

/// Scripts must be the service's own files, and styles must match their hashes. Images of products may come from any
/// site.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = [
        STYLE.as_str(),
        &HOME_STYLE,
        &PACKET_STYLE,
        &SALE_STYLE,
        &COVER_STYLE,
        &DEAL_STYLE,
        &SEND_STYLE,
        DESK_STYLE,
    ];
    let covers = COVER_STYLES.iter().map(|(_, style)| style.as_str());
    let hash = |style: &str| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(style));
        format!("'sha256-{digest}'")
    };
    let style: Vec<_> = style.into_iter().chain(covers).map(hash).collect();
    let style = style.join(" ");
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src {style}; img-src 'self' https:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    policy.try_into().expect("base64 is visible ASCII")
});

pub(crate) async fn headers(request: Request, next: Next) -> Response {
    secured(next.run(request).await)
}

/// Adds the security headers to a page.
pub(crate) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    // A page depends on the signed-in user.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
