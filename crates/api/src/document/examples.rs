//! Examples of requests and answers, built from the schemas. A property has the example of its annotation, of the
//! tables here, or of its type.

use serde_json::{Map, Value, json};

use super::list;

pub(super) const STRONG_TAG: &str = "\"0d3f51a86f4b2c19\"";
pub(super) const CAMPAIGN: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
pub(super) const ORDER: &str = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-3";
pub(super) const KEY: &str = "9f2c61d0-first-try";
pub(super) const TICKET: &str = "AZMsB45aejyfHit8XU5vgAAAAZMsB5cQ";
pub(super) const USER: &str = "alice";
pub(super) const PAYMENT: &str = "pay-8f3a";
pub(super) const ENTRY: &str = "0-17";
/// The order above, as a position in a list of orders.
pub(super) const CURSOR: &str = "b3JkZXJzOjM";
pub(super) const REQUEST_ID: &str = "6f0d3c5a2b7e4f18a9c4d1e0b3f25768";

/// Examples of one schema's properties. Nullable properties are left out, unless they are listed here.
fn example_for_one(schema: &str, property: &str) -> Option<Value> {
    Some(match (schema, property) {
        ("Order" | "Claim", "id") => json!(ORDER),
        ("RecordedEvent", "id") => json!("evt_0_17_72911ad586e51fe2186960b02fae742d"),
        ("RecordedEvent" | "WebhookDelivery", "type") => json!("order.paid"),
        ("WebhookDelivery", "event") => json!("evt_0_17_72911ad586e51fe2186960b02fae742d"),
        ("WebhookRedelivery", "given_up_since") => json!("2026-11-21T00:00:00.000Z"),
        ("WebhookChange", "url") => json!("https://hooks.example/qiang"),
        ("WebhookDelivery", "state") => json!("failed"),
        ("WebhookDelivery", "response_status") => json!(503),
        ("WebhookDelivery", "error") => json!("status 503"),
        ("Order", "object") => json!("order"),
        ("Claim", "object") => json!("claim"),
        ("PaymentRecord", "object") => json!("payment"),
        ("Deposit", "object") => json!("deposit"),
        ("Reversal", "object") => json!("reversal"),
        ("Withdrawal", "object") => json!("withdrawal"),
        ("Refund", "object") => json!("refund"),
        ("Refund", "reversed") => json!(false),
        ("Transfer", "object") => json!("transfer"),
        ("Transfer" | "NewTransfer", "to") => json!("bob"),
        ("RefundReversal", "object") => json!("refund_reversal"),
        ("Deposit", "reference") => json!(PAYMENT),
        ("RedPacket" | "ListedRedPacket", "object") => json!("red_packet"),
        ("Order" | "Claim", "ack") => json!("fsync"),
        ("Order", "hold_until") => json!("2026-11-21T12:15:00.000Z"),
        ("PaymentReport", "order") => json!(ORDER),
        ("PaymentRecord", "amount") => json!({"amount": 10_000, "currency": "CNY"}),
        ("PaymentRecord", "user") => json!(USER),
        (list, "next") if list.ends_with("List") => json!(CURSOR),
        (list, "settled") if list.ends_with("List") => json!(true),
        ("Refunds", "other_currencies") => json!([{
            "due": {"amount": 500, "currency": "USD"},
            "refunded": {"amount": 0, "currency": "USD"},
        }]),
        ("SaleChange", "stock") => json!(20),
        ("Sale" | "NewSale", "gallery") => json!(["https://cdn.example.com/phone-2.webp"]),
        (
            "Sale" | "RedPacket" | "ListedRedPacket" | "Order" | "NewSale" | "NewRedPacket"
            | "Metadata" | "MetadataChange",
            "reference",
        ) => json!("PO-4711"),
        ("NewSale" | "NewRedPacket" | "MetadataChange" | "Metadata", "unique_reference") => {
            json!(true)
        }
        ("Metadata", "object") => json!("order"),
        ("Metadata", "id") => json!(ORDER),
        ("NewOrder", "quantity") => json!(1),
        ("NewHoldExtension", "seconds") => json!(60),
        ("Credentials", "passphrase") => json!("芝麻开门"),
        ("NewInvitation", "expires_at") => json!("2026-11-22T12:00:00.000Z"),
        ("Place", "place") => json!(42),
        ("Place", "ahead") => json!(41),
        _ => return None,
    })
}

/// Examples of strings and numbers by property name, for any schema.
fn example_for_any(property: &str) -> Option<Value> {
    let hash = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";
    Some(match property {
        "title" => json!("恭喜发财"),
        "user" | "sender" | "seller" => json!(USER),
        "ticket" | "nonce" => json!(TICKET),
        "invitation" => json!("1795348800000.U2lnbmVkIGJ5IHRoZSBjYW1wYWlnbidzIG93biBrZXk"),
        "order" => json!(ORDER),
        "idempotency_key" => json!(KEY),
        "reference" => json!(PAYMENT),
        "metadata" => json!({"channel": "app"}),
        "commitment" | "server_seed_hash" => json!(hash),
        "phase" => json!("live"),
        "ack" => json!("fsync"),
        "cover" => json!("blossom"),
        "payment_policy" => json!("owed"),
        "rule" => json!("double_average"),
        "supply" | "stock" | "shares" => json!(10),
        "granted" | "number" => json!(3),
        "remaining" => json!(7),
        "returned"
        | "refunds_due"
        | "queue_length"
        | "settlement_lag"
        | "settlement_lag_entries"
        | "queue_entries"
        | "withheld" => json!(0),
        "hold_seconds" => json!(900),
        "amount" => json!(10_000),
        "currency" => json!("CNY"),
        "entry" => json!(ENTRY),
        "ends_at" => json!("2026-11-22T12:00:00.000Z"),
        _ => return None,
    })
}

/// Example that fits a schema, which may be a reference.
pub(super) fn example_for_schema(schema: &Value, schemas: &Map<String, Value>) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let null = Value::Null;
            example_for_named(name, schemas.get(name).unwrap_or(&null), schemas)
        }
        None => example_for_named("", schema, schemas),
    }
}

fn example_for_named(name: &str, schema: &Value, schemas: &Map<String, Value>) -> Value {
    if let Some(parts) = schema["allOf"].as_array() {
        let mut whole = Map::new();
        for part in parts {
            if let Value::Object(part) = example_for_schema(part, schemas) {
                whole.extend(part);
            }
        }
        return Value::Object(whole);
    }
    let fixed = [&schema["example"], &schema["default"], &schema["enum"][0]];
    if let Some(fixed) = fixed.into_iter().find(|value| !value.is_null()) {
        return fixed.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!(match schema["format"].as_str() {
            Some("date-time") => "2026-11-21T12:00:00.000Z",
            Some("uuid") => CAMPAIGN,
            _ => "text",
        }),
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1).max(1)),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        Some("array") => json!([example_for_schema(&schema["items"], schemas)]),
        _ => Value::Object(example_for_properties(name, schema, schemas)),
    }
}

fn example_for_properties(
    schema: &str,
    value: &Value,
    schemas: &Map<String, Value>,
) -> Map<String, Value> {
    let mut examples = Map::new();
    for (property, value) in value["properties"].as_object().into_iter().flatten() {
        let given = Some(&value["example"]).filter(|given| !given.is_null());
        let example = given.cloned().or_else(|| example_for_one(schema, property));
        let example = match example {
            None if may_be_null(value) => continue,
            None if is_word(value, schemas) || !value["additionalProperties"].is_null() => {
                example_for_any(property)
            }
            example => example,
        };
        let example = example.unwrap_or_else(|| example_for_schema(value, schemas));
        examples.insert(property.clone(), example);
    }
    examples
}

/// Whether it is a single string or number.
fn is_word(schema: &Value, schemas: &Map<String, Value>) -> bool {
    let named = schema["$ref"]
        .as_str()
        .and_then(|name| schemas.get(name.rsplit('/').next()?));
    let schema = named.unwrap_or(schema);
    schema["type"] == "string" || schema["type"] == "integer"
}

fn may_be_null(schema: &Value) -> bool {
    list(&schema["type"]).any(|it| it == "null")
        || list(&schema["oneOf"]).any(|part| part["type"] == "null")
}
