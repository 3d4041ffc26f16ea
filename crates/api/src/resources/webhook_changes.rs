//! Changes of webhooks and of their secrets.

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
    extract::{self, ObjectRequest, OptionalJson},
    http::{
        problem::ApiProblem,
        request_id::RequestId,
        wire::{Id, Text, nullable},
    },
    resources::webhooks::{
        changed, check_campaigns, check_limit, event_types, found, host_of, managed, secret,
        webhook_body,
    },
};

/// Overlap in seconds after a rotation, during which the previous secret stays in use: the default, and the maximum.
const OVERLAP_DEFAULT_S: u32 = 86_400;
const OVERLAP_MAX_S: u32 = 2_592_000;

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

/// A change of the secret.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = WebhookRotation)]
pub(crate) struct RotateRequest {
    /// Seconds during which events are also signed with the previous secret; default a day, at most 30 days.
    #[schema(minimum = 0, maximum = 2_592_000)]
    overlap_seconds: Option<u32>,
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
///
/// Changes, tests and repeated deliveries of one webhook have a limit per minute.
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
    let used = call.key_use("PATCH /v1/webhooks/{id}", &request);
    check_limit(&call.app, call.id.0, used.as_ref()).await?;
    let mut action = call.action(ActionKind::Change, &request.detail());
    if let Some(used) = used {
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

/// Gives a webhook a fresh secret. For a while, events are also signed with the previous one.
#[utoipa::path(post, path = "/v1/webhooks/{id}/secret", tag = "webhooks",
    operation_id = "rotateSecret", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    request_body = Option<RotateRequest>,
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 200, body = answers::Webhook), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn rotate(
    call: ObjectRequest<Id>,
    OptionalJson(request): OptionalJson<RotateRequest>,
) -> Result<Json<answers::Webhook>, ApiProblem> {
    managed(&call.app, &call.caller, call.id.0).await?;
    let overlap_s = request.overlap_seconds.unwrap_or(OVERLAP_DEFAULT_S);
    if overlap_s > OVERLAP_MAX_S {
        let detail = format!("the previous secret stays in use for at most {OVERLAP_MAX_S} s");
        return Err(ApiProblem::invalid_at("#/overlap_seconds", detail));
    }
    let used = call.key_use("POST /v1/webhooks/{id}/secret", &request);
    check_limit(&call.app, call.id.0, used.as_ref()).await?;
    let mut action = call.action(ActionKind::Change, &json!({ "overlap_seconds": overlap_s }));
    if let Some(used) = used {
        // A repetition under the key is the same action, so the ledger changes nothing.
        let binding = call.app.ports.ledger.bind_key(&used, action.id).await?;
        action.id = binding.id;
        if !binding.fresh {
            RequestId::mark_replay();
        }
    }
    let fresh = secret(&call.app)?;
    let until = action.at.plus_millis(i64::from(overlap_s) * 1_000);
    let ledger = &call.app.ports.ledger;
    let rotated = ledger.rotate_webhook(call.id.0, &fresh, until, Some(&action));
    changed(rotated.await?, &action)?;
    let record = found(&call.app, call.id.0).await?;
    Ok(Json(webhook_body(record, true)))
}
