//! Enums of answers are open: a later service may answer with further words. So an answer has a known word or any other
//! string, in the form that generators know. Requests have the known words only.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{list, object};

const SCHEMAS: &str = "#/components/schemas/";
const OPEN: &str =
    "Answers may have further values: treat an unknown one as a value that you do not handle.";

/// Opens the enums in all schemas that answers and events use.
pub(super) fn open(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned();
    let schemas = schemas.unwrap_or_default();
    let mut used = BTreeSet::new();
    for operation in operations(document) {
        collect(&operation["responses"], &schemas, &mut used);
    }
    for (_, item) in document["webhooks"].as_object().into_iter().flatten() {
        collect(&item["post"]["requestBody"], &schemas, &mut used);
    }
    for (name, schema) in object(&mut document["components"]["schemas"]) {
        if is_words(schema) {
            let description = schema["description"].as_str().unwrap_or_default();
            schema["description"] = json!(format!("{description} {OPEN}"));
        } else if used.contains(name) {
            open_in(schema, &schemas);
        }
    }
}

/// Operations of the paths.
pub(super) fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let items = document["paths"].as_object().into_iter().flatten();
    items.flat_map(|(_, item)| {
        item.as_object()
            .into_iter()
            .flatten()
            .map(|(_, operation)| operation)
    })
}

/// Adds the names of all schemas that a value refers to, directly or not.
pub(super) fn collect(value: &Value, schemas: &Map<String, Value>, names: &mut BTreeSet<String>) {
    if let Some(name) = name_of(value)
        && names.insert(name.to_owned())
        && let Some(schema) = schemas.get(name)
    {
        collect(schema, schemas, names);
    }
    match value {
        Value::Object(object) => object
            .values()
            .for_each(|part| collect(part, schemas, names)),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, schemas, names)),
        _ => {}
    }
}

fn name_of(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix(SCHEMAS)
}

/// Whether a schema is a closed list of words.
pub(super) fn is_words(schema: &Value) -> bool {
    schema["type"] == "string" && schema["enum"].is_array()
}

fn open_in(value: &mut Value, schemas: &Map<String, Value>) {
    let is_enum = |value: &Value| {
        is_words(value)
            || name_of(value)
                .and_then(|name| schemas.get(name))
                .is_some_and(is_words)
    };
    if is_enum(value) {
        let mut words = value.clone();
        let kept = object(value);
        kept.retain(|key, _| key == "description" || key == "example");
        object(&mut words).retain(|key, _| !kept.contains_key(key));
        kept.insert("anyOf".to_owned(), json!([words, {"type": "string"}]));
        return;
    }
    let nullable = list(&value["oneOf"]).find(|part| is_enum(part)).cloned();
    if let Some(words) = nullable {
        let kept = object(value);
        kept.remove("oneOf");
        kept.insert(
            "anyOf".to_owned(),
            json!([words, {"type": ["string", "null"]}]),
        );
        return;
    }
    match value {
        Value::Object(object) => object.values_mut().for_each(|part| open_in(part, schemas)),
        Value::Array(parts) => parts.iter_mut().for_each(|part| open_in(part, schemas)),
        _ => {}
    }
}
