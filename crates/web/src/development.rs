//! Checks of requests in development (`--dev`), where sign-in needs no proof: they must come from this machine's own
//! pages.
//!
//! The service listens on a loopback address. Still, a browser on the machine may send it requests of any site: by a
//! name that resolves to the loopback address (DNS rebinding), or by a form of another site.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

const OTHER_HOST: &str =
    "This service is for development. Open it as localhost or by a loopback address.\n";
const OTHER_SITE: &str = "The request comes from a page of another site.\n";

/// Refuses requests for a host that is not a loopback one.
pub(crate) async fn for_loopback(request: Request, next: Next) -> Response {
    match host_of(&request).is_some_and(|host| is_loopback(&host)) {
        true => next.run(request).await,
        false => (StatusCode::MISDIRECTED_REQUEST, OTHER_HOST).into_response(),
    }
}

/// Refuses requests that a page of another origin sends through a browser. Programs send neither of the two headers.
pub(crate) async fn from_own_pages(request: Request, next: Next) -> Response {
    let host = host_of(&request);
    match is_own(request.headers(), host.as_ref()) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, OTHER_SITE).into_response(),
    }
}

fn host_of(request: &Request) -> Option<Authority> {
    let host = || {
        request
            .headers()
            .get(header::HOST)?
            .to_str()
            .ok()?
            .parse()
            .ok()
    };
    request.uri().authority().cloned().or_else(host)
}

fn is_loopback(host: &Authority) -> bool {
    let name = host.host().to_ascii_lowercase();
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost"
        || name.ends_with(".localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

fn is_own(headers: &HeaderMap, host: Option<&Authority>) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let of_origin = origin.split_once("://").map(|(_, host)| host);
            of_origin.is_some() && of_origin == host.map(Authority::as_str)
        }
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_known() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("qiang.localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("127.8.0.1", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]", true),
            ("rebound.example:8080", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("0.0.0.0:8080", false),
            ("10.0.0.1", false),
            ("test", false),
        ] {
            assert_eq!(is_loopback(&host.parse().unwrap()), expected, "{host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_known() {
        let host = "127.0.0.1:8080".parse().unwrap();
        let check = |lines: &[(&'static str, &'static str)], expected| {
            let lines = lines.iter().map(|(name, value)| {
                let name = header::HeaderName::from_static(name);
                (name, header::HeaderValue::from_static(value))
            });
            let headers: HeaderMap = lines.collect();
            assert_eq!(is_own(&headers, Some(&host)), expected, "{headers:?}");
        };
        check(&[], true);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(
            &[
                ("sec-fetch-site", "cross-site"),
                ("origin", "http://127.0.0.1:8080"),
            ],
            false,
        );
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("origin", "http://127.0.0.1:8080")], true);
        check(&[("origin", "http://127.0.0.1:9090")], false);
        check(&[("origin", "https://evil.example")], false);
        check(&[("origin", "null")], false);
    }
}
