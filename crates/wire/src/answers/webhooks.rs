//! The bodies of answers about webhooks.

#[cfg(feature = "service")]
use serde_json::Map;
use serde_json::Value;

use crate::{
    bodies::bodies,
    ids::{CampaignId, Id, OrderId, UserId, WebhookId},
    values::{Timestamp, WebhookSecret},
    words::{WebhookDeliveryState, WebhookEventType, WebhookStatus},
};

bodies! {
    /// Endpoint that receives webhook events, and its delivery status.
    Webhook {
        /// Its id.
        id: WebhookId,
        /// URL to which events are posted.
        url: String,
        /// Types of events to deliver; empty for all types.
        types: Vec<WebhookEventType>,
        /// Campaigns whose events are delivered; empty for all campaigns.
        campaigns: Vec<CampaignId>,
        /// Sender or seller whose campaigns' events are delivered; absent for all.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<UserId>,
        /// Seller who made it and manages it; absent if operators do.
        #[serde(skip_serializing_if = "Option::is_none")]
        managed_by: Option<UserId>,
        /// Time of its creation.
        created_at: Timestamp,
        /// Delivery status.
        status: WebhookStatus,
        /// Upper bound of undelivered events.
        behind: u64,
        /// Events that failed, or follow a failed event of their order, and wait for a retry.
        waiting: u64,
        /// Time since which all deliveries fail.
        #[serde(skip_serializing_if = "Option::is_none")]
        failing_since: Option<Timestamp>,
        /// Failed attempts since then.
        attempts: u32,
        /// Error of the last failed attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_error: Option<String>,
        /// Time of the next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// Time since which deliveries are disabled.
        #[serde(skip_serializing_if = "Option::is_none")]
        disabled_at: Option<Timestamp>,
        /// Secret that signs requests; present only in the answer that creates or rotates it.
        #[serde(skip_serializing_if = "Option::is_none")]
        secret: Option<WebhookSecret>,
    }
    /// Recorded event, with the content that endpoints receive.
    RecordedEvent {
        /// Its id: the `webhook-id` of its deliveries.
        id: Id,
        /// Its type.
        r#type: WebhookEventType,
        /// Time of the decision.
        timestamp: Timestamp,
        /// Details. Fields may be added.
        #[cfg_attr(feature = "service", schema(value_type = Object))]
        data: Value,
    }
    /// Attempt to deliver an event to a webhook.
    WebhookDelivery {
        /// Its id.
        id: Id,
        /// Id of the event.
        event: Id,
        /// Type of the event.
        r#type: WebhookEventType,
        /// Campaign of the event.
        campaign: CampaignId,
        /// Order of the event.
        #[serde(skip_serializing_if = "Option::is_none")]
        order: Option<OrderId>,
        /// Time of the attempt.
        attempted_at: Timestamp,
        /// Milliseconds from connecting to the end of the answer.
        duration_ms: u64,
        /// Number of the attempt at this event, from 1.
        attempt: u32,
        /// State of the event after the attempt.
        state: WebhookDeliveryState,
        /// Status of the endpoint's answer; absent if it did not answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_status: Option<u16>,
        /// First characters of the answer's body, at most 256.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_body: Option<String>,
        /// Error of a failed attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Time of the next attempt.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_attempt_at: Option<Timestamp>,
    }
    /// Result of a test delivery.
    WebhookTest {
        /// Whether the endpoint answered 2xx in time.
        delivered: bool,
        /// Error of a failed delivery.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
}

#[cfg(feature = "service")]
impl RecordedEvent {
    /// Event with this id and this content.
    ///
    /// # Errors
    /// If the content is not that of an event.
    pub fn from_content(id: &str, content: &str) -> Result<Self, serde_json::Error> {
        let mut event: Map<String, Value> = serde_json::from_str(content)?;
        event.insert("id".to_owned(), id.into());
        serde_json::from_value(event.into())
    }
}

#[cfg(all(test, feature = "service"))]
mod tests {
    use super::*;

    #[test]
    fn event_with_the_content_of_no_event_is_an_error() {
        let event = r#"{"type":"order.paid","timestamp":"2026-11-11T12:00:00Z","data":{"a":1}}"#;
        let read = RecordedEvent::from_content("evt_1", event).unwrap();
        assert_eq!((read.id.as_str(), &read.data["a"]), ("evt_1", &1.into()));
        let named = r#"["evt_1","order.paid","2026-11-11T12:00:00Z",{}]"#;
        for content in ["", "null", "[]", "\"text\"", "1", "true", "{}", named] {
            assert!(
                RecordedEvent::from_content("evt_1", content).is_err(),
                "{content}"
            );
        }
    }
}
