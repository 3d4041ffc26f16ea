//! Webhooks: endpoints that are told what was settled. Scope `admin`.

use serde::Deserialize;
use serde_json::json;

use crate::{
    answers::{Webhook, WebhookTest},
    call::Call,
    client::Client,
    error::Error,
    ids::{WebhookId, encoded},
    requests::NewWebhook,
    values::Timestamp,
};

const ALL: &str = "/v1/webhooks";

#[derive(Deserialize)]
struct All {
    webhooks: Vec<Webhook>,
}

impl Client {
    /// Has an endpoint told what is settled from then on. The answer has the secret.
    ///
    /// # Errors
    /// `invalid` where the URL may be no endpoint; see [`Error`].
    pub async fn create_webhook(&self, webhook: &NewWebhook) -> Result<Webhook, Error> {
        self.json(Call::post(ALL).json(webhook)?.keyed(self)).await
    }

    /// All endpoints, and how they stand.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        let all: All = self.json(Call::get(ALL)).await?;
        Ok(all.webhooks)
    }

    /// An endpoint, and how it stands.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn webhook(&self, id: &WebhookId) -> Result<Webhook, Error> {
        self.json(Call::get(path(id, ""))).await
    }

    /// Deletes an endpoint.
    ///
    /// # Errors
    /// `not-found`, also where an attempt without an answer has deleted it; see [`Error`].
    pub async fn delete_webhook(&self, id: &WebhookId) -> Result<(), Error> {
        self.call(&Call::delete(path(id, ""))).await.map(drop)
    }

    /// Sends a `webhook.test` to an endpoint, and says what came of it. It may be sent several times.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn test_webhook(&self, id: &WebhookId) -> Result<WebhookTest, Error> {
        self.json(Call::post(path(id, "/test"))).await
    }

    /// Has an endpoint tried again at once, also one that is disabled; since a time, told once more what was decided
    /// from then on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn redrive_webhook(
        &self,
        id: &WebhookId,
        since: Option<Timestamp>,
    ) -> Result<Webhook, Error> {
        let body = json!({ "since": since });
        self.json(Call::post(path(id, "/redrive")).json(&body)?)
            .await
    }

    /// Gives an endpoint a fresh secret, which the answer has; for so many seconds, a day if there are none, requests
    /// are signed with the one before as well.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rotate_webhook_secret(
        &self,
        id: &WebhookId,
        overlap_seconds: Option<u32>,
    ) -> Result<Webhook, Error> {
        let body = json!({ "overlap_seconds": overlap_seconds });
        let call = Call::post(path(id, "/secret")).json(&body)?;
        self.json(call.keyed(self)).await
    }
}

fn path(id: &WebhookId, rest: &str) -> String {
    format!("{ALL}/{}{rest}", encoded(id.as_str()))
}
