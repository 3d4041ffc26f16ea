//! Changes of webhooks.

use axum::Json;
use qiang_core::{
    id::{CampaignId, UserId},
    ports::ActionKind,
    webhook::WebhookChange,
};
use qiang_wire::{answers, problem::Problem};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    extract::{self, ObjectRequest},
    http::{
        problem::ApiProblem,
        request_id::RequestId,
        wire::{Id, Text, nullable},
    },
    resources::webhooks::{
        changed, check_campaigns, event_types, found, host_of, managed, webhook_body,
    },
};

/// Changes of a webhook. Absent fields do not change.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookChange)]
pub(crate) struct ChangeRequest {
    /// New URL of the endpoint: `https:` with a host on the public internet. Events that wait for a retry are due at
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048)]
    url: Option<String>,
    /// Types of events that it receives; empty for all types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!(["order.held", "order.paid"]))]
    types: Option<Vec<String>>,
    /// Campaigns of events that it receives, at most 100; empty for all campaigns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>, max_items = 100)]
    campaigns: Option<Vec<Text<CampaignId>>>,
    /// Sender or seller of the campaigns of events that it receives; null for all.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    owner: Option<Option<Text<UserId>>>,
    /// Whether events are delivered. An endpoint that is enabled again receives the events since it was disabled, as
    /// far as they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

impl ChangeRequest {
    fn change(&self) -> Result<WebhookChange, ApiProblem> {
        let types = self.types.as_deref().map(event_types).transpose()?;
        if let Some(campaigns) = &self.campaigns {
            check_campaigns(campaigns)?;
        }
        let campaigns = self.campaigns.as_ref();
        let owner = self.owner.as_ref();
        let change = WebhookChange {
            url: self.url.clone(),
            types,
            campaigns: campaigns.map(|all| all.iter().map(|id| id.0).collect()),
            owner: owner.map(|owner| owner.as_ref().map(|owner| owner.0.clone())),
            is_enabled: self.enabled,
        };
        match change.is_empty() {
            true => Err(ApiProblem::invalid("there is nothing to change")),
            false => Ok(change),
        }
    }

    /// Detail for the operation log. It has only the host of the URL, because the path may hold a secret.
    fn detail(&self) -> Value {
        // A struct of strings always serialises.
        let mut detail = serde_json::to_value(self).unwrap_or_default();
        if let Some(url) = &self.url {
            detail["url"] = json!({ "host": host_of(url) });
        }
        detail
    }
}

/// Changes a webhook.
///
/// The change applies to deliveries from then on, also to events that wait for a retry. Requests as before may still
/// arrive for 5 seconds and `webhooks.timeout_ms`. The secret has an operation of its own.
#[utoipa::path(patch, path = "/v1/webhooks/{id}", tag = "webhooks", request_body = ChangeRequest,
    operation_id = "changeWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The webhook's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the change is made once")),
    responses((status = 200, body = answers::Webhook), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn change(
    call: ObjectRequest<Id>,
    extract::Json(request): extract::Json<ChangeRequest>,
) -> Result<Json<answers::Webhook>, ApiProblem> {
    let record = managed(&call.app, &call.caller, call.id.0).await?;
    let change = request.change()?;
    let seller = record.webhook.managed_by;
    if seller.is_some() && change.owner.as_ref().is_some_and(|owner| *owner != seller) {
        let detail = "a seller's webhook receives events of the seller's own campaigns alone";
        return Err(ApiProblem::invalid_at("#/owner", detail));
    }
    if let (Some(url), Some(webhooks)) = (&change.url, &call.app.ports.webhooks) {
        let checked = webhooks.sender.check_url(url);
        checked.map_err(|why| ApiProblem::invalid_at("#/url", why))?;
    }
    let mut action = call.action(ActionKind::Change, &request.detail());
    if let Some(used) = call.key_use("PATCH /v1/webhooks/{id}", &request) {
        // A repetition under the key is the same action, so the ledger changes nothing.
        let binding = call.app.ports.ledger.bind_key(&used, action.id).await?;
        action.id = binding.id;
        if !binding.fresh {
            RequestId::mark_replay();
        }
    }
    let ledger = &call.app.ports.ledger;
    let made = ledger.change_webhook(call.id.0, &change, action.at, Some(&action));
    changed(made.await?, &action)?;
    let record = found(&call.app, call.id.0).await?;
    Ok(Json(webhook_body(record, false)))
}
