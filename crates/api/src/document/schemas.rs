//! Schemas: words as enums, forms of strings, bounds of numbers.

use qiang_core::{
    campaign::{HOLD_MS_MAX, TITLE_CHARS_MAX},
    id::{KEY_CHARS_MAX, PRODUCT_ID_CHARS_MAX, REFERENCE_CHARS_MAX, USER_ID_CHARS_MAX},
    money::AMOUNT_MINOR_MAX,
    outcome::Outcome,
    split::SHARES_MAX,
};
use qiang_wire::{problem::ProblemKind, words};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::object;

/// Visible ASCII characters.
pub(super) const VISIBLE: &str = "^[!-~]+$";
/// A user's id. The service refuses further invisible characters, which a pattern of all dialects cannot name.
pub(super) const USER: &str = "^[^\\s\\u0000-\\u001f\\u007f-\\u00a0\\u00ad]+$";
/// Idempotency key: plain, or a quoted string (RFC 9651) with escapes; 1 to 128 characters of content.
pub(super) const KEY: &str = r#"^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")$"#;
pub(super) const CAMPAIGN_ID: &str =
    "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$";
pub(super) const ORDER_ID: &str =
    "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-[1-9][0-9]{0,9}$";
/// The same in requests, where upper case is allowed.
pub(super) const ASKED_CAMPAIGN_ID: &str =
    "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$";
pub(super) const ASKED_ORDER_ID: &str = "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[0-9A-Fa-f]{4}-\
                                         [0-9A-Fa-f]{12}-[1-9][0-9]{0,9}$";
/// Cursor of a list, in base64url. Clients never look inside.
const CURSOR: &str = "^[A-Za-z0-9_-]+$";
/// Entry of a partition's log.
pub(super) const ENTRY_PLACE: &str = concat!(
    "^(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])",
    "-[1-9][0-9]{0,17}$"
);
/// Placeholder for a schema if a parameter is meant.
pub(super) const QUERY: &str = "?";
const HASH: &str = "^[0-9a-f]{64}$";

/// Enums of string properties: schema (empty: any), property, enum. The first match applies.
const WORDS: [(&str, &str, &str); 29] = [
    ("Action", "action", "ActionKind"),
    ("Place", "state", "PlaceState"),
    ("Posting", "account", "UserAccount"),
    ("Posting", "kind", "PostingKind"),
    (QUERY, "kind", "PostingKind"),
    (QUERY, "action", "ActionKind"),
    ("PaymentRecord", "outcome", "PaymentRecordOutcome"),
    ("", "phase", "Phase"),
    ("", "ack", "AckLevel"),
    ("", "cover", "Cover"),
    ("", "payment_policy", "PaymentPolicy"),
    ("", "rule", "SplitRuleName"),
    ("", "audience", "AudienceKind"),
    ("WebhookDelivery", "state", "WebhookDeliveryState"),
    ("", "state", "OrderState"),
    ("", "requirements", "Requirement"),
    ("Payment", "outcome", "PaymentOutcome"),
    ("Problem", "outcome", "RefusedOutcome"),
    ("Problem", "type", "ProblemType"),
    ("Problem", "offered", "AckLevel"),
    ("", "types", "WebhookEventType"),
    ("Webhook", "status", "WebhookStatus"),
    ("Readiness", "status", "ReadinessStatus"),
    ("PartitionReadiness", "status", "ReadinessStatus"),
    ("Partition", "status", "ReadinessStatus"),
    ("Repair", "result", "RepairResult"),
    ("Audit", "status", "AuditStatus"),
    ("NewSales", "mode", "BatchMode"),
    ("NewRedPackets", "mode", "BatchMode"),
];

/// Enums of bodies.
fn enums() -> Vec<(String, Value)> {
    fn named<T: ToSchema>() -> (String, Value) {
        // A schema of strings always serialises.
        (
            T::name().into_owned(),
            serde_json::to_value(T::schema()).unwrap_or_default(),
        )
    }
    let mut refused = Outcome::NAMES.to_vec();
    refused.retain(|name| !name.ends_with("granted"));
    let types: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.path()).collect();
    // Names for client generators, because a path is not a valid name.
    let slugs = ProblemKind::ALL.iter().map(|kind| kind.slug());
    let names: Vec<_> = slugs
        .map(|slug| slug.to_uppercase().replace('-', "_"))
        .collect();
    vec![
        named::<words::Phase>(),
        named::<words::AckLevel>(),
        named::<words::Cover>(),
        named::<words::PaymentPolicy>(),
        named::<words::SplitRuleName>(),
        named::<words::OrderState>(),
        named::<words::Requirement>(),
        named::<words::AudienceKind>(),
        named::<words::ActionKind>(),
        named::<words::PostingKind>(),
        named::<words::UserAccount>(),
        named::<words::PlaceState>(),
        named::<words::PaymentOutcome>(),
        named::<words::PaymentRecordOutcome>(),
        named::<words::ReadinessStatus>(),
        named::<words::WebhookEventType>(),
        named::<words::WebhookStatus>(),
        named::<words::WebhookDeliveryState>(),
        named::<words::RepairResult>(),
        named::<words::AuditStatus>(),
        named::<words::BatchMode>(),
        (
            "RefusedOutcome".to_owned(),
            json!({"type": "string", "description": "Outcome of a claim that was not granted.", "enum": refused}),
        ),
        (
            "ProblemType".to_owned(),
            json!({"type": "string", "description": "Type of the problem. It is stable, so clients may match on it.",
                "enum": types, "x-enum-varnames": names}),
        ),
    ]
}

pub(super) fn complete(schemas: &mut Map<String, Value>) {
    for (name, schema) in &mut *schemas {
        complete_properties(name, schema);
        for part in schema["allOf"].as_array_mut().into_iter().flatten() {
            complete_properties(name, part);
        }
        object(schema).retain(|_, value| !value.is_null());
    }
    schemas.extend(enums());
}

fn complete_properties(schema: &str, value: &mut Value) {
    let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (property, value) in properties {
        complete_property(schema, property, value);
        if property == "users" {
            complete_text(schema, "user", object(&mut value["items"]));
        }
        let new = schema.starts_with("New");
        if new && property == "amount" && value["type"] == "integer" {
            value["maximum"] = json!(AMOUNT_MINOR_MAX);
        }
    }
}

/// Completes a property of a schema, or a parameter; then the schema is [`QUERY`].
pub(super) fn complete_property(schema: &str, property: &str, value: &mut Value) {
    complete_number(value);
    complete_count(schema, property, value);
    if let Some(words) = words_of(schema, property) {
        name_words(value, words);
    }
    if is_text(value) {
        complete_text(schema, property, object(value));
    }
}

fn words_of(schema: &str, property: &str) -> Option<&'static str> {
    let fits =
        |row: &&(&str, &str, &str)| (row.0.is_empty() || row.0 == schema) && row.1 == property;
    WORDS.iter().find(fits).map(|row| row.2)
}

/// Replaces a string, or the strings of a list, by a reference to an enum.
fn name_words(value: &mut Value, words: &str) {
    let reference = json!({"$ref": format!("#/components/schemas/{words}")});
    if value.get("items").is_some() {
        value["items"] = reference;
    } else if value["type"] == "string" {
        object(value).retain(|key, _| key == "description");
        value["$ref"] = reference["$ref"].clone();
    } else if is_text(value) {
        object(value).retain(|key, _| key == "description");
        value["oneOf"] = json!([reference, {"type": "null"}]);
    }
}

/// Whether it is a string or a nullable string, and not an enum.
fn is_text(value: &Value) -> bool {
    let is_text = value["type"] == "string" || value["type"] == json!(["string", "null"]);
    is_text && value["enum"].is_null()
}

fn complete_text(schema: &str, property: &str, text: &mut Map<String, Value>) {
    let mut set = |key: &str, value: Value| {
        text.entry(key).or_insert(value);
    };
    let mut of = |pattern: &str, chars_max: usize| {
        set("pattern", json!(pattern));
        set("maxLength", json!(chars_max));
    };
    match property {
        "user" | "sender" | "seller" | "owner" => of(USER, USER_ID_CHARS_MAX),
        "reference" => of(VISIBLE, REFERENCE_CHARS_MAX),
        "idempotency_key" => of(VISIBLE, KEY_CHARS_MAX),
        "product_id" => of(VISIBLE, PRODUCT_ID_CHARS_MAX),
        "currency" => {
            set("format", json!("iso-4217"));
            set("pattern", json!("^[A-Z]{3}$"));
        }
        "order" => set("pattern", json!(ORDER_ID)),
        // Ids of deposits and audits. Those of other objects have their pattern already.
        "campaign" if schema == QUERY => set("pattern", json!(ASKED_CAMPAIGN_ID)),
        "id" if schema.starts_with("New") => set("pattern", json!(ASKED_CAMPAIGN_ID)),
        "id" if matches!(schema, "Order" | "Claim") => set("format", json!("order-id")),
        // That of a campaign or of an order.
        "id" if schema == "Metadata" => {}
        "id" | "deposit" if !matches!(schema, "CampaignEvent" | "RecordedEvent") => {
            set("format", json!("uuid"));
            set("pattern", json!(CAMPAIGN_ID));
        }
        "entry" => {
            set("format", json!("entry-place"));
            set("pattern", json!(ENTRY_PLACE));
        }
        "after" | "next" => {
            set("format", json!("cursor"));
            set("pattern", json!(CURSOR));
        }
        "commitment" | "client_seed" | "server_seed_hash" | "seed" => set("pattern", json!(HASH)),
        "title" if text.contains_key("maxLength") => {
            text.insert("minLength".to_owned(), json!(1));
            text.insert("maxLength".to_owned(), json!(TITLE_CHARS_MAX));
        }
        _ => {}
    }
}

/// Bounds of numbers that the service checks.
fn complete_count(schema: &str, property: &str, value: &mut Value) {
    let maximum = match property {
        "hold_seconds" => HOLD_MS_MAX / 1_000,
        "shares" => i64::from(SHARES_MAX),
        // Grants are numbered from 1.
        "number" | "per_user_limit" | "quantity" if schema != "Stats" => i64::from(u32::MAX),
        _ => return,
    };
    let is_number = value["type"] == "integer" || value["type"][0] == "integer";
    if is_number && value["format"] == "int64" {
        value["minimum"] = json!(1);
        value["maximum"] = json!(maximum);
    }
}

/// Non-negative numbers have 32 bits in Rust, which exceed the signed 32 bits of the format.
fn complete_number(value: &mut Value) {
    if value["format"] == "int32" && value.get("minimum").is_some() {
        value["format"] = json!("int64");
        if value.get("maximum").is_none() {
            value["maximum"] = json!(u32::MAX);
        }
    }
}
