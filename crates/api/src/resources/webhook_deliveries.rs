//! Deliveries to webhooks: the log of attempts, and events to deliver once more.

use std::sync::Arc;

use axum::{http::Uri, response::Response};
use qiang_core::{
    id::OrderId,
    ports::ActionKind,
    webhook::{AttemptQuery, AttemptState, DeliveryAttempt, Redelivery, WAITING_EVENTS_MAX},
};
use qiang_wire::{
    answers, ids,
    lists::WebhookDeliveryList,
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use crate::{
    extract::{self, ObjectRequest, Params},
    http::{
        paging::{Cursor, PagedList},
        problem::{ApiProblem, NoAnswer},
        wire::{Id, Rfc3339, Text, ToWire as _},
    },
    resources::{
        operation_log,
        stored_answer::CommandTry,
        webhooks::{check_limit, found, managed, missing, webhook_body},
    },
};

const DELIVERIES: PagedList = PagedList::new("webhook_deliveries");
/// Maximum characters of an event's id.
const EVENT_CHARS_MAX: usize = 96;

const NO_EVENT_ID: &str = "an event's id is 1 to 96 visible ASCII characters";

/// Whether a text may be the id of an event.
fn is_event_id(text: &str) -> bool {
    (1..=EVENT_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// State that attempts are filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptStateFilter {
    /// The endpoint accepted the event.
    Delivered,
    /// The attempt failed, and another one follows.
    Failed,
    /// The attempt failed, and no other one follows.
    GivenUp,
}

/// Filter and page of attempts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryListQuery {
    /// Attempts at the event with this id, which is its `webhook-id`. Not together with `order`.
    event: Option<String>,
    /// Attempts at events of this order.
    #[param(value_type = Option<String>)]
    order: Option<Text<OrderId>>,
    /// Attempts that left their event in this state.
    #[param(inline)]
    state: Option<AttemptStateFilter>,
    /// Attempts after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Events to deliver once more: one, or all that were given up.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookRedelivery)]
pub(crate) struct RedeliveryRequest {
    /// Id of an event that the log has an attempt at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 96)]
    event: Option<String>,
    /// All events that were given up from this time on, unless a later attempt succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    given_up_since: Option<Rfc3339>,
}

impl RedeliveryRequest {
    fn events(&self) -> Result<Redelivery, ApiProblem> {
        match (&self.event, self.given_up_since) {
            (Some(event), None) if !is_event_id(event) => {
                Err(ApiProblem::invalid_at("#/event", NO_EVENT_ID))
            }
            (Some(event), None) => Ok(Redelivery::Event(event.clone())),
            (None, Some(since)) => Ok(Redelivery::GivenUp(since.0)),
            _ => Err(ApiProblem::invalid(
                "give one of `event` and `given_up_since`",
            )),
        }
    }
}

impl From<AttemptStateFilter> for AttemptState {
    fn from(filter: AttemptStateFilter) -> Self {
        match filter {
            AttemptStateFilter::Delivered => Self::Delivered,
            AttemptStateFilter::Failed => Self::Failed,
            AttemptStateFilter::GivenUp => Self::GivenUp,
        }
    }
}

fn delivery_body(attempt: DeliveryAttempt) -> answers::WebhookDelivery {
    let subject = attempt.subject;
    let number = subject.number.filter(|_| attempt.kind.is_of_order());
    let order = number.and_then(|number| u32::try_from(number).ok());
    let order = order.map(|number| OrderId {
        campaign: subject.campaign,
        number,
    });
    answers::WebhookDelivery {
        id: attempt.id.to_wire(),
        event: ids::Id::from_service(&attempt.event),
        r#type: attempt.kind.to_wire(),
        campaign: subject.campaign.to_wire(),
        order: order.map(|order| order.to_wire()),
        attempted_at: attempt.at.to_wire(),
        duration_ms: attempt.duration_ms.max(0).unsigned_abs(),
        attempt: attempt.attempt,
        state: attempt.state.to_wire(),
        response_status: attempt.status,
        response_body: attempt.body,
        error: attempt.error,
        next_attempt_at: attempt.next_at.map(|at| at.to_wire()),
    }
}

/// Attempts to deliver events to a webhook, newest first.
///
/// The log has every attempt of the last `webhooks.attempt_ttl_ms`, also of events that were delivered. The state of an
/// event is that of its last attempt. `response_body` has the first characters of the endpoint's answer. Test events
/// are not logged.
#[utoipa::path(get, path = "/v1/webhooks/{id}/deliveries", tag = "webhooks",
    operation_id = "listDeliveries", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    params(("id" = String, Path, description = "The webhook's id"), DeliveryListQuery),
    responses((status = 200, body = WebhookDeliveryList), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn list(
    call: ObjectRequest<Id>,
    uri: Uri,
    Params(list): Params<DeliveryListQuery>,
) -> Result<Response, ApiProblem> {
    managed(&call.app, &call.caller, call.id.0).await?;
    let page = DELIVERIES.page::<Id>(list.after.as_ref(), list.limit)?;
    if list.event.is_some() && list.order.is_some() {
        let detail = "an event belongs to one order: give one of `event` and `order`";
        return Err(ApiProblem::bad_request(detail).in_parameter("order"));
    }
    if list
        .event
        .as_deref()
        .is_some_and(|event| !is_event_id(event))
    {
        return Err(ApiProblem::bad_request(NO_EVENT_ID).in_parameter("event"));
    }
    let query = AttemptQuery {
        webhook: call.id.0,
        event: list.event,
        order: list.order.map(|it| it.0),
        state: list.state.map(AttemptState::from),
        before: page.after.as_ref().map(|Id(after)| *after),
        limit: page.reads(),
    };
    let ledger = &call.app.ports.ledger;
    let mut attempts = ledger.delivery_attempts(&query).await?;
    let next = page.cut(&mut attempts, |attempt| Id(attempt.id));
    let attempts: Vec<_> = attempts.into_iter().map(delivery_body).collect();
    Ok(page.answer(&uri, attempts, next, None))
}

/// Delivers one event once more, or all events that were given up.
///
/// The events are due at once, even if the webhook is disabled. An event that is sent again may come after later events
/// of its order. At most 500 events of a webhook wait at a time: repeat the request, with another key, for the rest.
/// A repetition with the same key acts only if the first request was not carried out.
#[utoipa::path(post, path = "/v1/webhooks/{id}/redeliver", tag = "webhooks",
    operation_id = "redeliverEvents", security(("bearer" = ["campaigns:write"]), ("bearer" = ["admin"])),
    request_body = RedeliveryRequest,
    params(("id" = String, Path, description = "The webhook's id")),
    responses((status = 200, body = answers::Webhook), (status = 403, body = Problem),
        (status = 404, description = "There is no such webhook, or its log has no attempt at the event",
            body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn redeliver(
    call: ObjectRequest<Id>,
    extract::Json(request): extract::Json<RedeliveryRequest>,
) -> Result<Response, ApiProblem> {
    let (app, id) = (Arc::clone(&call.app), call.id.0);
    let record = managed(&app, &call.caller, id).await?;
    let events = request.events()?;
    let is_full = record.waiting >= WAITING_EVENTS_MAX;
    let full =
        || format!("{WAITING_EVENTS_MAX} events wait already: repeat it once some are delivered");
    let used = call.key_use("POST /v1/webhooks/{id}/redeliver", &request);
    // The first try of a bound key may have filled the room.
    if is_full && !app.is_bound(used.as_ref()).await? {
        return Err(ApiProblem::invalid(full()));
    }
    check_limit(&app, id, used.as_ref()).await?;
    let redeliver = move |begun: CommandTry| async move {
        let detail = json!({ "event": request.event, "given_up_since": request.given_up_since });
        // A retry is the same action, so the ledger changes nothing.
        let action = call.action_tried(&begun, ActionKind::Redrive, &detail);
        let made = || call.app.recorded_action(&action.subject, action.id);
        if is_full && made().await?.is_none() {
            return Err(ApiProblem::new(ProblemKind::Overloaded, full()));
        }
        let ledger = &call.app.ports.ledger;
        match ledger.redeliver(id, &events, Some(&action)).await? {
            None => return Err(missing()),
            Some(0) if matches!(events, Redelivery::Event(_)) && made().await?.is_none() => {
                let detail = "the webhook's log has no attempt at this event";
                return Err(ApiProblem::new(ProblemKind::NotFound, detail));
            }
            Some(_) => operation_log::log(&action),
        }
        let record = found(&call.app, id).await?;
        Ok(webhook_body(record, false))
    };
    app.once_by_id(used, redeliver).await
}
