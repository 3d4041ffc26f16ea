//! List of recorded events, for receivers that missed some.

use std::sync::Arc;

use axum::{extract::State, http::Uri, response::Response};
use qiang_core::webhook::WebhookEvent;
use qiang_wire::{answers::RecordedEvent, lists::RecordedEventList, problem::Problem};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Params,
    http::{
        paging::{PageQuery, PagedList},
        problem::ApiProblem,
    },
};

const EVENTS: PagedList = PagedList::new("events");

impl App {
    /// The event with the content that endpoints receive.
    fn recorded(&self, event: &WebhookEvent) -> Result<RecordedEvent, ApiProblem> {
        let content = self.webhook_sender()?.content(event);
        let content = content.and_then(|json| {
            RecordedEvent::from_content(&event.id, &json).map_err(|error| error.to_string())
        });
        content.map_err(ApiProblem::internal)
    }
}

/// Events of settled changes, in the order in which endpoints receive them.
///
/// Events are recorded while an endpoint subscribes to them, and kept for `webhooks.event_ttl_ms`. `id` is the
/// `webhook-id` of the deliveries, and the other fields are their body. `next` is present on each page: later events
/// follow it, and none is skipped.
#[utoipa::path(get, path = "/v1/events", tag = "webhooks", params(PageQuery),
    operation_id = "listEvents", security(("bearer" = ["read:any"])),
    responses((status = 200, body = RecordedEventList), (status = 403, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<PageQuery>,
) -> Result<Response, ApiProblem> {
    caller.require(Scope::ReadAny)?;
    let page = EVENTS.page::<i64>(list.after.as_ref(), list.limit)?;
    let after = page.after.unwrap_or_default();
    let mut events = app.ports.ledger.webhook_events(after, page.reads()).await?;
    let next = page.cut(&mut events, |event| event.place);
    let next = next
        .or(events.last().map(|event| event.place))
        .unwrap_or(after);
    let events: Result<Vec<_>, _> = events.iter().map(|event| app.recorded(event)).collect();
    Ok(page.answer(&uri, events?, Some(next), None))
}
