//! Events of a campaign for watchers: its numbers and, for a red packet, its draws, as they change.
//!
//! A node reads a watched campaign twice a second, once for all its watchers. Each watcher gets the newest view and
//! has no queue: a slow reader skips the views between. With many watchers, each gets events less often.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use qiang_core::{
    campaign::{CampaignKind, Tally},
    id::CampaignId,
};
use qiang_wire::problem::Problem;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    audience::DrawVisibility,
    cache::{
        campaigns::AnswerFields,
        watched_campaigns::{self, CampaignView, CampaignViews, EventStream},
    },
    claims::queue_entries::{UNBUFFERED, accepts_stream, last_event_id},
    extract::{MaybeCaller, Param, Params},
    http::{client_address::LimitedOrigin, grant_bodies::settled_claim, problem::ApiProblem, wire},
};

/// Longest wait in milliseconds of a client that requests the present state only, without a stream.
const NOW_MAX_MS: u64 = 2_000;
/// Newest draws that a view has.
const DRAWS_SHOWN: usize = 100;
/// Draws per read, and the maximum number of reads per view.
const DRAWS_PAGE: u32 = 1_000;
const PAGES_PER_LOOK: usize = 5;

/// An event, in the fields of server-sent events.
#[derive(ToSchema)]
#[schema(as = CampaignEvent)]
#[expect(dead_code, reason = "only the OpenAPI document uses it")]
struct EventBody {
    /// state or draws.
    event: &'static str,
    /// JSON. For `state` a State. For `draws` an object with `claims`, shares ordered by number, and `gap`, which is
    /// true if shares are missing between these and the last event. The list of claims has them.
    data: String,
    /// With `draws`: the number of the newest draw.
    id: Option<String>,
}

/// Reads one campaign for all its watchers.
struct Watcher {
    app: Arc<App>,
    id: CampaignId,
    meta: Arc<AnswerFields>,
    /// Number of the newest draw that was read.
    newest: u32,
    /// Newest draws in order: numbers and JSON.
    draws: VecDeque<(u32, String)>,
    /// Numbers of the campaign at the last read.
    before: Option<Tally>,
}

impl Watcher {
    async fn run(mut self, views: CampaignViews) {
        loop {
            if self.app.readiness.is_draining() {
                // Without a sender, the streams end.
                self.app.watched.forget(self.id);
                return;
            }
            if self.app.watched.forget_unwatched(self.id, &views) {
                return;
            }
            // If the engine or the ledger does not answer, watchers keep the last view.
            if let Ok(Some((view, is_turn))) = self.look(&views).await {
                views.show(view, is_turn);
            }
            sleep(self.app.watched.next_look()).await;
        }
    }

    /// The next view, if it differs from the last one, and whether it is a turn.
    async fn look(
        &mut self,
        views: &CampaignViews,
    ) -> Result<Option<(CampaignView, bool)>, ApiProblem> {
        let Some(tally) = self.app.shared_tally(self.id).await? else {
            return Ok(None);
        };
        let state = wire::state_body(&tally, self.meta.window, self.app.ports.engine_clock.now());
        let wanted = views.draws_wanted.load(Ordering::Relaxed) > 0;
        let has_new = wanted && self.read_draws(&tally).await?;
        let (before, etag) = (views.newest(), wire::etag(&state));
        let state = json(&state);
        let is_same = etag == before.etag;
        if is_same && !has_new {
            return Ok(None);
        }
        let is_turn = self
            .before
            .replace(tally)
            .is_none_or(|before| is_turn(&before, &tally));
        let view = CampaignView {
            state: format!("event: state\ndata: {state}\n\n"),
            etag,
            version: before.version + u64::from(!is_same),
            draws: watched_campaigns::DrawsJson::new(&self.draws),
        };
        Ok(Some((view, is_turn)))
    }

    /// Reads the draws since the last read. Returns whether there are any.
    async fn read_draws(&mut self, tally: &Tally) -> Result<bool, ApiProblem> {
        let ports = &self.app.ports;
        // If there are more draws than a view shows, older ones are skipped. All entries that are not settled may
        // belong to this campaign, so that many more are read.
        let (entries, settled) = ports.gauges.positions();
        let unread = entries.saturating_sub(settled) + DRAWS_SHOWN as u64;
        let skipped = u32::try_from(tally.granted.saturating_sub(unread)).unwrap_or(u32::MAX);
        let behind = self.newest;
        let mut after = behind.max(skipped);
        for _ in 0..PAGES_PER_LOOK {
            let grants = ports.ledger.grants(self.id, after, DRAWS_PAGE).await?;
            let is_last = grants.len() < DRAWS_PAGE as usize;
            let shown = grants.len().saturating_sub(DRAWS_SHOWN);
            for grant in grants.into_iter().skip(shown) {
                after = grant.number;
                self.newest = after;
                let body = json(&settled_claim(self.id, grant, self.meta.currency));
                self.draws.push_back((after, body));
            }
            if is_last {
                break;
            }
        }
        let too_many = self.draws.len().saturating_sub(DRAWS_SHOWN);
        self.draws.drain(..too_many);
        Ok(self.newest > behind)
    }
}

/// Whether a change is a turn: another phase, supply or number of withheld units, the last unit claimed, or units
/// available again.
fn is_turn(before: &Tally, now: &Tally) -> bool {
    before.phase != now.phase
        || before.supply != now.supply
        || before.withheld != now.withheld
        || (before.remaining == 0) != (now.remaining == 0)
}

/// Structs of strings and numbers always serialise.
fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// First draw of a stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FirstDraw {
    /// Number of the newest draw that the caller has; `Last-Event-ID` takes precedence.
    #[serde(default)]
    after: u32,
}

/// Stream of a campaign's events.
///
/// An event `state` has the campaign's numbers. It is sent at once and after changes, at most twice a second. With
/// more watchers on the node it is sent less often: with 1,000 about every two seconds, with more at least every five
/// seconds. A new phase, a new supply, the last unit claimed and units available again do not wait.
///
/// An event `draws` has the draws of a red packet that were settled since the last one. Only callers who may see the
/// draws receive it. A stream ends after a while, or because the service stops: connect again, as browsers do
/// automatically. For a request whose `Accept` does not name `text/event-stream`, it ends after the present state.
#[utoipa::path(get, path = "/v1/campaigns/{id}/events", tag = "campaigns", security(()),
    operation_id = "watchCampaign",
    params(("id" = String, Path, description = "The campaign's id"), FirstDraw,
        ("Last-Event-ID" = Option<u32>, Header, description = "The number of the newest draw that the caller has")),
    responses((status = 200, description = "Events `state` and `draws`", body = EventBody,
            content_type = "text/event-stream"),
        (status = 401, description = "A token was sent, but it is not valid", body = Problem),
        (status = 404, body = Problem),
        (status = 429, description = "`too-many-streams`", body = Problem),
        (status = 503, description = "`overloaded`: too many clients watch already", body = Problem)))]
pub(crate) async fn watch(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
    Params(from): Params<FirstDraw>,
    headers: HeaderMap,
    origin: LimitedOrigin,
    MaybeCaller(caller): MaybeCaller,
) -> Result<Response, ApiProblem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let with_draws = match (&caller, meta.kind) {
        (Some(caller), CampaignKind::RedPacket) => {
            let draws = meta
                .audience
                .as_deref()
                .map_or_else(DrawVisibility::default, |kept| kept.draws);
            app.may_see_draws(id, &meta.owner, draws, caller).await?
        }
        _ => false,
    };
    let after = last_event_id(&headers)?.unwrap_or(from.after);
    let permit = app
        .stream_limits
        .open(&app.watching.watchers, origin, caller.as_ref())?;
    let watch = app.watched.watch(id, |views| {
        let watcher = Watcher {
            app: Arc::clone(&app),
            id,
            meta,
            // Starts at 0, because other watchers may need earlier draws than the first one.
            newest: 0,
            draws: VecDeque::new(),
            before: None,
        };
        tokio::spawn(watcher.run(views));
    });
    let wanted = with_draws.then(|| DrawWatcher::new(&watch.draws_wanted));
    let once = !accepts_stream(&headers);
    // The server closes a connection without requests after `server.idle_timeout_ms`.
    let lasts_ms = match once {
        true => NOW_MAX_MS,
        false => app.config.server.idle_timeout_ms / 2,
    };
    let until = Instant::now() + Duration::from_millis(lasts_ms);
    let telling = EventStream::new(watch, app.watching.clone(), after, until)
        .with_draws(with_draws)
        .once(once);
    let events = stream::unfold((telling, permit, wanted), async |mut stream| {
        let text = stream.0.next().await?;
        Some((Ok::<_, Infallible>(text), stream))
    });
    let headers = [
        UNBUFFERED,
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// Counts one watcher of the draws.
struct DrawWatcher(Arc<AtomicUsize>);

impl DrawWatcher {
    fn new(wanted: &Arc<AtomicUsize>) -> Self {
        wanted.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(wanted))
    }
}

impl Drop for DrawWatcher {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
