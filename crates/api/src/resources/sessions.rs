//! Browser sessions.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use qiang_wire::problem::Problem;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::{
        Caller, Scope,
        session::{TOKEN_BYTES_MAX, bearer, check_site, cookie},
    },
    http::{problem::ApiProblem, response_headers::came_over_tls, wire::Rfc3339},
};

/// Path of the session resource.
const PATH: &str = "/v1/session";

/// The signed-in user.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionBody {
    /// The user.
    user: String,
    /// Scopes of the token.
    scopes: Vec<&'static str>,
    /// Time when the session ends.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
}

impl SessionBody {
    fn from_caller(caller: &Caller) -> Self {
        let scopes = Scope::ALL.iter().filter(|scope| caller.may(**scope));
        Self {
            user: caller.user.to_string(),
            scopes: scopes.map(|scope| scope.name()).collect(),
            expires_at: Rfc3339(caller.expires_at),
        }
    }
}

/// Exchanges a token for a session: a cookie that the browser sends instead of the token.
///
/// The cookie lasts as long as the token. With the cookie, requests that change something are accepted from pages of
/// the same origin only.
#[utoipa::path(post, path = "/v1/session", tag = "session", operation_id = "beginSession", security(("bearer" = [])),
    responses((status = 201, body = SessionBody), (status = 422, description = "`invalid`: the token is too long for \
        a cookie", body = Problem)))]
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    caller: Caller,
) -> Result<Response, ApiProblem> {
    let token = headers.get(header::AUTHORIZATION).and_then(bearer);
    let token = token.ok_or_else(|| {
        let detail = "a session begins with a token: send `Authorization: Bearer <token>`";
        ApiProblem::bad_request(detail).in_parameter("Authorization")
    })?;
    if token.len() > TOKEN_BYTES_MAX {
        let detail =
            format!("the token is longer than the {TOKEN_BYTES_MAX} bytes that a cookie can have");
        return Err(ApiProblem::invalid(detail));
    }
    let lasts_s = caller.expires_at.as_millis() - app.ports.clock.now().as_millis();
    let cookie = cookie(token, lasts_s.max(0) / 1_000, is_secure(&app, &headers));
    let body = Json(SessionBody::from_caller(&caller));
    let headers = AppendHeaders([(header::LOCATION, PATH.to_owned()), cookie]);
    Ok((StatusCode::CREATED, headers, body).into_response())
}

/// The signed-in user, by a session or a token.
#[utoipa::path(get, path = "/v1/session", tag = "session", operation_id = "getSession", security(("bearer" = [])),
    responses((status = 200, body = SessionBody)))]
pub(crate) async fn get(caller: Caller) -> Json<SessionBody> {
    Json(SessionBody::from_caller(&caller))
}

/// Ends the browser's session. The token stays valid until it expires or is revoked.
#[utoipa::path(delete, path = "/v1/session", tag = "session", operation_id = "endSession", security(()),
    responses((status = 204, description = "The session has ended"),
        (status = 403, description = "`cross-site`", body = Problem)))]
pub(crate) async fn end(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    if headers.contains_key(header::COOKIE) {
        check_site(&headers, None)?;
    }
    let cookie = cookie("", 0, is_secure(&app, &headers));
    Ok((StatusCode::NO_CONTENT, AppendHeaders([cookie])).into_response())
}

/// Whether the browser uses TLS, to the node or to a proxy in front of it.
fn is_secure(app: &App, headers: &HeaderMap) -> bool {
    came_over_tls(headers, app.config.server.speaks_tls())
}
