//! Webhooks: endpoints that receive notices of settled changes.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode, response::Response};
use qiang_core::{
    id::{CampaignId, UserId},
    ports::{Action, ActionKind, KeyUse, WebhookSender},
    time::Timestamp,
    web_url,
    webhook::{
        DeliveryProgress, EventType, FILTER_CAMPAIGNS_MAX, Filter, SELLER_WEBHOOKS_MAX,
        WEBHOOKS_MAX, Webhook, WebhookEvent, WebhookRecord,
    },
};
use qiang_wire::{
    answers, ids,
    lists::WebhookList,
    problem::{Problem, ProblemKind},
    words::WebhookStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{self, ObjectRequest, OptionalJson, RequestKey},
    http::{
        problem::ApiProblem,
        wire::{self, Id, Location, Rfc3339, Text, ToWire as _},
    },
    idempotency::fingerprint::key_use,
    resources::{changes::timestamp_of, operation_log, stored_answer::CommandTry},
};

/// An endpoint that receives events.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewWebhook)]
pub(crate) struct WebhookRequest {
    /// URL of the endpoint: `https:` with a host on the public internet.
    #[schema(example = "https://hooks.example/qiang", max_length = 2048)]
    url: String,
    /// Types of events that it receives; empty for all types.
    #[serde(default)]
    #[schema(example = json!(["order.held", "order.paid"]))]
    types: Vec<String>,
    /// Campaigns of events that it receives, at most 100; empty for all campaigns.
    #[serde(default)]
    #[schema(value_type = Vec<String>, example = json!([]), max_items = 100)]
    campaigns: Vec<Text<CampaignId>>,
    /// Sender or seller of the campaigns of events that it receives. Without the scope `admin` it is the caller.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    owner: Option<Text<UserId>>,
}

/// Events to deliver again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = WebhookRedrive)]
pub(crate) struct RedriveRequest {
    /// Start of the events to deliver, by time of decision, as far as events are kept. Default: those not delivered
    /// yet.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Rfc3339>,
}

/// Types with these names, each once.
pub(super) fn event_types(names: &[String]) -> Result<Vec<EventType>, ApiProblem> {
    let mut types = Vec::with_capacity(names.len());
    for name in names {
        match EventType::settled().find(|one| one.name() == name) {
            Some(one) if !types.contains(&one) => types.push(one),
            Some(_) => {}
            None => {
                let names: Vec<_> = EventType::settled().map(EventType::name).collect();
                let detail = format!("a type is one of {}", names.join(", "));
                return Err(ApiProblem::invalid_at("#/types", detail));
            }
        }
    }
    Ok(types)
}

/// Refuses too many campaigns in a filter.
pub(super) fn check_campaigns(campaigns: &[Text<CampaignId>]) -> Result<(), ApiProblem> {
    match campaigns.len() > FILTER_CAMPAIGNS_MAX {
        true => {
            let detail = format!("a filter names at most {FILTER_CAMPAIGNS_MAX} campaigns");
            Err(ApiProblem::invalid_at("#/campaigns", detail))
        }
        false => Ok(()),
    }
}

/// Host of a URL, for the operation log: the path may hold a secret.
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = web_url::parse(url).ok()?;
    url.host_str().map(str::to_owned)
}

impl WebhookRequest {
    fn filter(&self) -> Result<Filter, ApiProblem> {
        let types = event_types(&self.types)?;
        check_campaigns(&self.campaigns)?;
        Ok(Filter {
            types,
            campaigns: self.campaigns.iter().map(|id| id.0).collect(),
            owner: self.owner.as_ref().map(|owner| owner.0.clone()),
        })
    }

    /// Detail for the operation log.
    fn detail(&self) -> Value {
        let host = host_of(&self.url);
        let campaigns: Vec<_> = self.campaigns.iter().map(|id| id.0.to_string()).collect();
        let owner = self.owner.as_ref().map(|owner| owner.0.as_str());
        json!({ "host": host, "types": self.types, "campaigns": campaigns, "owner": owner })
    }
}

pub(super) fn webhook_body(record: WebhookRecord, with_secret: bool) -> answers::Webhook {
    let (behind, next_attempt) = (record.behind(), record.next_attempt());
    let WebhookRecord {
        webhook,
        progress,
        waiting,
        ..
    } = record;
    let status = match (progress.disabled_at, progress.failing_since) {
        (None, None) => WebhookStatus::Ok,
        (None, Some(_)) => WebhookStatus::Failing,
        (Some(_), _) => WebhookStatus::Disabled,
    };
    let DeliveryProgress {
        failing_since,
        attempts,
        last_error,
        disabled_at,
        ..
    } = progress;
    let campaigns = webhook.filter.campaigns.into_iter();
    answers::Webhook {
        id: ids::WebhookId::from_service(&webhook.id),
        url: webhook.url,
        types: webhook
            .filter
            .types
            .iter()
            .map(|one| one.to_wire())
            .collect(),
        campaigns: campaigns.map(|id| id.to_wire()).collect(),
        owner: webhook.filter.owner.map(|owner| owner.to_wire()),
        managed_by: webhook.managed_by.map(|seller| seller.to_wire()),
        created_at: webhook.created_at.to_wire(),
        status,
        behind,
        waiting,
        failing_since: failing_since.map(|at| at.to_wire()),
        attempts,
        last_error,
        retry_at: next_attempt
            .filter(|_| disabled_at.is_none())
            .map(|at| at.to_wire()),
        disabled_at: disabled_at.map(|at| at.to_wire()),
        secret: with_secret.then(|| webhook.secret.into()),
    }
}

pub(super) async fn found(app: &App, id: Uuid) -> Result<WebhookRecord, ApiProblem> {
    let mut records = app.ports.ledger.webhooks().await?.into_iter();
    let found = records.find(|record| record.webhook.id == id);
    found.ok_or_else(missing)
}

/// A webhook that the caller may manage: an own one, or as an operator any. For other callers it does not exist.
pub(super) async fn managed(
    app: &App,
    caller: &Caller,
    id: Uuid,
) -> Result<WebhookRecord, ApiProblem> {
    let record = found(app, id).await?;
    if caller.may(Scope::Admin) {
        return Ok(record);
    }
    if record.webhook.managed_by.as_ref() != Some(&caller.user) {
        if caller.may(Scope::ReadAny) {
            caller.require(Scope::Admin)?;
        }
        return Err(missing());
    }
    caller.require(Scope::CampaignsWrite)?;
    Ok(record)
}

/// Refuses a change of a webhook above its limit. A repetition under a bound key stores nothing, so it is not counted.
pub(super) async fn check_limit(
    app: &App,
    id: Uuid,
    used: Option<&KeyUse>,
) -> Result<(), ApiProblem> {
    match app.is_bound(used).await? {
        true => Ok(()),
        false => app.limits.check_webhook_change(id),
    }
}

impl WebhookRequest {
    /// Seller who will manage the webhook; `None` for an operator. A seller receives events of own campaigns alone.
    fn manager(&self, caller: &Caller) -> Result<Option<UserId>, ApiProblem> {
        if caller.may(Scope::Admin) {
            return Ok(None);
        }
        let owner = self.owner.as_ref().map(|Text(owner)| owner);
        if owner.is_some_and(|owner| *owner != caller.user) {
            caller.require(Scope::Admin)?;
        }
        caller.require(Scope::CampaignsWrite)?;
        Ok(Some(caller.user.clone()))
    }
}

pub(super) fn missing() -> ApiProblem {
    ApiProblem::new(ProblemKind::NotFound, "there is no such webhook")
}

/// Logs an action; a problem if there was no webhook.
pub(super) fn changed(was_there: bool, action: &Action) -> Result<(), ApiProblem> {
    if !was_there {
        return Err(missing());
    }
    operation_log::log(action);
    Ok(())
}

impl App {
    /// Sender of webhook events.
    ///
    /// # Errors
    /// If this process has none.
    pub(crate) fn webhook_sender(&self) -> Result<&dyn WebhookSender, ApiProblem> {
        let webhooks = self.ports.webhooks.as_ref();
        let absent = || ApiProblem::unavailable("this process sends no webhooks");
        webhooks
            .map(|webhooks| &*webhooks.sender)
            .ok_or_else(absent)
    }
}

pub(super) fn secret(app: &App) -> Result<String, ApiProblem> {
    let sender = app.webhook_sender()?;
    sender.fresh_secret().map_err(ApiProblem::internal)
}

/// Creates a webhook: an endpoint that receives events.
///
/// It receives every event that is settled from then on and fits its filter, at least once. Events of one order arrive
/// in order. The answer has the secret that signs the requests.
///
/// A seller's webhook receives the events of the seller's own campaigns alone, and the seller manages it. A seller may
/// have 5 webhooks.
#[utoipa::path(post, path = "/v1/webhooks", tag = "webhooks", request_body = WebhookRequest,
    operation_id = "createWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    responses((status = 201, body = answers::Webhook),
        (status = 200, description = "Created before", body = answers::Webhook),
        (status = 403, body = Problem),
        (status = 404, description = "The key is that of a webhook that was deleted", body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    RequestKey(key): RequestKey,
    extract::Json(request): extract::Json<WebhookRequest>,
) -> Result<(StatusCode, Location, Json<answers::Webhook>), ApiProblem> {
    let managed_by = request.manager(&caller)?;
    let (mut filter, detail) = (request.filter()?, request.detail());
    filter.owner = managed_by.clone().or(filter.owner);
    let secret = secret(&app)?;
    if let Some(webhooks) = &app.ports.webhooks {
        let checked = webhooks.sender.check_url(&request.url);
        checked.map_err(|why| ApiProblem::invalid_at("#/url", why))?;
    }
    let ledger = &app.ports.ledger;
    let used = key.map(|key| key_use(&caller.user, "POST /v1/webhooks", &key, "", &request));
    let bound = match &used {
        Some(used) => ledger.bound_key(used).await?,
        None => None,
    };
    // Read before the list: a webhook that is missing in the list then was deleted.
    let was_made = match bound {
        Some(id) => !ledger.actions(&id.to_string(), None, 1).await?.is_empty(),
        None => false,
    };
    let records = ledger.webhooks().await?;
    let has_room = WebhookRecord::has_room(&records, managed_by.as_ref());
    let mut records = records.into_iter();
    if let Some(record) = records.find(|record| bound == Some(record.webhook.id)) {
        if managed_by.is_some() && record.webhook.managed_by != managed_by {
            return Err(missing());
        }
        let body = webhook_body(record, true);
        return Ok((wire::created(false), None, Json(body)));
    }
    if was_made {
        let detail = "the webhook of this idempotency key was deleted";
        return Err(ApiProblem::new(ProblemKind::NotFound, detail));
    }
    let max = match managed_by {
        Some(_) => SELLER_WEBHOOKS_MAX,
        None => WEBHOOKS_MAX,
    };
    let too_many = || {
        let detail = format!("the limit of {max} webhooks is reached, or that of all sellers");
        ApiProblem::invalid(detail)
    };
    // Checked before the key is bound, so that a refusal does not use it.
    if bound.is_none() && !has_room {
        return Err(too_many());
    }
    if let Some(seller) = managed_by.as_ref().filter(|_| bound.is_none()) {
        app.limits.check_webhook_creation(seller)?;
    }
    let id = match &used {
        Some(used) => ledger.bind_key(used, app.fresh_id()).await?.id,
        None => app.fresh_id(),
    };
    let webhook = Webhook {
        id,
        url: request.url,
        secret,
        previous_secret: None,
        filter,
        managed_by,
        created_at: app.ports.clock.now(),
    };
    let action = app.action(&caller.user, ActionKind::Create, id, &detail);
    if !ledger.add_webhook(&webhook, Some(&action)).await? {
        return Err(too_many());
    }
    operation_log::log(&action);
    let body = webhook_body(found(&app, id).await?, true);
    let status = wire::created(true);
    let location = wire::location(status, || format!("/v1/webhooks/{id}"));
    Ok((status, location, Json(body)))
}

/// Webhooks and their status: the caller's own ones, and with the scope `admin` all.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks",
    operation_id = "listWebhooks", security(("bearer" = ["campaigns:write"])),
    responses((status = 200, body = WebhookList), (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<WebhookList>, ApiProblem> {
    caller.require(Scope::CampaignsWrite)?;
    let records = app.ports.ledger.webhooks().await?.into_iter();
    let sees_all = caller.may(Scope::Admin);
    let is_own = |record: &WebhookRecord| record.webhook.managed_by.as_ref() == Some(&caller.user);
    let records = records.filter(|record| sees_all || is_own(record));
    let webhooks = records.map(|record| webhook_body(record, false));
    Ok(Json(WebhookList::whole(webhooks.collect())))
}

/// A webhook and its status.
#[utoipa::path(get, path = "/v1/webhooks/{id}", tag = "webhooks",
    operation_id = "getWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 200, body = answers::Webhook), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn get(call: ObjectRequest<Id>) -> Result<Json<answers::Webhook>, ApiProblem> {
    let record = managed(&call.app, &call.caller, call.id.0).await?;
    Ok(Json(webhook_body(record, false)))
}

/// Deletes a webhook. Requests may still arrive for 5 seconds and `webhooks.timeout_ms`.
#[utoipa::path(delete, path = "/v1/webhooks/{id}", tag = "webhooks",
    operation_id = "deleteWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 204, description = "Deleted"), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn delete(call: ObjectRequest<Id>) -> Result<StatusCode, ApiProblem> {
    managed(&call.app, &call.caller, call.id.0).await?;
    let action = call.action(ActionKind::Delete, &json!({}));
    let deleted = (call.app.ports.ledger).delete_webhook(call.id.0, Some(&action));
    changed(deleted.await?, &action)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a `webhook.test` to an endpoint at once, and reports the result.
///
/// A repetition with the same key sends nothing. If the first answer was lost before it was stored, it sends the same
/// event again, with the same `webhook-id`.
#[utoipa::path(post, path = "/v1/webhooks/{id}/test", tag = "webhooks",
    operation_id = "testWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 200, body = answers::WebhookTest), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn test(call: ObjectRequest<Id>) -> Result<Response, ApiProblem> {
    let app = Arc::clone(&call.app);
    let webhook = managed(&app, &call.caller, call.id.0).await?.webhook;
    let used = call.key_use("POST /v1/webhooks/{id}/test", &());
    check_limit(&app, call.id.0, used.as_ref()).await?;
    let send = move |begun: CommandTry| async move {
        let app = &call.app;
        // A retry sends the event of the first try, so the endpoint knows it by its id.
        let event = WebhookEvent::test(begun.id, timestamp_of(begun.id));
        let now = app.ports.clock.now();
        let sent = app.webhook_sender()?.send(&webhook, &event, now).await;
        Ok(answers::WebhookTest {
            delivered: sent.is_ok(),
            error: sent.err().map(|failure| failure.reason),
        })
    };
    app.once_by_id(used, send).await
}

/// Makes an endpoint's next attempt due at once, even if it is disabled.
///
/// With `since`, events that were decided from then on are delivered again. A repetition with the same key acts only if
/// the first request was not carried out.
#[utoipa::path(post, path = "/v1/webhooks/{id}/redrive", tag = "webhooks",
    operation_id = "redriveWebhook", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    request_body = Option<RedriveRequest>,
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 200, body = answers::Webhook), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
pub(crate) async fn redrive(
    call: ObjectRequest<Id>,
    OptionalJson(request): OptionalJson<RedriveRequest>,
) -> Result<Response, ApiProblem> {
    let (app, id) = (Arc::clone(&call.app), call.id.0);
    let used = call.key_use("POST /v1/webhooks/{id}/redrive", &request);
    match app.is_bound(used.as_ref()).await? {
        true => call.caller.require(Scope::CampaignsWrite)?,
        false => {
            managed(&app, &call.caller, id).await?;
            app.limits.check_webhook_change(id)?;
        }
    }
    let redrive = move |begun: CommandTry| async move {
        if begun.is_retry {
            managed(&call.app, &call.caller, id).await?;
        }
        let detail = json!({ "since": request.since });
        // A retry is the same action, so the ledger changes nothing.
        let action = call.action_tried(&begun, ActionKind::Redrive, &detail);
        let since: Option<Timestamp> = request.since.map(|since| since.0);
        let ledger = &call.app.ports.ledger;
        let redriven = ledger.redrive_webhook(id, since, Some(&action));
        changed(redriven.await?, &action)?;
        let record = found(&call.app, id).await?;
        Ok(webhook_body(record, false))
    };
    app.once_by_id(used, redrive).await
}
