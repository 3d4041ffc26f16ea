//! What handlers take from a request, with problem details where axum's own extractors answer plain text.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use axum::{
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use qiang_core::id::IdempotencyKey;
use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use crate::problem::{Problem, ProblemKind};

/// What handlers work with, as far as it bounds bodies.
pub(crate) trait BodyLimits: Send + Sync {
    /// The largest body, in bytes.
    fn body_bytes_max(&self) -> usize;

    /// How long a body may take to arrive.
    fn body_timeout(&self) -> Duration;
}

/// The path's one parameter.
pub(crate) struct Param<T>(pub(crate) T);

impl<S: Send + Sync, T: FromStr<Err: fmt::Display> + Send> FromRequestParts<S> for Param<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params
            .map_err(|_| Problem::new(ProblemKind::BadRequest, "the path is not valid UTF-8"))?;
        let text = params.iter().next().map_or("", |(_, value)| value);
        text.parse()
            .map(Self)
            .map_err(|error: T::Err| Problem::new(ProblemKind::BadRequest, error.to_string()))
    }
}

/// The query's parameters.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::try_from_uri(&parts.uri);
        query
            .map(|Query(value)| Self(value))
            .map_err(|error| Problem::new(ProblemKind::BadRequest, error.body_text()))
    }
}

/// `Idempotency-Key`, if there is one.
pub(crate) struct Key(pub(crate) Option<IdempotencyKey>);

impl<S: Send + Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get("idempotency-key") else {
            return Ok(Self(None));
        };
        let key = value.to_str().ok().map(IdempotencyKey::new);
        match key {
            Some(Ok(key)) => Ok(Self(Some(key))),
            Some(Err(error)) => Err(Problem::new(ProblemKind::BadRequest, error.to_string())),
            None => Err(Problem::new(
                ProblemKind::BadRequest,
                "an idempotency key is visible ASCII characters",
            )),
        }
    }
}

/// A JSON body. Unknown fields are the types' business.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: BodyLimits, T: DeserializeOwned> FromRequest<Arc<S>> for Json<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, limits: &Arc<S>) -> Result<Self, Problem> {
        check_media_type(request.headers())?;
        parse(&read(request, &**limits).await?).map(Self)
    }
}

/// A JSON body, or none at all, which means the default.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<S: BodyLimits, T: DeserializeOwned + Default> FromRequest<Arc<S>> for OptionalJson<T> {
    type Rejection = Problem;
    async fn from_request(request: Request, limits: &Arc<S>) -> Result<Self, Problem> {
        if hyper::body::Body::is_end_stream(request.body()) {
            return Ok(Self(T::default()));
        }
        let media_type = check_media_type(request.headers());
        let body = read(request, &**limits).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        media_type?;
        parse(&body).map(Self)
    }
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let essence = value.split(';').next().unwrap_or("").trim();
    let json = essence.eq_ignore_ascii_case("application/json");
    let refuse = || {
        Problem::new(
            ProblemKind::MediaType,
            "send `Content-Type: application/json`",
        )
    };
    json.then_some(()).ok_or_else(refuse)
}

async fn read(request: Request, limits: &impl BodyLimits) -> Result<Bytes, Problem> {
    let bytes_max = limits.body_bytes_max();
    let body = Limited::new(request.into_body(), bytes_max).collect();
    match tokio::time::timeout(limits.body_timeout(), body).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            ProblemKind::TooLarge,
            format!("a body has at most {bytes_max} bytes"),
        )),
        Ok(Err(_)) => Err(Problem::new(ProblemKind::BadRequest, "the body broke off")),
        Err(_) => Err(Problem::new(ProblemKind::BodyTimeout, "")),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let kind = if error.is_data() {
            ProblemKind::Invalid
        } else {
            ProblemKind::BadRequest
        };
        Problem::new(kind, error.to_string())
    })
}

/// What stands for a request in an idempotency key: the path's parameter and the body as understood, so that blanks
/// and the order of fields do not matter.
pub(crate) fn fingerprint(parameter: &str, body: &impl Serialize) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((parameter.len() as u64).to_be_bytes());
    hash.update(parameter);
    // Bodies are structs of texts and numbers, which always serialise.
    hash.update(serde_json::to_vec(body).unwrap_or_default());
    hash.finalize().into()
}
