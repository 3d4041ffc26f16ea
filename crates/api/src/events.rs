//! What those who watch a campaign see: its numbers, and of a red packet its draws, as they happen.
//!
//! A node looks at a watched campaign twice a second, once for all who watch it. Each of them has the newest view and
//! no queue: who reads slowly skips what lies between.

use std::{
    collections::VecDeque,
    convert::Infallible,
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    extract::State,
    http::{HeaderMap, header},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use qiang_core::{campaign::CampaignKind, id::CampaignId};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, MissedTickBehavior},
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    audience::Draws,
    campaign_cache::CampaignMeta,
    extract::{MaybeCaller, Param, Params},
    places::{KEEP_ALIVE, UNBUFFERED, accepts_stream},
    problem::{Problem, ProblemBody, ProblemKind},
    red_packets::ShareBody,
    watched::View,
    wire::StateBody,
};

/// How often a watched campaign is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Who does not ask for a stream waits at most so long for what is so now.
const NOW_MAX_MS: u64 = 2_000;
/// Draws that a view has: the newest.
const DRAWS_SHOWN: usize = 100;
/// Draws that are read at a time, and how often in one look.
const DRAWS_PAGE: u32 = 1_000;
const PAGES_PER_LOOK: usize = 5;

/// An event, as clients of server-sent events take it apart.
#[derive(ToSchema)]
#[schema(as = CampaignEvent)]
#[expect(dead_code, reason = "it stands in the OpenAPI document alone")]
struct EventBody {
    /// state or draws.
    event: &'static str,
    /// JSON: for `state` a State; for `draws` an object with `claims`, shares in the order of their numbers, and `gap`,
    /// which is true where there are others between these and what was told before. The list has them.
    data: String,
    /// With `draws`: the number of the newest draw.
    id: Option<String>,
}

/// What became of a red packet's shares since an earlier event.
#[derive(Debug, Serialize)]
struct DrawsBody<'a> {
    /// In the order of their numbers.
    claims: &'a [ShareBody],
    /// Whether there are others between these and what was told before: the list has them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gap: bool,
}

/// Looks at one campaign for all who watch it.
struct Watcher {
    app: Arc<App>,
    id: CampaignId,
    meta: Arc<CampaignMeta>,
    /// The number of the newest draw that was read.
    newest: u32,
    /// The newest draws, in their order.
    draws: Vec<ShareBody>,
    draws_wanted: Arc<AtomicUsize>,
}

impl Watcher {
    async fn run(mut self, views: watch::Sender<Arc<View>>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.app.readiness.is_draining() {
                // Without a sender the streams end.
                self.app.watched.forget(self.id);
                return;
            }
            if self.app.watched.forget_unwatched(self.id, &views) {
                return;
            }
            // Where engine or ledger does not answer, those who watch keep what they have.
            let before = Arc::clone(&views.borrow());
            if let Ok(Some(view)) = self.look(&before).await {
                views.send_replace(Arc::new(view));
            }
        }
    }

    /// The next view, if it differs from the one before.
    async fn look(&mut self, before: &View) -> Result<Option<View>, Problem> {
        let (app, id) = (&self.app, self.id);
        let Some(tally) = app.shared_tally(id).await? else {
            return Ok(None);
        };
        let state = StateBody::new(&tally, self.meta.window, app.ports.clock.now());
        let mut read = Vec::new();
        if self.draws_wanted.load(Ordering::Relaxed) > 0 {
            for _ in 0..PAGES_PER_LOOK {
                let grants = app.ports.ledger.grants(id, self.newest, DRAWS_PAGE).await?;
                let is_last = grants.len() < DRAWS_PAGE as usize;
                self.newest = grants.last().map_or(self.newest, |last| last.number);
                read.extend(grants);
                if is_last {
                    break;
                }
            }
        }
        if state.etag() == before.etag && read.is_empty() {
            return Ok(None);
        }
        let count = read.len();
        let shown = read.into_iter().skip(count.saturating_sub(DRAWS_SHOWN));
        self.draws
            .extend(shown.map(|grant| ShareBody::new(grant, self.meta.currency)));
        let too_many = self.draws.len().saturating_sub(DRAWS_SHOWN);
        self.draws.drain(..too_many);
        let fresh = &self.draws[self.draws.len() - count.min(DRAWS_SHOWN)..];
        Ok(Some(View {
            etag: state.etag(),
            state: json(&state),
            newest: self.newest,
            before: if count == 0 {
                before.before
            } else {
                before.newest
            },
            fresh: json(&DrawsBody {
                claims: fresh,
                gap: count > DRAWS_SHOWN,
            }),
            latest: json(&DrawsBody {
                claims: &self.draws,
                gap: true,
            }),
        }))
    }
}

/// Structs of texts and numbers always serialise.
fn json(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Which draws a stream begins with.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// The number of the newest draw that the caller has; `Last-Event-ID` counts more.
    #[serde(default)]
    after: u32,
}

/// A campaign as it happens: a stream of events, for whoever watches.
///
/// An event `state` has the campaign's numbers, at once and when they have changed, at most twice a second. To those
/// who may see the draws of a red packet an event `draws` has those that were settled since the one before. A stream
/// ends after a while, or because the service is going down: connect again, as browsers do by themselves. For a request
/// that does not accept `text/event-stream` by name it ends behind what is so now.
#[utoipa::path(get, path = "/v1/campaigns/{id}/events", tag = "campaigns", security(()),
    operation_id = "watchCampaign",
    params(("id" = String, Path, description = "The campaign's id"), From,
        ("Last-Event-ID" = Option<u32>, Header, description = "The number of the newest draw that the caller has")),
    responses((status = 200, description = "Events `state` and `draws`", body = EventBody,
            content_type = "text/event-stream"),
        (status = 401, description = "A token was sent, and does not hold", body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 503, description = "`overloaded`: too many watch already", body = ProblemBody)))]
pub(crate) async fn watch(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
    Params(from): Params<From>,
    headers: HeaderMap,
    MaybeCaller(caller): MaybeCaller,
) -> Result<Response, Problem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let with_draws = match (&caller, meta.kind) {
        (Some(caller), CampaignKind::RedPacket) => {
            let draws = meta
                .audience
                .as_ref()
                .map_or_else(Draws::default, |kept| kept.draws);
            app.may_see_draws(id, &meta.owner, draws, caller).await?
        }
        _ => false,
    };
    let permit = Arc::clone(&app.watchers).try_acquire_owned();
    let permit = permit.map_err(|_| Problem::from(ProblemKind::Overloaded))?;
    let last = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.unwrap_or(from.after);
    let watch = app.watched.watch(id, |views, draws_wanted| {
        let watcher = Watcher {
            app: Arc::clone(&app),
            id,
            meta,
            newest: after,
            draws: Vec::new(),
            draws_wanted,
        };
        tokio::spawn(watcher.run(views));
    });
    let draws = with_draws.then(|| Wanted::new(&watch.draws_wanted));
    let once = !accepts_stream(&headers);
    // A connection on which nothing is asked is closed after `server.idle_timeout_ms`.
    let lasts_ms = match once {
        true => NOW_MAX_MS,
        false => app.config.server.idle_timeout_ms / 2,
    };
    let stream = Stream {
        views: watch.views,
        is_first: true,
        once,
        told: Told {
            etag: String::new(),
            draw: after,
        },
        next: VecDeque::new(),
        until: Instant::now() + Duration::from_millis(lasts_ms),
        draws,
        _permit: permit,
    };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.event().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let headers = [UNBUFFERED, (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Sse::new(events).keep_alive(keep_alive)).into_response())
}

/// One more who watches the draws.
struct Wanted(Arc<AtomicUsize>);

impl Wanted {
    fn new(wanted: &Arc<AtomicUsize>) -> Self {
        wanted.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(wanted))
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a stream has told.
struct Told {
    etag: String,
    draw: u32,
}

/// One who watches.
struct Stream {
    views: watch::Receiver<Arc<View>>,
    is_first: bool,
    /// Whether it ends behind the first view.
    once: bool,
    told: Told,
    next: VecDeque<Event>,
    until: Instant,
    draws: Option<Wanted>,
    _permit: OwnedSemaphorePermit,
}

impl Stream {
    /// The next event; none at the end.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.next.pop_front() {
                return Some(event);
            }
            if self.once && !self.told.etag.is_empty() {
                return None;
            }
            if !mem::take(&mut self.is_first) {
                let changed = tokio::time::timeout_at(self.until, self.views.changed()).await;
                changed.ok()?.ok()?;
            }
            let view = Arc::clone(&self.views.borrow_and_update());
            self.tell(&view);
        }
    }

    fn tell(&mut self, view: &View) {
        if view.etag != self.told.etag {
            self.told.etag.clone_from(&view.etag);
            self.next
                .push_back(Event::default().event("state").data(&view.state));
        }
        if self.draws.is_some() && view.newest > self.told.draw {
            let draws = match self.told.draw == view.before {
                true => &view.fresh,
                false => &view.latest,
            };
            self.told.draw = view.newest;
            let event = Event::default().event("draws").id(view.newest.to_string());
            self.next.push_back(event.data(draws));
        }
    }
}
