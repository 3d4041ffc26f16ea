//! Middleware that refuses a body for operations whose description declares none.
//!
//! It applies to all routes of a router, so new routes need no code for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Request},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use qiang_wire::problem::ProblemKind;
use serde::Deserialize;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::http::{problem::ApiProblem, strict};

/// Maximum size in bytes of a body that is read to check that it is empty.
const BYTES_MAX: usize = 1_024;
/// Time limit for such a body.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

/// Router of these routes, with the check of bodies.
pub(crate) fn router_of<S: Clone + Send + Sync + 'static>(routes: OpenApiRouter<S>) -> Router<S> {
    let (router, document) = routes.split_for_parts();
    let declared = Arc::new(with_body(&document));
    router.route_layer(from_fn(move |request: Request, next: Next| {
        let declared = Arc::clone(&declared);
        async move { checked(&declared, request, next).await }
    }))
}

/// Path templates, with the methods in lower case that declare a body.
type WithBody = HashMap<String, Vec<String>>;

/// Operations of the document that declare a body.
fn with_body(document: &OpenApi) -> WithBody {
    // Maps with strings as keys always serialise.
    let document = serde_json::to_value(document).unwrap_or_default();
    let mut declared = WithBody::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if operation.get("requestBody").is_some() {
                declared
                    .entry(path.clone())
                    .or_default()
                    .push(method.clone());
            }
        }
    }
    declared
}

async fn checked(declared: &WithBody, request: Request, next: Next) -> Response {
    if hyper::body::Body::is_end_stream(request.body()) {
        return next.run(request).await;
    }
    let path = request.extensions().get::<MatchedPath>();
    // Each claim with a body passes here, so nothing is copied.
    let methods = path.and_then(|path| declared.get(path.as_str()));
    let method = request.method().as_str();
    if methods.is_some_and(|methods| methods.iter().any(|it| method.eq_ignore_ascii_case(it))) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match says_nothing(body).await {
        Ok(()) => next.run(Request::from_parts(head, Body::empty())).await,
        Err(problem) => problem.into_response(),
    }
}

/// An object without fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyObject {}

/// Accepts an empty body, blanks and `{}`; refuses any other.
async fn says_nothing(body: Body) -> Result<(), ApiProblem> {
    let refused = || {
        let detail = "this operation takes no body: send none, or an empty object";
        ApiProblem::bad_request(detail)
    };
    if hyper::body::Body::size_hint(&body).lower() > BYTES_MAX as u64 {
        return Err(refused());
    }
    let read = Limited::new(body, BYTES_MAX).collect();
    let bytes = match tokio::time::timeout(ARRIVES_WITHIN, read).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(refused()),
        Ok(Err(_)) => return Err(ApiProblem::bad_request("the body broke off")),
        Err(_) => return Err(ProblemKind::BodyTimeout.into()),
    };
    match bytes.trim_ascii().is_empty() || strict::from_slice::<EmptyObject>(&bytes).is_ok() {
        true => Ok(()),
        false => Err(refused()),
    }
}
