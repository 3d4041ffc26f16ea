//! OpenAPI document. Annotations of handlers describe what is special to an operation. This module adds what all
//! operations share, so that new routes have it too. That is: statuses of tokens, bodies, ids and keys, the media
//! type of problems, headers, words as enums, bounds, and examples.

mod examples;
mod open_words;
mod responses;
mod scalars;
mod schemas;
mod tags;
#[cfg(test)]
mod tests;
mod webhooks;

use qiang_wire::problem::ProblemKind;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// The header that names a request, so that repeating it is safe.
const KEY: &str = "Idempotency-Key";
const IF_NONE_MATCH: &str = "If-None-Match";
const IF_MATCH: &str = "If-Match";
const TICKET: &str = "Grab-Ticket";

/// The annotated document with the shared parts added.
pub(crate) fn complete(collected: &OpenApi) -> Value {
    // Maps with texts as keys always serialise.
    let mut document = serde_json::to_value(collected).unwrap_or_default();
    let schemas = object(&mut document["components"]["schemas"]);
    scalars::inline(&mut *schemas);
    schemas.insert("WebhookEvent".to_owned(), webhooks::event());
    schemas::complete(schemas);
    let schemas = schemas.clone();
    for (path, item) in object(&mut document["paths"]) {
        for (method, operation) in object(item) {
            complete_request(path, method, operation, &schemas);
            responses::complete(path, operation, &schemas);
            if operation["description"].is_null() {
                operation["description"] = json!(needed_token(operation));
            }
        }
    }
    document["components"]["headers"] = responses::headers();
    document["webhooks"] = webhooks::webhooks();
    document["tags"] = tags::declared();
    document["servers"] =
        json!([{"url": "/", "description": "The service that served this document"}]);
    document["info"]["contact"] = json!({"name": "The Qiang project"});
    open_words::open(&mut document);
    document
}

/// The value as an object; replaced by an empty object if it is none.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(object) => object,
        _ => unreachable!("it is an object now"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn has_parameter(operation: &Value, name: &str) -> bool {
    list(&operation["parameters"]).any(|parameter| parameter["name"] == name)
}

fn complete_request(path: &str, method: &str, operation: &mut Value, schemas: &Map<String, Value>) {
    // These may be repeated freely; a batch has its keys in the body.
    let as_often = [
        "/tickets",
        "/invitations",
        "/session",
        "/batch",
        "/audits",
        "/server-seeds",
        "/notifications",
    ];
    let as_often = as_often.iter().any(|end| path.ends_with(end));
    let takes_key = method != "get" && !as_often;
    if takes_key && !has_parameter(operation, KEY) {
        let parameters = &mut operation["parameters"];
        let description = "Names this request";
        let key =
            json!({"name": KEY, "in": "header", "description": description, "required": false});
        match parameters {
            Value::Array(parameters) => parameters.push(key),
            _ => *parameters = json!([key]),
        }
    }
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        complete_parameter(path, parameter);
    }
    if operation["parameters"].is_null() {
        object(operation).remove("parameters");
    }
    if let Some(body) = operation.get_mut("requestBody") {
        let optional = body["required"] != true;
        body["required"] = json!(!optional);
        let form = "application/x-www-form-urlencoded";
        let media_type = match body["content"].get(form) {
            Some(_) => form,
            None => "application/json",
        };
        let content = &mut body["content"][media_type];
        // A body that may be left out is never null.
        if let Some(schema) = content["schema"]["oneOf"].get(0) {
            content["schema"] = schema.clone();
        }
        content["example"] = examples::example_for_schema(&content["schema"], schemas);
    }
}

/// Description of an operation whose summary says the rest: the token that it needs.
fn needed_token(operation: &Value) -> String {
    let scopes: Vec<_> = list(&operation["security"])
        .filter_map(|way| way["bearer"][0].as_str())
        .map(|scope| format!("`{scope}`"))
        .collect();
    match scopes.as_slice() {
        [] if responses::is_public(operation) => "Needs no token.".to_owned(),
        [] => "Needs a token, of any scope.".to_owned(),
        [scope] => format!("Needs a token with the scope {scope}."),
        scopes => format!(
            "Needs a token with one of the scopes {}.",
            scopes.join(", ")
        ),
    }
}

/// A header or a path parameter is a string and never null; its form follows from its name.
fn complete_parameter(path: &str, parameter: &mut Value) {
    let name = parameter["name"].as_str().unwrap_or_default().to_owned();
    let schema = match name.as_str() {
        KEY => json!({"type": "string", "pattern": schemas::KEY}),
        IF_NONE_MATCH | IF_MATCH | TICKET => json!({"type": "string"}),
        "id" if path.starts_with("/v1/orders/") => {
            json!({"type": "string", "format": "order-id", "pattern": schemas::ASKED_ORDER_ID})
        }
        "partition" if parameter["in"] == "path" => {
            json!({"type": "integer", "minimum": 0, "maximum": u16::MAX})
        }
        "entry" => {
            json!({"type": "string", "format": "entry-place", "pattern": schemas::ENTRY_PLACE})
        }
        "id" => json!({"type": "string", "format": "uuid", "pattern": schemas::ASKED_CAMPAIGN_ID}),
        "user" => json!({"type": "string", "pattern": schemas::USER, "maxLength": 128}),
        "account" => json!({"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}),
        "reference" => json!({"type": "string", "pattern": schemas::VISIBLE, "maxLength": 128}),
        "slug" => {
            let slugs: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.slug()).collect();
            json!({"type": "string", "enum": slugs})
        }
        _ => {
            let schema = &mut parameter["schema"];
            if let Some(value_type) = schema["type"].get(0) {
                schema["type"] = value_type.clone();
            }
            schemas::complete_property(schemas::QUERY, &name, schema);
            return;
        }
    };
    parameter["schema"] = schema;
    parameter["example"] = match name.as_str() {
        "id" if path.starts_with("/v1/orders/") => json!(examples::ORDER),
        "id" => json!(examples::CAMPAIGN),
        IF_NONE_MATCH => json!("W/\"0d3f51a86f4b2c19\""),
        IF_MATCH => json!(examples::STRONG_TAG),
        KEY => json!(examples::KEY),
        TICKET => json!(examples::TICKET),
        "slug" => json!("sold-out"),
        "reference" => json!(examples::PAYMENT),
        "partition" => json!(0),
        "entry" => json!(examples::ENTRY),
        "account" => json!("main"),
        _ => json!(examples::USER),
    };
}
