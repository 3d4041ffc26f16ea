//! Sessions of browsers: the user's token, in a cookie that no script can read.
//!
//! A node keeps nothing of a session: the cookie has the token itself, and lasts as long as it does. What a page of
//! another site makes a browser send is refused: such a request carries the cookie too.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts, uri::Authority},
    response::{AppendHeaders, IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{Caller, Scope},
    problem::{Problem, ProblemBody, ProblemKind},
    response_headers::came_over_tls,
    wire::When,
};

/// The cookie's name. Over TLS it has the prefix by which browsers take it from this host alone (RFC 6265bis, 4.1.3.2).
const NAME: &str = "qiang";
const SECURE_NAME: &str = "__Host-qiang";
/// Where it says who is signed in.
const PATH: &str = "/v1/session";
/// Browsers keep cookies of at most 4096 bytes, with name and attributes (RFC 6265bis, 5.6).
const TOKEN_BYTES_MAX: usize = 3_800;

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionBody {
    /// The user.
    user: String,
    /// What the token allows.
    scopes: Vec<&'static str>,
    /// When the session ends.
    #[schema(value_type = String, format = DateTime)]
    expires_at: When,
}

impl SessionBody {
    fn of(caller: &Caller) -> Self {
        let scopes = Scope::ALL.iter().filter(|scope| caller.may(**scope));
        Self {
            user: caller.user.to_string(),
            scopes: scopes.map(|scope| scope.name()).collect(),
            expires_at: When(caller.expires_at),
        }
    }
}

/// Exchanges a token for a session: a cookie that the browser sends from here on, instead of the token.
///
/// The cookie lasts as long as the token. Requests that change something are taken with it from pages of the same
/// origin alone.
#[utoipa::path(post, path = "/v1/session", tag = "session", operation_id = "beginSession", security(("bearer" = [])),
    responses((status = 201, body = SessionBody), (status = 422, description = "`invalid`: the token is too long for \
        a cookie", body = ProblemBody)))]
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    caller: Caller,
) -> Result<Response, Problem> {
    let token = headers.get(header::AUTHORIZATION).and_then(bearer);
    let token = token.ok_or_else(|| {
        let detail = "a session begins with a token: send `Authorization: Bearer <token>`";
        Problem::bad_request(detail).of("Authorization")
    })?;
    if token.len() > TOKEN_BYTES_MAX {
        let detail =
            format!("the token is longer than the {TOKEN_BYTES_MAX} bytes that a cookie can have");
        return Err(Problem::invalid(detail));
    }
    let lasts_s = caller.expires_at.as_millis() - app.ports.clock.now().as_millis();
    let cookie = cookie(token, lasts_s.max(0) / 1_000, is_secure(&app, &headers));
    let body = Json(SessionBody::of(&caller));
    let headers = AppendHeaders([(header::LOCATION, PATH.to_owned()), cookie]);
    Ok((StatusCode::CREATED, headers, body).into_response())
}

/// Who is signed in, by a session or a token.
#[utoipa::path(get, path = "/v1/session", tag = "session", operation_id = "getSession", security(("bearer" = [])),
    responses((status = 200, body = SessionBody)))]
pub(crate) async fn get(caller: Caller) -> Json<SessionBody> {
    Json(SessionBody::of(&caller))
}

/// Ends the browser's session. The token in it stays good until it expires or is revoked.
#[utoipa::path(delete, path = "/v1/session", tag = "session", operation_id = "endSession", security(()),
    responses((status = 204, description = "There is no session any more"),
        (status = 403, description = "`cross-site`", body = ProblemBody)))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if headers.contains_key(header::COOKIE) {
        check_site(&headers, None)?;
    }
    let cookie = cookie("", 0, is_secure(&app, &headers));
    Ok((StatusCode::NO_CONTENT, AppendHeaders([cookie])).into_response())
}

fn cookie(token: &str, lasts_s: i64, is_secure: bool) -> (header::HeaderName, String) {
    let (name, secure) = match is_secure {
        true => (SECURE_NAME, "; Secure"),
        false => (NAME, ""),
    };
    let value =
        format!("{name}={token}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Lax{secure}");
    (header::SET_COOKIE, value)
}

/// Whether the browser speaks TLS, with the node or with a proxy before it.
fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    came_over_tls(headers, app.config.server.speaks_tls())
}

/// The token in an `Authorization`.
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token of a session, if the request has one and comes from a page of this origin.
pub(crate) fn token<'a>(app: &App, parts: &'a Parts) -> Result<Option<&'a str>, Problem> {
    let name = match is_secure(app, &parts.headers) {
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

/// Refuses what a page of another origin has a browser send. Browsers say so in `Sec-Fetch-Site`; those that do not
/// send `Origin` with everything that changes something.
fn check_site(headers: &HeaderMap, authority: Option<&Authority>) -> Result<(), Problem> {
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
