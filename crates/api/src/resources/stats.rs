//! Statistics of this node per second, for charts.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use qiang_wire::problem::Problem;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::{
    app::App,
    auth::{Caller, Scope},
    claims::queue_entries::{UNBUFFERED, accepts_stream, last_event_id},
    extract::Params,
    http::{client_address::LimitedOrigin, problem::ApiProblem},
    observe::last_minutes::StatsListBody,
};

/// First record of an answer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatsCursor {
    /// Number of the newest record that the caller has; `Last-Event-ID` takes precedence. A number that this process
    /// has not reached counts as 0.
    #[serde(default)]
    after: u32,
}

/// Statistics of this node for each of the last 300 seconds: claims by outcome, latency, and settlement lag.
///
/// The node samples them once a second, for all readers. With `Accept: text/event-stream` it is a stream: an event
/// `stats` with such a body at once and then once a second. A stream ends after a while, or because the service
/// stops: connect again, as browsers do automatically. `/metrics` has the same counters, since the start.
#[utoipa::path(get, path = "/v1/stats", tag = "operation",
    operation_id = "readStats", security(("bearer" = ["read:any"])),
    params(StatsCursor,
        ("Last-Event-ID" = Option<u32>, Header, description = "The number of the newest record that the caller has")),
    responses(
        (status = 200, description = "The statistics, or a stream of them", content(
            (StatsListBody = "application/json"), (String = "text/event-stream"))),
        (status = 403, body = Problem),
        (status = 429, description = "`too-many-streams`", body = Problem),
        (status = 503, description = "`overloaded`: too many clients watch already", body = Problem)))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Params(from): Params<StatsCursor>,
    headers: HeaderMap,
    origin: LimitedOrigin,
    caller: Caller,
) -> Result<Response, ApiProblem> {
    caller.require(Scope::ReadAny)?;
    let after = u64::from(last_event_id(&headers)?.unwrap_or(from.after));
    let caching = (header::CACHE_CONTROL, "no-store");
    if !accepts_stream(&headers) {
        let (stats, _) = app.last_minutes.after(after);
        return Ok(([caching], Json(stats)).into_response());
    }
    let permit = app
        .stream_limits
        .open(&app.watching.watchers, origin, Some(&caller))?;
    // The server closes a connection without requests after `server.idle_timeout_ms`.
    let lasts = Duration::from_millis(app.config.server.idle_timeout_ms / 2);
    let until = Instant::now() + lasts;
    let taken = app.last_minutes.taken();
    let events = stream::unfold((app, permit, taken, after, until), async |mut stream| {
        let (app, _, taken, told, until) = &mut stream;
        loop {
            taken.mark_unchanged();
            let (stats, last) = app.last_minutes.after(*told);
            if app.readiness.is_draining() || Instant::now() >= *until {
                return None;
            }
            if !stats.is_empty() {
                *told = last;
                // A struct of strings and numbers always serialises.
                let data = serde_json::to_string(&stats).ok()?;
                let text = format!("event: stats\nid: {told}\ndata: {data}\n\n");
                return Some((Ok::<_, Infallible>(text), stream));
            }
            timeout_at(*until, taken.changed()).await.ok()?.ok()?;
        }
    });
    let headers = [
        UNBUFFERED,
        (header::CONTENT_TYPE, "text/event-stream"),
        caching,
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}
