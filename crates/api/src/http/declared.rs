//! Middleware that refuses bodies and query parameters that the operation's description does not declare, and callers
//! without any of its scopes before it says what is wrong with their body.
//!
//! It applies to all routes of a router, so new routes need no code for it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Query, Request},
    http::{Method, StatusCode, Uri},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use qiang_wire::problem::ProblemKind;
use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::http::{problem::ApiProblem, request_id::RequestId, strict};

/// Maximum size in bytes of a body that is read to check that it is empty.
const BYTES_MAX: usize = 1_024;
/// Statuses of requests with a wrong body.
const OF_BODIES: [StatusCode; 4] = [
    StatusCode::BAD_REQUEST,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::UNPROCESSABLE_ENTITY,
];
/// Time limit for such a body.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

/// Bit and name of a scope with this name.
pub(crate) type FindScope = fn(&str) -> Option<(u16, &'static str)>;

/// Router of these routes, with the checks.
pub(crate) fn router_of<S: Clone + Send + Sync + 'static>(
    routes: OpenApiRouter<S>,
    scope: FindScope,
) -> Router<S> {
    let (router, document) = routes.split_for_parts();
    let declared = Arc::new(operations(&document, scope));
    router.route_layer(from_fn(move |request: Request, next: Next| {
        let declared = Arc::clone(&declared);
        async move { checked(&declared, request, next).await }
    }))
}

/// Body and query parameters that an operation declares.
#[derive(Debug, Default)]
struct Declared {
    /// Its method, in capitals.
    method: String,
    takes_body: bool,
    /// Names of its query parameters.
    query: Vec<String>,
    scopes: DeclaredScopes,
}

/// Scopes of an operation. Which one a caller needs may depend on the object.
#[derive(Debug, Default)]
struct DeclaredScopes {
    /// Bits of all of them; 0 if some callers need none.
    bits: u16,
    /// Name of the first one.
    first: &'static str,
}

impl DeclaredScopes {
    fn from_operation(operation: &Value, scope: FindScope) -> Self {
        let mut found = Self::default();
        for way in operation["security"].as_array().into_iter().flatten() {
            let name = way["bearer"][0].as_str();
            let Some((bit, name)) = name.and_then(scope) else {
                return Self::default();
            };
            if found.bits == 0 {
                found.first = name;
            }
            found.bits |= bit;
        }
        found
    }

    /// Problem of a caller who lacks all of them.
    fn missing(&self) -> Option<ApiProblem> {
        let held = RequestId::caller_scopes()?;
        let lacks_all = self.bits != 0 && held & self.bits == 0;
        lacks_all.then(|| ApiProblem::missing_scope(self.first))
    }
}

/// Path templates with their operations.
type Operations = HashMap<String, Vec<Declared>>;

/// All operations of the document.
fn operations(document: &OpenApi, scope: FindScope) -> Operations {
    // Maps with strings as keys always serialise.
    let document = serde_json::to_value(document).unwrap_or_default();
    let mut operations = Operations::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let query = parameters
                .filter(|it| it["in"] == "query")
                .filter_map(|it| it["name"].as_str().map(str::to_owned));
            operations.entry(path.clone()).or_default().push(Declared {
                method: method.to_ascii_uppercase(),
                takes_body: operation.get("requestBody").is_some(),
                query: query.collect(),
                scopes: DeclaredScopes::from_operation(operation, scope),
            });
        }
    }
    operations
}

/// Operation of a request. `HEAD` is answered as `GET`.
fn operation<'a>(operations: &'a Operations, request: &Request) -> Option<&'a Declared> {
    let path = request.extensions().get::<MatchedPath>()?;
    let method = match request.method() {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    let mut all = operations.get(path.as_str())?.iter();
    all.find(|it| it.method == method.as_str())
}

async fn checked(operations: &Operations, request: Request, next: Next) -> Response {
    // Each claim passes here, so nothing is copied.
    let has_query = request.uri().query().is_some_and(|query| !query.is_empty());
    let has_body = !hyper::body::Body::is_end_stream(request.body());
    if !has_query && !has_body {
        return next.run(request).await;
    }
    let declared = operation(operations, &request);
    if has_query
        && let Some(declared) = declared
        && let Some(problem) = unknown_parameter(request.uri(), declared)
    {
        return problem.into_response();
    }
    if !has_body {
        return next.run(request).await;
    }
    if let Some(declared) = declared.filter(|declared| declared.takes_body) {
        let response = next.run(request).await;
        // The body is read before the scope is checked. A caller who may not act learns that and nothing else.
        let is_of_body = OF_BODIES.contains(&response.status());
        let missing = is_of_body.then(|| declared.scopes.missing()).flatten();
        return missing.map_or(response, IntoResponse::into_response);
    }
    let (head, body) = request.into_parts();
    match says_nothing(body).await {
        Ok(()) => next.run(Request::from_parts(head, Body::empty())).await,
        Err(problem) => problem.into_response(),
    }
}

/// Problem of the first query parameter that the operation does not declare.
fn unknown_parameter(uri: &Uri, declared: &Declared) -> Option<ApiProblem> {
    let Ok(Query(asked)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return None; // the operation reports it
    };
    let known = &declared.query;
    let (unknown, _) = asked.into_iter().find(|(name, _)| !known.contains(name))?;
    let detail = match known.is_empty() {
        true => "this operation has no query parameters".to_owned(),
        false => format!("the query parameters are {}", known.join(", ")),
    };
    Some(ApiProblem::bad_request(detail).in_parameter(unknown))
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
