//! What those who watch a campaign see: its numbers, and of a red packet its draws, as they happen.
//!
//! A node looks at a watched campaign twice a second, once for all who watch it. Each of them has the newest view and
//! no queue: who reads slowly skips what lies between. Where many watch, each is told less often.

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
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use utoipa::{IntoParams, ToSchema};

use crate::{
    app::App,
    audience::Draws,
    cache::{
        campaigns::CampaignMeta,
        watched::{self, Telling, View, Views},
    },
    claims::queue_entries::{UNBUFFERED, accepts_stream, last_event_id},
    extract::{MaybeCaller, Param, Params},
    http::{
        client_address::LimitedOrigin,
        problem::{Problem, ProblemBody},
        wire::{self, StateBody},
    },
    resources::red_packets::ShareBody,
};

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

/// Looks at one campaign for all who watch it.
struct Watcher {
    app: Arc<App>,
    id: CampaignId,
    meta: Arc<CampaignMeta>,
    /// The number of the newest draw that was read.
    newest: u32,
    /// The newest draws, in their order: numbers and JSON.
    draws: VecDeque<(u32, String)>,
    /// How the campaign was when it was looked at last.
    before: Option<Tally>,
}

impl Watcher {
    async fn run(mut self, views: Views) {
        loop {
            if self.app.readiness.is_draining() {
                // Without a sender the streams end.
                self.app.watched.forget(self.id);
                return;
            }
            if self.app.watched.forget_unwatched(self.id, &views) {
                return;
            }
            // Where engine or ledger does not answer, those who watch keep what they have.
            if let Ok(Some((view, is_turn))) = self.look(&views).await {
                views.show(view, is_turn);
            }
            sleep(self.app.watched.next_look()).await;
        }
    }

    /// The next view, if it differs from the one before, and whether nobody should wait for it.
    async fn look(&mut self, views: &Views) -> Result<Option<(View, bool)>, Problem> {
        let Some(tally) = self.app.shared_tally(self.id).await? else {
            return Ok(None);
        };
        let state = StateBody::new(&tally, self.meta.window, self.app.ports.engine_clock.now());
        let wanted = views.draws_wanted.load(Ordering::Relaxed) > 0;
        let has_new = wanted && self.read_draws(&tally).await?;
        let state = json(&state);
        let (before, etag) = (views.newest(), wire::etag(&state));
        let is_same = etag == before.etag;
        if is_same && !has_new {
            return Ok(None);
        }
        let is_turn = self
            .before
            .replace(tally)
            .is_none_or(|before| is_turn(&before, &tally));
        let view = View {
            state: format!("event: state\ndata: {state}\n\n"),
            etag,
            version: before.version + u64::from(!is_same),
            draws: watched::Draws::new(&self.draws),
        };
        Ok(Some((view, is_turn)))
    }

    /// Reads what was drawn since the last look. Returns whether there is anything.
    async fn read_draws(&mut self, tally: &Tally) -> Result<bool, Problem> {
        let ports = &self.app.ports;
        // Where more was drawn than is shown, the earlier of it is not read: as many as the ledger lags behind may be
        // of this campaign.
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
                let body = json(&ShareBody::new(grant, self.meta.currency));
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

/// Whether a campaign turned over: another phase, supply or number of withheld units, the last unit went, or some are
/// back.
fn is_turn(before: &Tally, now: &Tally) -> bool {
    before.phase != now.phase
        || before.supply != now.supply
        || before.withheld != now.withheld
        || (before.remaining == 0) != (now.remaining == 0)
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
/// An event `state` has the campaign's numbers, at once and when they have changed, at most twice a second, and the
/// less often the more watch the node: each of 1,000 every two seconds or so, and of however many within five seconds.
/// A new phase, a new supply, the last unit that goes and the first that is back do not wait for that. To those who may
/// see the draws of a red packet an event `draws` has those that were settled since the one before. A stream ends after
/// a while, or because the service is going down: connect again, as browsers do by themselves. For a request that does
/// not accept `text/event-stream` by name it ends behind what is so now.
#[utoipa::path(get, path = "/v1/campaigns/{id}/events", tag = "campaigns", security(()),
    operation_id = "watchCampaign",
    params(("id" = String, Path, description = "The campaign's id"), From,
        ("Last-Event-ID" = Option<u32>, Header, description = "The number of the newest draw that the caller has")),
    responses((status = 200, description = "Events `state` and `draws`", body = EventBody,
            content_type = "text/event-stream"),
        (status = 401, description = "A token was sent, and does not hold", body = ProblemBody),
        (status = 404, body = ProblemBody),
        (status = 429, description = "`too-many-streams`", body = ProblemBody),
        (status = 503, description = "`overloaded`: too many watch already", body = ProblemBody)))]
pub(crate) async fn watch(
    State(app): State<Arc<App>>,
    Param(id): Param<CampaignId>,
    Params(from): Params<From>,
    headers: HeaderMap,
    origin: LimitedOrigin,
    MaybeCaller(caller): MaybeCaller,
) -> Result<Response, Problem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    let with_draws = match (&caller, meta.kind) {
        (Some(caller), CampaignKind::RedPacket) => {
            let draws = meta
                .audience
                .as_deref()
                .map_or_else(Draws::default, |kept| kept.draws);
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
            // One watcher's number says nothing about what the others have.
            newest: 0,
            draws: VecDeque::new(),
            before: None,
        };
        tokio::spawn(watcher.run(views));
    });
    let wanted = with_draws.then(|| Wanted::new(&watch.draws_wanted));
    let once = !accepts_stream(&headers);
    // A connection on which nothing is asked is closed after `server.idle_timeout_ms`.
    let lasts_ms = match once {
        true => NOW_MAX_MS,
        false => app.config.server.idle_timeout_ms / 2,
    };
    let until = Instant::now() + Duration::from_millis(lasts_ms);
    let telling = Telling::new(watch, app.watching.clone(), after, until)
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
