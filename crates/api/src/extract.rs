//! Extractors of handlers. They answer with problem details where axum's own extractors answer plain text.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use axum::{
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use qiang_core::{id::IdempotencyKey, ports::KeyUse};
use qiang_wire::problem::ProblemKind;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    app::App,
    auth::{Caller, TokenFault, session},
    config::ServerConfig,
    http::{
        auth_failure::AuthFailure, entity_tag::IfMatch, problem::ApiProblem, request_id::RequestId,
        strict, traffic::Traffic,
    },
    idempotency::fingerprint::key_use,
};

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiProblem> {
        let token = match parts.headers.get(header::AUTHORIZATION) {
            Some(header) => session::bearer(header),
            None => session::token(parts, app.config.server.speaks_tls())?,
        };
        let missing = TokenFault(AuthFailure::Missing, "send `Authorization: Bearer <token>`");
        let caller = app
            .verifier
            .load()
            .verify(token.ok_or(missing)?, app.ports.clock.now())?;
        let traffic = Traffic::from_request(&parts.method, parts.uri.path());
        app.limits.check_user(traffic, &caller)?;
        RequestId::mark_scopes(caller.scope_bits());
        Ok(caller)
    }
}

/// The caller, if the request has a token or a session.
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

impl FromRequestParts<Arc<App>> for MaybeCaller {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiProblem> {
        let says = parts.headers.contains_key(header::AUTHORIZATION)
            || session::token(parts, app.config.server.speaks_tls())?.is_some();
        Ok(Self(match says {
            true => Some(Caller::from_request_parts(parts, app).await?),
            false => None,
        }))
    }
}

impl From<TokenFault> for ApiProblem {
    fn from(TokenFault(why, detail): TokenFault) -> Self {
        Self::unauthenticated(why, detail)
    }
}

/// The path's one parameter.
pub(crate) struct Param<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr<Err: fmt::Display> + Send> FromRequestParts<S> for Param<T> {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let params = path_params(parts, state).await?;
        parsed(params.iter().next()).map(Self)
    }
}

/// The path's two parameters.
pub(crate) struct TwoParams<A, B>(pub(crate) A, pub(crate) B);

impl<S, A, B> FromRequestParts<S> for TwoParams<A, B>
where
    S: Send + Sync,
    A: FromStr<Err: fmt::Display> + Send,
    B: FromStr<Err: fmt::Display> + Send,
{
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiProblem> {
        let params = path_params(parts, state).await?;
        let mut params = params.iter();
        Ok(Self(parsed(params.next())?, parsed(params.next())?))
    }
}

async fn path_params<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<RawPathParams, ApiProblem> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    params.map_err(|_| ApiProblem::bad_request("the path is not valid UTF-8"))
}

fn parsed<T: FromStr<Err: fmt::Display>>(param: Option<(&str, &str)>) -> Result<T, ApiProblem> {
    let (name, text) = param.unwrap_or_default();
    text.parse().map_err(|error: T::Err| {
        ApiProblem::bad_request(error.to_string()).in_parameter(name.to_owned())
    })
}

/// The query's parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiProblem> {
        let query = Query::try_from_uri(&parts.uri);
        let query = query.map(|Query(value)| Self(value));
        query.map_err(|error| {
            let problem = ApiProblem::bad_request(error.body_text());
            match strict::parameter(&error) {
                Some(name) => problem.in_parameter(name),
                None => problem,
            }
        })
    }
}

/// `Idempotency-Key`, if the request has one.
pub(crate) struct RequestKey(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for RequestKey {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiProblem> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else {
            return Ok(Self(None));
        };
        if values.next().is_some() {
            return Err(bad_key("the request has two idempotency keys: send one"));
        }
        let invisible = |_| bad_key("an idempotency key is visible ASCII characters");
        let key = unquoted(value.to_str().map_err(invisible)?)?;
        let key = IdempotencyKey::new(&key);
        key.map(|key| Self(Some(key)))
            .map_err(|error| bad_key(error.to_string()))
    }
}

fn bad_key(detail: impl Into<Cow<'static, str>>) -> ApiProblem {
    ApiProblem::bad_request(detail).in_parameter("Idempotency-Key")
}

/// Canonical form of a key. The quoted form of the header's draft (a string of RFC 9651) and the plain form of most
/// clients are the same key.
fn unquoted(text: &str) -> Result<Cow<'_, str>, ApiProblem> {
    let Some(rest) = text.strip_prefix('"') else {
        return Ok(Cow::Borrowed(text));
    };
    let mut key = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match (chars.next(), chars.as_str()) {
            (Some('"'), "") => return Ok(Cow::Owned(key)),
            (Some('\\'), _) => match chars.next() {
                Some(escaped @ ('"' | '\\')) => key.push(escaped),
                _ => break,
            },
            (Some('"') | None, _) => break,
            (Some(char), _) => key.push(char),
        }
    }
    Err(bad_key(
        "the idempotency key begins with a quotation mark but is not a quoted string: quote all of it, or nothing",
    ))
}

/// A request about one object: the caller, its id, and the idempotency key.
pub(crate) struct ObjectRequest<T> {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) id: T,
    pub(crate) key: Option<IdempotencyKey>,
}

impl<T: FromStr<Err: fmt::Display> + Send> FromRequestParts<Arc<App>> for ObjectRequest<T> {
    type Rejection = ApiProblem;
    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiProblem> {
        Ok(Self {
            app: Arc::clone(app),
            caller: Caller::from_request_parts(parts, app).await?,
            id: Param::from_request_parts(parts, app).await?.0,
            key: RequestKey::from_request_parts(parts, app).await?.0,
        })
    }
}

impl<T: fmt::Display> ObjectRequest<T> {
    /// Use of the key for this request about this object.
    pub(crate) fn key_use(&self, route: &str, body: &impl Serialize) -> Option<KeyUse> {
        let id = self.id.to_string();
        let key = self.key.as_ref()?;
        Some(key_use(&self.caller.user, route, key, &id, body))
    }

    /// The same for a request with this condition. With another condition, it is another request.
    pub(crate) fn conditional_key_use(
        &self,
        route: &str,
        body: &impl Serialize,
        condition: Option<&IfMatch>,
    ) -> Option<KeyUse> {
        match condition {
            Some(condition) => self.key_use(route, &(body, condition)),
            None => self.key_use(route, body),
        }
    }
}

/// A JSON body. The types decide about unknown fields.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = ApiProblem;
    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiProblem> {
        parse(&json_body(request, app).await?).map(Self)
    }
}

/// Bytes of a JSON body.
pub(crate) async fn json_body(request: Request, app: &App) -> Result<Bytes, ApiProblem> {
    check_media_type(request.headers())?;
    read(request, &app.config.server).await
}

/// Bytes of a form.
pub(crate) async fn form_body(request: Request, app: &App) -> Result<Bytes, ApiProblem> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    let form = "application/x-www-form-urlencoded";
    if !essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(form)) {
        let advice = format!("send `Content-Type: {form}`");
        return Err(ApiProblem::new(ProblemKind::MediaType, advice));
    }
    read(request, &app.config.server).await
}

/// A JSON body; the default if there is none.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for OptionalJson<T> {
    type Rejection = ApiProblem;
    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiProblem> {
        if hyper::body::Body::is_end_stream(request.body()) {
            return Ok(Self(T::default()));
        }
        let media_type = check_media_type(request.headers());
        let body = read(request, &app.config.server).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        media_type?;
        parse(&body).map(Self)
    }
}

/// Checks that the body is JSON as RFC 8259 specifies: `application/json`, in UTF-8, and not compressed.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiProblem> {
    let one = |name| {
        let mut values = headers.get_all(name).into_iter();
        let value = values.next().and_then(|value| value.to_str().ok());
        value.filter(|_| values.next().is_none())
    };
    let json = one(header::CONTENT_TYPE).is_some_and(is_json);
    let plain = !headers.contains_key(header::CONTENT_ENCODING)
        || one(header::CONTENT_ENCODING).is_some_and(|it| it.eq_ignore_ascii_case("identity"));
    let advice = match json {
        true if plain => return Ok(()),
        true => "send the body as it is, without a `Content-Encoding`",
        false => "send `Content-Type: application/json`, in UTF-8",
    };
    Err(ApiProblem::new(ProblemKind::MediaType, advice))
}

fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or("");
    let utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        // Other parameters have no meaning for JSON.
        _ => true,
    };
    essence.eq_ignore_ascii_case("application/json") && parts.all(utf8)
}

async fn read(request: Request, config: &ServerConfig) -> Result<Bytes, ApiProblem> {
    let bytes_max = config.body_bytes_max;
    let too_large = || {
        let detail = format!("a body has at most {bytes_max} bytes");
        ApiProblem::new(ProblemKind::TooLarge, detail)
    };
    let body = request.into_body();
    // A body that is announced as too large is not read.
    if hyper::body::Body::size_hint(&body).lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let body = Limited::new(body, bytes_max).collect();
    match tokio::time::timeout(config.request_timeout(), body).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiProblem::bad_request("the body broke off")),
        Err(_) => Err(ProblemKind::BodyTimeout.into()),
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiProblem> {
    strict::from_slice(body).map_err(|fault| {
        let detail = fault.error.to_string();
        match fault.error.is_data() {
            true => ApiProblem::invalid(detail).at(fault.pointer),
            false => ApiProblem::bad_request(detail),
        }
    })
}
