//! Webhooks: endpoints that receive events of settled changes. Scope `admin`, or `campaigns:write` for a seller's own
//! ones. Also recorded events.

use futures_util::Stream;
use serde_json::json;

use crate::{
    answers::{RecordedEvent, Webhook, WebhookDelivery, WebhookTest},
    call::RepeatableCall,
    client::Client,
    error::Error,
    ids::{OrderId, WebhookId},
    lists::List,
    paths::{encoded, query_of},
    requests::{NewWebhook, WebhookChange},
    values::Timestamp,
    words::WebhookDeliveryState,
};

const ALL: &str = "/v1/webhooks";
const EVENTS: &str = "/v1/events";

/// Filter of attempts to deliver events. Fields that are `None` accept all attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryFilter {
    /// Attempts at this event. Not together with `order`.
    pub event: Option<String>,
    /// Attempts at events of this order.
    pub order: Option<OrderId>,
    /// Attempts that left their event in this state.
    pub state: Option<WebhookDeliveryState>,
}

impl DeliveryFilter {
    fn query(&self) -> String {
        let given = [
            ("event", self.event.as_deref().map(encoded)),
            ("order", self.order.as_ref().map(|it| encoded(it.as_str()))),
            ("state", self.state.map(|it| it.to_string())),
        ];
        query_of(given.into_iter())
    }
}

/// Events to deliver once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRedelivery {
    /// The event with this id.
    Event(String),
    /// All events that were given up from this time on, unless a later attempt succeeded.
    GivenUpSince(Timestamp),
}

impl Client {
    /// Creates an endpoint for changes settled from now on. The answer has the secret.
    ///
    /// # Errors
    /// `invalid` if the URL is not allowed; see [`Error`].
    pub async fn create_webhook(&self, webhook: &NewWebhook) -> Result<Webhook, Error> {
        self.json(RepeatableCall::post(ALL).json(webhook)?.keyed(self))
            .await
    }

    /// Endpoints with their delivery status: a seller's own ones, or all.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        let all: List<Webhook> = self.json(RepeatableCall::get(ALL)).await?;
        Ok(all.data)
    }

    /// Recorded events after a cursor; without one, from the oldest that is kept. `next` of the answer is the cursor of
    /// the events after these. Read until `data` is empty, keep `next`, and read again later: no event is skipped.
    /// Scope `read:any`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn recorded_events(&self, after: Option<&str>) -> Result<List<RecordedEvent>, Error> {
        let path = match after {
            None => EVENTS.to_owned(),
            Some(after) => format!("{EVENTS}?after={}", encoded(after)),
        };
        self.json(RepeatableCall::get(path)).await
    }

    /// Endpoint with its delivery status.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn webhook(&self, id: &WebhookId) -> Result<Webhook, Error> {
        self.json(RepeatableCall::get(path(id, ""))).await
    }

    /// Changes an endpoint, for deliveries from then on.
    ///
    /// # Errors
    /// `invalid` if the URL is not allowed; see [`Error`].
    pub async fn change_webhook(
        &self,
        id: &WebhookId,
        change: &WebhookChange,
    ) -> Result<Webhook, Error> {
        let call = RepeatableCall::patch(path(id, "")).json(change)?;
        self.json(call.keyed(self)).await
    }

    /// Deletes an endpoint.
    ///
    /// # Errors
    /// `not-found`, also if an earlier attempt without an answer has deleted it; see [`Error`].
    pub async fn delete_webhook(&self, id: &WebhookId) -> Result<(), Error> {
        self.call(&RepeatableCall::delete(path(id, "")))
            .await
            .map(drop)
    }

    /// Sends a `webhook.test` event to an endpoint, and returns the result. Retries may send it several times.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn test_webhook(&self, id: &WebhookId) -> Result<WebhookTest, Error> {
        self.json(RepeatableCall::post(path(id, "/test"))).await
    }

    /// Retries deliveries to an endpoint at once, even if it is disabled. With `since`, events decided from then on are
    /// delivered again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn redrive_webhook(
        &self,
        id: &WebhookId,
        since: Option<Timestamp>,
    ) -> Result<Webhook, Error> {
        let body = json!({ "since": since });
        self.json(RepeatableCall::post(path(id, "/redrive")).json(&body)?)
            .await
    }

    /// Attempts to deliver events to an endpoint, newest first. The stream loads one page after another as it is read.
    pub fn webhook_deliveries(
        &self,
        id: &WebhookId,
        filter: &DeliveryFilter,
    ) -> impl Stream<Item = Result<WebhookDelivery, Error>> + Send + use<> {
        self.pages(&path(id, "/deliveries"), &filter.query())
    }

    /// Delivers events once more, at once, even if the endpoint is disabled.
    ///
    /// # Errors
    /// `not-found` if the log of the endpoint has no attempt at the event; see [`Error`].
    pub async fn redeliver_events(
        &self,
        id: &WebhookId,
        events: &EventRedelivery,
    ) -> Result<Webhook, Error> {
        let body = match events {
            EventRedelivery::Event(event) => json!({ "event": event }),
            EventRedelivery::GivenUpSince(since) => json!({ "given_up_since": since }),
        };
        let call = RepeatableCall::post(path(id, "/redeliver")).json(&body)?;
        self.json(call.keyed(self)).await
    }

    /// Creates a new secret for an endpoint; the answer has it. For `overlap_seconds`, by default a day, requests are
    /// also signed with the previous secret.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rotate_webhook_secret(
        &self,
        id: &WebhookId,
        overlap_seconds: Option<u32>,
    ) -> Result<Webhook, Error> {
        let body = json!({ "overlap_seconds": overlap_seconds });
        let call = RepeatableCall::post(path(id, "/secret")).json(&body)?;
        self.json(call.keyed(self)).await
    }
}

fn path(id: &WebhookId, rest: &str) -> String {
    format!("{ALL}/{}{rest}", encoded(id.as_str()))
}
