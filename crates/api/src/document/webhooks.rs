//! Webhook events in the OpenAPI document.

use qiang_core::webhook::EventType;
use serde_json::{Map, Value, json};

use super::{examples, schemas, tags};

/// Part `webhooks` of the document: one entry per type of event.
pub(super) fn webhooks() -> Value {
    let types = EventType::ALL.iter();
    let described = types.map(|kind| (kind.name().to_owned(), json!({"post": operation(*kind)})));
    Value::Object(described.collect::<Map<_, _>>())
}

fn operation(kind: EventType) -> Value {
    let header = |name: &str, description: &str| {
        json!({"name": name, "in": "header", "required": true, "description": description,
            "schema": {"type": "string"}})
    };
    let description =
        "Signed as Standard Webhooks specifies. A repeated delivery has the same `webhook-id`.";
    json!({
        "operationId": operation_id(kind),
        "summary": summary(kind),
        "description": description,
        "tags": [tags::EVENTS],
        "security": [],
        "parameters": [
            header("webhook-id", "Id of the event, the same for each delivery"),
            header("webhook-timestamp", "Time of this attempt, in seconds since 1970"),
            header("webhook-signature", "One for each secret: `v1,` and HMAC-SHA256 of id, timestamp and body"),
        ],
        "requestBody": {"required": true, "content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/WebhookEvent"},
            "example": example(kind),
        }}},
        "responses": {
            "2XX": {"description": "Accepted. After any other answer, or none in time, the event is sent again."},
            "410": {"description": "The endpoint wants no further events, and is disabled."},
        },
    })
}

/// `onOrderHeld` for `order.held`.
fn operation_id(kind: EventType) -> String {
    let words = kind.name().split(['.', '_']);
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        format!("{}{rest}", first.to_uppercase())
    };
    format!("on{}", words.map(capital).collect::<String>())
}

fn summary(kind: EventType) -> &'static str {
    match kind {
        EventType::ShareGranted => "A user got a share of a red packet",
        EventType::OrderHeld => {
            "A user got an order of a sale, which holds its units. If it costs nothing, `order.paid` follows at once"
        }
        EventType::OrderPaid => "An order was paid",
        EventType::OrderCancelled => "Units of a held order were cancelled, all of them or some",
        EventType::OrderExpired => "An order was not paid in time",
        EventType::OrderHoldExtended => "The seller extended the hold of an order",
        EventType::OrderReturned => {
            "Units of a paid order were returned, all of them or some. A refund of what paid them is due to the buyer"
        }
        EventType::OrderRefundDue => {
            "A payment arrived that does not pay the order. A refund of it is due to the buyer"
        }
        EventType::OrderRefunded => "A refund due for an order was paid, in whole or in part",
        EventType::CampaignOpened => "A campaign was opened. It takes claims in its window",
        EventType::CampaignSoldOut => {
            "The last unit of a sale, or share of a red packet, was granted"
        }
        EventType::CampaignChanged => "A campaign was changed, paused or resumed",
        EventType::CampaignClosed => "A campaign was closed. The rest returned to its owner",
        EventType::Test => "An operator tests whether the endpoint answers",
    }
}

fn example(kind: EventType) -> Value {
    let money = json!({"amount": 10_000, "currency": "CNY"});
    let data = match kind {
        EventType::Test => json!({}),
        EventType::CampaignOpened | EventType::CampaignSoldOut => json!({
            "campaign": examples::CAMPAIGN, "kind": "sale", "owner": "sam",
        }),
        EventType::CampaignChanged => json!({
            "campaign": examples::CAMPAIGN, "kind": "sale", "owner": "sam", "change": "stock",
        }),
        EventType::CampaignClosed => json!({
            "campaign": examples::CAMPAIGN, "kind": "red_packet", "owner": examples::USER, "returned": 2,
            "refunded": money,
        }),
        EventType::ShareGranted => json!({
            "campaign": examples::CAMPAIGN, "kind": "red_packet", "owner": "sam", "number": 3,
            "user": examples::USER, "quantity": 1, "amount": money,
        }),
        EventType::OrderRefunded => json!({
            "campaign": examples::CAMPAIGN, "kind": "sale", "owner": "sam", "number": 3,
            "order": examples::ORDER, "user": examples::USER, "refunded": money, "payment": "refund-17",
        }),
        _ => json!({
            "campaign": examples::CAMPAIGN, "kind": "sale", "owner": "sam", "number": 3,
            "order": examples::ORDER, "user": examples::USER, "quantity": 1, "amount": money,
        }),
    };
    json!({"type": kind.name(), "timestamp": "2026-11-21T12:00:00.000Z", "data": data})
}

/// Schema of an event.
pub(super) fn event() -> Value {
    let money = json!({"$ref": "#/components/schemas/Money"});
    let text = json!({"type": "string"});
    let number = json!({"type": "integer", "format": "int64", "minimum": 0});
    json!({
        "type": "object",
        "description": "A settled change.",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": text,
            "timestamp": {"type": "string", "format": "date-time", "description": "Time of the decision."},
            "data": {
                "type": "object",
                "description": "Details of the event. Fields may be added.",
                "properties": {
                    "campaign": {"type": "string", "format": "uuid", "pattern": schemas::CAMPAIGN_ID},
                    "kind": {"type": "string", "enum": ["red_packet", "sale"]},
                    "owner": text, "number": number,
                    "order": {"type": "string", "pattern": schemas::ORDER_ID},
                    "user": text, "quantity": number, "amount": money, "payment": text, "reference": text,
                    "change": {"type": "string", "description": "stock, terms, paused or resumed."},
                    "returned": number, "refunded": money,
                },
            },
        },
    })
}
