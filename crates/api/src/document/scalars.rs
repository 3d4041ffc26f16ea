//! Ids, times and codes of bodies: each property has their schema in place, instead of a reference to it. So a property
//! has its own description and example, and clients get plain strings.

use serde_json::{Map, Value, json};

use super::{list, object, schemas};

/// Schemas that are put in place, by name.
fn scalar(name: &str) -> Option<Value> {
    Some(match name {
        "CampaignId" | "WebhookId" => {
            json!({"type": "string", "format": "uuid", "pattern": schemas::CAMPAIGN_ID})
        }
        "OrderId" | "ClaimId" => json!({"type": "string", "pattern": schemas::ORDER_ID}),
        "Timestamp" => json!({"type": "string", "format": "date-time"}),
        "Id" | "UserId" | "IdempotencyKey" | "Currency" | "WebhookSecret" => {
            json!({"type": "string"})
        }
        _ => return None,
    })
}

fn scalar_of(value: &Value) -> Option<Value> {
    scalar(
        value["$ref"]
            .as_str()?
            .strip_prefix("#/components/schemas/")?,
    )
}

/// Replaces references to scalars, and removes their schemas.
pub(super) fn inline(schemas: &mut Map<String, Value>) {
    schemas.retain(|name, _| scalar(name).is_none());
    schemas.values_mut().for_each(inline_in);
}

fn inline_in(value: &mut Value) {
    if let Some(scalar) = scalar_of(value) {
        let schema = object(value);
        schema.remove("$ref");
        schema.extend(scalar.as_object().cloned().unwrap_or_default());
        return;
    }
    let nullable = list(&value["oneOf"]).find_map(scalar_of);
    let is_null = list(&value["oneOf"]).any(|part| part["type"] == "null");
    if let (Some(mut scalar), true) = (nullable, is_null) {
        scalar["type"] = json!(["string", "null"]);
        let schema = object(value);
        schema.remove("oneOf");
        schema.extend(scalar.as_object().cloned().unwrap_or_default());
        return;
    }
    match value {
        Value::Object(object) => object.values_mut().for_each(inline_in),
        Value::Array(values) => values.iter_mut().for_each(inline_in),
        _ => {}
    }
}
