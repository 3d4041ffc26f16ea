//! Session cookies of browsers: they carry the user's token, and scripts cannot read them.
//!
//! A node stores nothing of a session: the cookie has the token itself, and lasts as long as it does. Browsers also
//! send the cookie with requests that pages of other sites make; those requests are refused.

use axum::http::{HeaderMap, HeaderValue, header, request::Parts, uri::Authority};
use qiang_wire::problem::ProblemKind;

use crate::http::{problem::ApiProblem, response_headers::came_over_tls};

/// Name of the cookie. Over TLS it has the prefix that binds it to this host in browsers (RFC 6265bis, 4.1.3.2).
const NAME: &str = "qiang";
const SECURE_NAME: &str = "__Host-qiang";
/// Maximum size of a token: browsers keep cookies up to 4096 bytes, with name and attributes (RFC 6265bis, 5.6).
pub(crate) const TOKEN_BYTES_MAX: usize = 3_800;

/// `Set-Cookie` header of a session.
pub(crate) fn cookie(token: &str, lasts_s: i64, is_secure: bool) -> (header::HeaderName, String) {
    let (name, secure) = match is_secure {
        true => (SECURE_NAME, "; Secure"),
        false => (NAME, ""),
    };
    let value =
        format!("{name}={token}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}");
    (header::SET_COOKIE, value)
}

/// Token of an `Authorization` header.
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Token of a session, if the request has one and comes from a page of this origin.
pub(crate) fn token(parts: &Parts, node_speaks_tls: bool) -> Result<Option<&str>, ApiProblem> {
    let name = match came_over_tls(&parts.headers, node_speaks_tls) {
        true => SECURE_NAME,
        false => NAME,
    };
    let cookies = parts.headers.get_all(header::COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let Some((_, token)) = pairs.find(|(found, _)| *found == name) else {
        return Ok(None);
    };
    if !parts.method.is_safe() {
        check_site(&parts.headers, parts.uri.authority())?;
    }
    Ok(Some(token))
}

/// Refuses requests from pages of another origin. Browsers report the origin in `Sec-Fetch-Site`; those without it
/// send `Origin` with each request that changes something.
pub(crate) fn check_site(
    headers: &HeaderMap,
    authority: Option<&Authority>,
) -> Result<(), ApiProblem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_same = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let of_origin = origin.split_once("://").map(|(_, host)| host);
            let host = authority.map(Authority::as_str).or_else(|| text("host"));
            of_origin.is_some() && of_origin == host
        }
        (None, None) => false,
    };
    match is_same {
        true => Ok(()),
        false => Err(ProblemKind::CrossSite.into()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn other_origins_are_refused() {
        let check = |lines: &[(&'static str, &'static str)], allowed| {
            let headers = lines.iter().map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            let headers: HeaderMap = headers.collect();
            assert_eq!(check_site(&headers, None).is_ok(), allowed, "{lines:?}");
        };
        let host = ("host", "qiang.example");
        check(&[host, ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "same-site")], false);
        check(
            &[
                host,
                ("sec-fetch-site", "cross-site"),
                ("origin", "https://qiang.example"),
            ],
            false,
        );
        check(&[host, ("origin", "https://qiang.example")], true);
        check(&[host, ("origin", "https://evil.example")], false);
        check(
            &[host, ("origin", "https://qiang.example.evil.example")],
            false,
        );
        check(&[host, ("origin", "null")], false);
        check(&[host], false);
    }
}
