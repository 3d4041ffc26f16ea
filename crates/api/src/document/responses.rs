//! Responses: the statuses of an operation, with meaning, media type, headers and examples.

use axum::http::StatusCode;
use qiang_core::outcome::Outcome;
use qiang_wire::problem::ProblemKind;
use serde_json::{Map, Value, json};

use super::{IF_MATCH, IF_NONE_MATCH, KEY, examples, has_parameter, object};
use crate::http::wire::OWN_CACHING;

const PROBLEM: &str = "#/components/schemas/Problem";
const GRANT: &str = "#/components/schemas/Grant";
/// First event of a stream about a queue entry.
const STREAM: &str = "event: place\ndata: {\"state\":\"waiting\",\"place\":42,\"ahead\":41}\n\n";
/// Data of an event about a campaign.
const EVENT_DATA: &str = "{\"phase\":\"live\",\"supply\":10,\"granted\":3,\"remaining\":7,\"returned\":0,\
    \"starts_at\":\"2026-11-21T12:00:00.000Z\",\"ends_at\":\"2026-11-22T12:00:00.000Z\",\
    \"now\":\"2026-11-21T12:00:01.000Z\"}";

pub(super) fn complete(path: &str, operation: &mut Value, schemas: &Map<String, Value>) {
    for status in common_statuses(path, operation) {
        let responses = object(&mut operation["responses"]);
        responses.entry(status.as_str()).or_insert_with(
            || json!({"content": {"application/json": {"schema": {"$ref": PROBLEM}}}}),
        );
    }
    let given = operation.clone();
    for (status, response) in object(&mut operation["responses"]) {
        let Ok(status) = status.parse::<StatusCode>() else {
            continue;
        };
        let kinds = kinds(path, &given, status, response);
        let content = &response["content"]["application/json"];
        if content["schema"]["$ref"] == PROBLEM {
            response["content"] = problem_content(path, &kinds);
        } else {
            complete_content(&given, &mut response["content"], schemas);
        }
        if response["description"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            response["description"] = json!(description(status, &given, &kinds, schemas));
        }
        response["headers"] = headers_of(path, &given, status, &kinds);
        object(response).retain(|_, value| !value.is_null());
    }
}

/// Statuses that a token, a scope, parameters, a body and a key can cause, and those of all operations.
fn common_statuses(path: &str, operation: &Value) -> Vec<StatusCode> {
    let mut statuses = Vec::new();
    let mut add = |when: bool, more: &[StatusCode]| {
        if when {
            statuses.extend_from_slice(more);
        }
    };
    // Parameters can be wrong, and a client can send a body that is not declared.
    add(
        true,
        &[StatusCode::BAD_REQUEST, StatusCode::REQUEST_TIMEOUT],
    );
    add(!is_public(operation), &[StatusCode::UNAUTHORIZED]);
    add(scope(operation).is_some(), &[StatusCode::FORBIDDEN]);
    add(
        operation.get("requestBody").is_some(),
        &[
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ],
    );
    add(
        has_parameter(operation, KEY),
        &[StatusCode::UNPROCESSABLE_ENTITY],
    );
    add(
        has_parameter(operation, IF_MATCH),
        &[StatusCode::PRECONDITION_FAILED],
    );
    add(
        !["/healthz", "/readyz", "/metrics"].contains(&path),
        &[StatusCode::TOO_MANY_REQUESTS],
    );
    add(
        path.starts_with("/v1/"),
        &[
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::SERVICE_UNAVAILABLE,
        ],
    );
    statuses
}

/// Whether it needs no token.
pub(super) fn is_public(operation: &Value) -> bool {
    operation["security"] == json!([{}])
}

/// Whether it takes a signature and no token.
fn is_only_signed(operation: &Value) -> bool {
    let ways = operation["security"].as_array();
    let has_token = |way: &Value| way.get("bearer").is_some();
    !is_public(operation) && ways.is_some_and(|ways| !ways.iter().any(has_token))
}

/// Scope that the token must have; `None` if it needs none.
fn scope(operation: &Value) -> Option<&str> {
    operation["security"][0]["bearer"][0].as_str()
}

/// Problems of a response: the ones that its description names, and the usual ones.
fn kinds(path: &str, operation: &Value, status: StatusCode, response: &Value) -> Vec<ProblemKind> {
    let description = response["description"].as_str().unwrap_or_default();
    let description = description.replace('_', "-");
    let usual = usual(path, operation, status);
    let takes_key = has_parameter(operation, KEY);
    // `ticket-…` names all types with this prefix.
    let family = |kind: &ProblemKind| {
        kind.slug()
            .split('-')
            .next()
            .map(|word| format!("{word}-…"))
    };
    let named = |kind: &&ProblemKind| {
        description.contains(kind.slug())
            || family(kind).is_some_and(|family| description.contains(&family))
            || takes_key && **kind == ProblemKind::KeyReused
    };
    let of_status = ProblemKind::ALL
        .iter()
        .filter(|kind| kind.status() == status.as_u16());
    let mut kinds: Vec<_> = of_status.filter(named).copied().collect();
    match status {
        // A claim's description names all outcomes with this status.
        StatusCode::CONFLICT if !kinds.is_empty() => {}
        StatusCode::FORBIDDEN if !kinds.is_empty() && scope(operation).is_none() => {}
        // Metrics are read from memory.
        StatusCode::SERVICE_UNAVAILABLE if path == "/metrics" => {}
        _ => kinds.extend(usual.iter().filter(|kind| kind.status() == status.as_u16())),
    }
    kinds.sort_by_key(|kind| kind.slug());
    kinds.dedup();
    kinds
}

/// Problems that operations of this kind have without naming them.
fn usual(path: &str, operation: &Value, status: StatusCode) -> Vec<ProblemKind> {
    use ProblemKind as Kind;
    let in_campaign = path.contains("/{id}")
        && !path.starts_with("/v1/orders")
        && !path.starts_with("/v1/webhooks")
        && !path.starts_with("/v1/audits");
    let conflict = match path {
        _ if path.starts_with("/v1/orders") => Kind::OrderConflict,
        _ if path.starts_with("/v1/campaigns") => Kind::PhaseConflict,
        _ => Kind::InsufficientFunds,
    };
    let mut usual = vec![
        match status {
            StatusCode::NOT_FOUND if in_campaign => Kind::UnknownCampaign,
            StatusCode::NOT_FOUND => Kind::NotFound,
            _ => conflict,
        },
        Kind::BadRequest,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::BodyTimeout,
        Kind::PreconditionFailed,
        Kind::WeakEntityTag,
        Kind::TooLarge,
        Kind::MediaType,
        Kind::Ended,
        Kind::AddressThrottled,
        Kind::Internal,
        Kind::Overloaded,
        Kind::Unavailable,
        Kind::Uncertain,
        Kind::Stopping,
    ];
    if operation.get("requestBody").is_some() {
        usual.push(Kind::Invalid);
    }
    if !is_public(operation) {
        usual.push(Kind::Throttled);
    }
    usual
}

fn problem_content(path: &str, kinds: &[ProblemKind]) -> Value {
    let mut named = Map::new();
    for kind in kinds {
        let mut problem = json!({
            "type": kind.path(),
            "title": kind.title(),
            "status": kind.status(),
            "request_id": examples::REQUEST_ID,
        });
        let outcome = kind.slug().replace('-', "_");
        let decides = ["/claims", "/orders", "/tickets", "/queue-entry"];
        let decides = decides.iter().any(|end| path.ends_with(end));
        if decides && Outcome::NAMES.contains(&outcome.as_str()) {
            problem["outcome"] = json!(outcome);
        }
        named.insert(kind.slug().to_owned(), json!({"value": problem}));
    }
    json!({"application/problem+json": {"schema": {"$ref": PROBLEM}, "examples": named}})
}

fn complete_content(operation: &Value, content: &mut Value, schemas: &Map<String, Value>) {
    for (media_type, content) in content.as_object_mut().into_iter().flatten() {
        let example = match media_type.as_str() {
            "application/json" => examples::example_for_schema(&content["schema"], schemas),
            "text/event-stream" if operation["operationId"] == "watchCampaign" => {
                json!({"event": "state", "data": EVENT_DATA})
            }
            "text/event-stream" => json!(STREAM),
            "text/html" => json!("<!doctype html>\n<title>Sold out</title>\n"),
            _ if operation["operationId"] == "checkHealth" => json!("ok\n"),
            _ if operation["operationId"] == "receiveAlipayNotification" => json!("success"),
            _ => json!("qiang_engine_stopped 0\n"),
        };
        let is_grant = content["schema"]["$ref"] == GRANT;
        content["example"] = match is_grant && operation["operationId"] == "claimShare" {
            true => without_order(example),
            false => example,
        };
    }
}

/// Removes the fields of an order: a share has none.
fn without_order(mut example: Value) -> Value {
    for property in ["order", "state", "hold_until"] {
        object(&mut example).remove(property);
    }
    example
}

fn description(
    status: StatusCode,
    operation: &Value,
    kinds: &[ProblemKind],
    schemas: &Map<String, Value>,
) -> String {
    if !kinds.is_empty() {
        let lines = kinds
            .iter()
            .map(|kind| format!("`{}`: {}.", kind.slug(), kind.title()));
        return lines.collect::<Vec<_>>().join(" ");
    }
    let content = &operation["responses"][status.as_str()]["content"]["application/json"];
    let name = content["schema"]["$ref"].as_str().unwrap_or_default();
    let schema = schemas.get(name.rsplit('/').next().unwrap_or_default());
    let what = schema.and_then(|schema| schema["description"].as_str());
    let what = what
        .and_then(|what| what.lines().next())
        .unwrap_or("A text.");
    match status {
        StatusCode::CREATED => format!("Made now. {what}"),
        _ => what.to_owned(),
    }
}

/// Headers of answers, by the names that responses refer to.
pub(super) fn headers() -> Value {
    let header = |description: &str, required: bool, schema: Value, example: Value| {
        let mut header = json!({"description": description, "required": required});
        (header["schema"], header["example"]) = (schema, example);
        header
    };
    let text = || json!({"type": "string"});
    let seconds = || json!({"type": "integer", "minimum": 1});
    let place = format!("/v1/campaigns/{}/queue-entry", examples::CAMPAIGN);
    let (sale, cursor) = (examples::CAMPAIGN, examples::CURSOR);
    let next = format!("</v1/sales/{sale}/orders?after={cursor}>; rel=\"next\"");
    let order = format!("/v1/orders/{}", examples::ORDER);
    let challenge = "Bearer realm=\"qiang\"";
    let scope = "Bearer realm=\"qiang\", error=\"insufficient_scope\", scope=\"deposit\"";
    json!({
        "RequestId": header("The request's own id, or a fresh one", true, text(), json!(examples::REQUEST_ID)),
        "RetryAfter": header("Seconds to wait before a retry", true, seconds(), json!(1)),
        "RateLimit": header("Units left, and seconds until more are available (draft-ietf-httpapi-ratelimit-headers)",
            true, text(), json!("\"claims-of-user\";r=0;t=1")),
        "RateLimitPolicy": header("The limit: `q` at once, and as many again in `w` seconds", true, text(),
            json!("\"claims-of-user\";q=20;w=4")),
        "LimitState": header("Units left of the caller's closest limit, if one applies", false, text(),
            json!("\"claims-of-user\";r=19")),
        "LimitPolicy": header("That limit: `q` at once, and as many again in `w` seconds", false, text(),
            json!("\"claims-of-user\";q=20;w=4")),
        "StartsIn": header("For `not-started`: seconds until it starts", false, seconds(), json!(30)),
        "AskAgain": header("While it waits: seconds to wait before reading it again", false, seconds(), json!(1)),
        "PlaceLocation": header("Path of the queue entry", true, text(), json!(place)),
        "Created": header("Path of the created object", true, text(), json!(order)),
        "Private": header("Caches may not keep it", true, text(), json!("no-store")),
        "Challenge": header("How to authenticate (RFC 6750)", true, text(), json!(challenge)),
        "ScopeChallenge": header("For `forbidden`: the scope that is needed", false, text(), json!(scope)),
        "EntityTag": header("Covers everything except the time", true, text(), json!("W/\"0d3f51a86f4b2c19\"")),
        "StrongTag": header("Covers everything except the time; for `If-Match`", true, text(),
            json!(examples::STRONG_TAG)),
        "NextPage": header("The next page, if there is one (RFC 8288)", false, text(), json!(next)),
        "Replayed": header("`true` if this repeats the answer to an earlier request", false,
            json!({"const": "true"}), json!("true")),
        "OwnCaching": header("Only the caller's own cache may keep it, and must revalidate it each time", true,
            text(), json!(OWN_CACHING)),
        "Caching": header("How long caches may keep it", true, text(), json!("public, max-age=1, s-maxage=1")),
    })
}

fn headers_of(path: &str, operation: &Value, status: StatusCode, kinds: &[ProblemKind]) -> Value {
    let mut headers = json!({});
    let mut add = |name: &str, header: &str| {
        headers[name] = json!({"$ref": format!("#/components/headers/{header}")});
    };
    add("X-Request-Id", "RequestId");
    match status {
        StatusCode::UNAUTHORIZED => add("WWW-Authenticate", "Challenge"),
        StatusCode::FORBIDDEN if kinds.contains(&ProblemKind::Forbidden) => {
            add("WWW-Authenticate", "ScopeChallenge");
        }
        StatusCode::CONFLICT if kinds.contains(&ProblemKind::NotStarted) => {
            add("Retry-After", "StartsIn");
        }
        StatusCode::ACCEPTED => {
            add("Location", "PlaceLocation");
            add("Retry-After", "RetryAfter");
        }
        // Signed texts exist only in the answer.
        StatusCode::CREATED if !path.ends_with("/tickets") && !path.ends_with("/invitations") => {
            add("Location", "Created");
        }
        StatusCode::OK if path.ends_with("/queue-entry") => add("Retry-After", "AskAgain"),
        StatusCode::OK if has_parameter(operation, "after") => add("Link", "NextPage"),
        StatusCode::TOO_MANY_REQUESTS => {
            add("Retry-After", "RetryAfter");
            add("RateLimit", "RateLimit");
            add("RateLimit-Policy", "RateLimitPolicy");
        }
        StatusCode::SERVICE_UNAVAILABLE if path != "/readyz" => add("Retry-After", "RetryAfter"),
        StatusCode::OK if has_parameter(operation, IF_MATCH) => add("ETag", "StrongTag"),
        StatusCode::OK | StatusCode::NOT_MODIFIED if has_parameter(operation, IF_NONE_MATCH) => {
            let is_metadata = path.ends_with("/metadata");
            add(
                "ETag",
                if is_metadata {
                    "StrongTag"
                } else {
                    "EntityTag"
                },
            );
            // Only the state is the same for all callers.
            let own = !path.ends_with("/state");
            add("Cache-Control", if own { "OwnCaching" } else { "Caching" });
        }
        _ => {}
    }
    let is_limited = !["/healthz", "/readyz"].contains(&path);
    if is_limited && status.is_success() {
        add("RateLimit", "LimitState");
        add("RateLimit-Policy", "LimitPolicy");
    }
    if matches!(status, StatusCode::OK | StatusCode::CONFLICT) && has_parameter(operation, KEY) {
        add("Idempotency-Replayed", "Replayed");
    }
    let takes_token = !is_public(operation) && !is_only_signed(operation);
    if status.is_success() && takes_token && !has_parameter(operation, IF_NONE_MATCH) {
        add("Cache-Control", "Private");
    }
    headers
}
