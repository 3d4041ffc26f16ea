//! Watched campaigns: the view of each at its last read, and the event stream of each watcher.
//!
//! A node sends about [`EVENTS_PER_S`] events a second, however many clients watch. With more watchers, more time
//! passes between two events for one of them, up to [`PACE_MAX`]. A turn, a change that watchers should see at once,
//! does not wait for that pace.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use qiang_core::id::CampaignId;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout_at},
};

/// Time without an event after which a stream sends a keep-alive comment.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Shortest time between two reads of a watched campaign, and between two events for one watcher.
const PACE_MIN: Duration = Duration::from_millis(500);
/// Longest time between two events for one watcher. A slot may add a quarter of it.
const PACE_MAX: Duration = Duration::from_secs(4);
/// Events that a node sends per second to all watchers together.
const EVENTS_PER_S: usize = 500;
/// Campaigns that a node reads per second.
const LOOKS_PER_S: usize = 500;
/// Offset of one watcher's slot from that of the watcher before, as a fraction of a pace. Multiples of the golden
/// ratio are spread evenly for any number of watchers.
const SHIFT: f64 = 0.618_034;
const KEPT_ALIVE: Bytes = Bytes::from_static(b":\n\n");

/// Time between two turns of one of `count`, so that all together have at most `per_s` turns a second.
fn pace(count: usize, per_s: usize) -> Duration {
    let millis = count.saturating_mul(1_000) / per_s;
    Duration::from_millis(millis as u64).clamp(PACE_MIN, PACE_MAX)
}

/// A campaign at its last read. The event texts are written once for all watchers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CampaignView {
    /// Event with the numbers.
    pub(crate) state: String,
    /// Entity tag of the numbers, without the time.
    pub(crate) etag: String,
    /// How often the numbers have changed; 0 before the first read.
    pub(crate) version: u64,
    /// Newest draws, ordered by number.
    pub(crate) draws: DrawsJson,
}

/// Draws of a red packet: JSON objects separated by commas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DrawsJson {
    json: String,
    /// Number of each draw, and its offset in `json`.
    starts: Vec<(u32, usize)>,
}

impl DrawsJson {
    /// Draws from pairs of number and JSON, ordered by number.
    pub(crate) fn new<'a>(draws: impl IntoIterator<Item = &'a (u32, String)>) -> Self {
        let mut all = Self::default();
        for (number, json) in draws {
            if !all.json.is_empty() {
                all.json.push(',');
            }
            all.starts.push((*number, all.json.len()));
            all.json.push_str(json);
        }
        all
    }

    /// Event with the draws after number `told`, and the newest number; `None` if there are none.
    fn behind(&self, told: u32) -> Option<(String, u32)> {
        let (newest, _) = *self.starts.last()?;
        let first = self.starts.partition_point(|(number, _)| *number <= told);
        let (_, start) = *self.starts.get(first)?;
        // Draws are missing between `told` and these, or among these.
        let gap = match (newest - told) as usize > self.starts.len() - first {
            true => r#","gap":true"#,
            false => "",
        };
        let claims = &self.json[start..];
        let event = format!("event: draws\nid: {newest}\ndata: {{\"claims\":[{claims}]{gap}}}\n\n");
        Some((event, newest))
    }
}

/// Campaigns that have a watcher on this node.
#[derive(Debug, Default)]
pub(crate) struct WatchedCampaigns(Mutex<HashMap<CampaignId, ViewReceivers>>);

/// Receivers for the views of one campaign.
#[derive(Debug, Clone)]
pub(crate) struct ViewReceivers {
    views: watch::Receiver<Arc<CampaignView>>,
    /// Signals changes that must not wait for the pace.
    turns: watch::Receiver<()>,
    /// Number of watchers that want draws too.
    pub(crate) draws_wanted: Arc<AtomicUsize>,
}

/// Sender of the views of one campaign. When it is dropped, the streams of its watchers end.
#[derive(Debug)]
pub(crate) struct CampaignViews {
    views: watch::Sender<Arc<CampaignView>>,
    turns: watch::Sender<()>,
    pub(crate) draws_wanted: Arc<AtomicUsize>,
}

impl CampaignViews {
    pub(crate) fn newest(&self) -> Arc<CampaignView> {
        Arc::clone(&self.views.borrow())
    }

    /// Publishes a view; if `is_turn`, watchers get it at once.
    pub(crate) fn show(&self, view: CampaignView, is_turn: bool) {
        self.views.send_replace(Arc::new(view));
        if is_turn {
            self.turns.send_replace(());
        }
    }
}

impl WatchedCampaigns {
    /// Receiver for the views of a campaign. For the first watcher, `start` gets the sender and starts the reads.
    pub(crate) fn watch(&self, id: CampaignId, start: impl FnOnce(CampaignViews)) -> ViewReceivers {
        let mut watched = self.0.lock();
        if let Some(watch) = watched.get(&id) {
            return watch.clone();
        }
        let (to_views, views) = watch::channel(Arc::default());
        let (to_turns, turns) = watch::channel(());
        let draws_wanted = Arc::default();
        start(CampaignViews {
            views: to_views,
            turns: to_turns,
            draws_wanted: Arc::clone(&draws_wanted),
        });
        let watch = ViewReceivers {
            views,
            turns,
            draws_wanted,
        };
        watched.insert(id, watch.clone());
        watch
    }

    /// Time until the next read of a campaign.
    pub(crate) fn next_look(&self) -> Duration {
        pace(self.0.lock().len(), LOOKS_PER_S)
    }

    /// Removes a campaign that has no watcher. Returns whether it was removed.
    pub(crate) fn forget_unwatched(&self, id: CampaignId, views: &CampaignViews) -> bool {
        let mut watched = self.0.lock();
        // The map itself keeps one receiver.
        let is_unwatched = views.views.receiver_count() <= 1;
        if is_unwatched {
            watched.remove(&id);
        }
        is_unwatched
    }

    /// Removes a campaign, even if it has watchers.
    pub(crate) fn forget(&self, id: CampaignId) {
        self.0.lock().remove(&id);
    }
}

/// Number of watchers of all campaigns on this node.
#[derive(Debug, Clone)]
pub(crate) struct WatchGuard {
    /// Each watcher takes one permit.
    pub(crate) watchers: Arc<Semaphore>,
    max: usize,
    /// Start of slot counting.
    since: Instant,
}

impl WatchGuard {
    /// Limit of `max` watchers.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            watchers: Arc::new(Semaphore::new(max)),
            max,
            since: Instant::now(),
        }
    }

    fn count(&self) -> usize {
        self.max.saturating_sub(self.watchers.available_permits())
    }

    fn pace(&self) -> Duration {
        pace(self.count(), EVENTS_PER_S)
    }

    /// Next slot of a watcher: one pace after its last slot. If the last event was sent between two slots, the next
    /// one is up to a quarter of a pace later.
    fn slot(&self, told_at: Instant, shift: f64, pace: Duration) -> Instant {
        let passed = (told_at - self.since).div_duration_f64(pace);
        let next = passed + 1.0 - (passed - shift).rem_euclid(1.0);
        let too_soon = f64::from(next - passed < 0.25);
        self.since + pace.mul_f64(next + too_soon)
    }
}

/// Event stream of one watcher. A slow reader skips the views between two reads.
#[derive(Debug)]
pub(crate) struct EventStream {
    watch: ViewReceivers,
    watching: WatchGuard,
    with_draws: bool,
    /// Whether the stream ends after the first view.
    once: bool,
    until: Instant,
    /// Last sent state: the version of the numbers, and the number of the newest draw.
    version: u64,
    draw: u32,
    /// Time of the last event, and of the last turn.
    told_at: Option<Instant>,
    turn_at: Option<Instant>,
    /// Time of the last bytes.
    sent_at: Instant,
    /// Slot of this watcher within a pace, from 0 to 1.
    shift: f64,
}

impl EventStream {
    /// Stream for a watcher that has the draws up to number `draw`.
    pub(crate) fn new(
        watch: ViewReceivers,
        watching: WatchGuard,
        draw: u32,
        until: Instant,
    ) -> Self {
        let shift = (watching.count() as f64 * SHIFT).fract();
        Self {
            watch,
            watching,
            with_draws: false,
            once: false,
            until,
            version: 0,
            draw,
            told_at: None,
            turn_at: None,
            sent_at: Instant::now(),
            shift,
        }
    }

    pub(crate) fn with_draws(self, with_draws: bool) -> Self {
        Self { with_draws, ..self }
    }

    pub(crate) fn once(self, once: bool) -> Self {
        Self { once, ..self }
    }

    /// Next bytes of the stream; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if self.once && self.version > 0 {
            return None;
        }
        loop {
            if let Some(told_at) = self.told_at {
                self.wait_for_slot(told_at).await?;
                let quiet = self.until.min(self.sent_at + KEEP_ALIVE);
                match timeout_at(quiet, self.watch.views.changed()).await {
                    Ok(changed) => changed.ok()?,
                    Err(_) if Instant::now() >= self.until => return None,
                    Err(_) => {
                        self.sent_at = Instant::now();
                        return Some(KEPT_ALIVE);
                    }
                }
            } else if self.version == 0 && self.watch.views.borrow().version == 0 {
                // The first read is still running.
                timeout_at(self.until, self.watch.views.changed())
                    .await
                    .ok()?
                    .ok()?;
            }
            self.watch.turns.mark_unchanged();
            let view = Arc::clone(&self.watch.views.borrow_and_update());
            if let Some(text) = self.next_event(&view) {
                self.sent_at = Instant::now();
                self.told_at = Some(self.sent_at);
                return Some(text);
            }
        }
    }

    /// Waits until the next event may be sent, with many watchers for up to a pace. A turn ends the wait, unless the
    /// last turn was less than a pace ago.
    async fn wait_for_slot(&mut self, told_at: Instant) -> Option<()> {
        let pace = self.watching.pace();
        if pace == PACE_MIN {
            return Some(());
        }
        let slot = self
            .until
            .min(self.watching.slot(told_at, self.shift, pace));
        while let Ok(turned) = timeout_at(slot, self.watch.turns.changed()).await {
            turned.ok()?;
            if self.turn_at.is_none_or(|at| at.elapsed() >= pace) {
                self.turn_at = Some(Instant::now());
                break;
            }
        }
        Some(())
    }

    fn next_event(&mut self, view: &CampaignView) -> Option<Bytes> {
        let mut text = String::new();
        if view.version != self.version {
            self.version = view.version;
            text.push_str(&view.state);
        }
        if self.with_draws
            && let Some((event, newest)) = view.draws.behind(self.draw)
        {
            self.draw = newest;
            // Writing to a `String` cannot fail.
            let _ = text.write_str(&event);
        }
        (!text.is_empty()).then(|| text.into())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    fn view(version: u64) -> CampaignView {
        CampaignView {
            state: format!("event: state\ndata: {version}\n\n"),
            version,
            ..CampaignView::default()
        }
    }

    fn text(told: Option<Bytes>) -> String {
        String::from_utf8(told.unwrap_or_default().to_vec()).unwrap()
    }

    /// A campaign with `count` watchers.
    fn watched(count: usize) -> (CampaignViews, Vec<EventStream>) {
        let (campaigns, mut views) = (WatchedCampaigns::default(), None);
        let id = "01934f1e-0000-7000-8000-000000000000".parse().unwrap();
        let watch = campaigns.watch(id, |made| views = Some(made));
        let watching = WatchGuard::new(5_000);
        let until = Instant::now() + Duration::from_secs(60);
        let tellings = (0..count).map(|_| {
            let permit = Arc::clone(&watching.watchers).try_acquire_owned();
            permit.unwrap().forget();
            EventStream::new(watch.clone(), watching.clone(), 0, until)
        });
        let tellings = tellings.collect();
        (views.unwrap(), tellings)
    }

    #[test]
    fn draws_are_told_from_where_somebody_is() {
        let draws = [3, 4, 6].map(|number| (number, format!("{{\"number\":{number}}}")));
        let draws = DrawsJson::new(&draws);
        let check = |told, expected: Option<(&str, &str)>| {
            let event = expected.map(|(claims, gap)| {
                let data = format!("{{\"claims\":[{claims}]{gap}}}");
                (format!("event: draws\nid: 6\ndata: {data}\n\n"), 6)
            });
            assert_eq!(draws.behind(told), event, "{told}");
        };
        let (all, gap) = (
            r#"{"number":3},{"number":4},{"number":6}"#,
            r#","gap":true"#,
        );
        check(2, Some((all, gap)));
        check(4, Some((r#"{"number":6}"#, gap)));
        check(5, Some((r#"{"number":6}"#, "")));
        check(6, None);
        assert_eq!(DrawsJson::default().behind(0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_told_of_each_view_and_of_nothing_else() {
        let (views, mut tellings) = watched(1);
        let one = &mut tellings[0];
        for version in 1..=3 {
            views.show(view(version), false);
            assert_eq!(text(one.next().await), view(version).state);
        }
        assert_eq!(text(one.next().await), ":\n\n");
        drop(views);
        assert_eq!(one.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn many_are_told_one_after_the_other_and_of_a_turn_at_once() {
        let (views, tellings) = watched(1_000);
        let begun = Instant::now();
        let told: Arc<Mutex<Vec<(usize, Duration, String)>>> = Arc::default();
        for (at, mut telling) in tellings.into_iter().enumerate() {
            let told = Arc::clone(&told);
            tokio::spawn(async move {
                while let Some(event) = telling.next().await {
                    told.lock().push((at, begun.elapsed(), text(Some(event))));
                }
            });
        }
        // Every view differs from the one before.
        for version in 1..=40 {
            views.show(view(version), false);
            sleep(PACE_MIN).await;
        }
        let events = std::mem::take(&mut *told.lock());
        let seconds = begun.elapsed().as_secs() as usize;
        // The first view is sent at once.
        let count = events.len() - 1_000;
        let expected = EVENTS_PER_S * seconds;
        assert!(
            (expected * 8 / 10..=expected).contains(&count),
            "{count} of {expected}"
        );
        let of_one = |one| events.iter().filter(move |(at, ..)| *at == one);
        for one in [0, 1, 500, 999] {
            let times: Vec<_> = of_one(one).map(|(_, at, _)| *at).collect();
            let most = times
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .max()
                .unwrap();
            assert!(most <= Duration::from_secs(3), "{one}: {most:?}");
        }
        // At the end no view is sent to most watchers together.
        let of_view = |version: u64| {
            events
                .iter()
                .filter(move |(.., text)| *text == view(version).state)
        };
        let at_once = (30..40).map(|version| of_view(version).count()).max();
        assert!(at_once < Some(300), "{at_once:?}");
        // Twice a second is too often for turns, too.
        for version in 41..=44 {
            views.show(view(version), true);
            sleep(PACE_MIN).await;
        }
        let turns = std::mem::take(&mut *told.lock());
        let first = turns
            .iter()
            .filter(|(.., text)| *text == view(41).state)
            .count();
        assert_eq!(first, 1_000, "all watchers that received the turn");
        assert!(turns.len() < 2_500, "{}", turns.len());
    }

    #[test]
    fn the_more_wait_the_longer_each_of_them_does() {
        let check = |count, ms| assert_eq!(pace(count, 500), Duration::from_millis(ms), "{count}");
        check(0, 500);
        check(250, 500);
        check(1_000, 2_000);
        check(5_000, 4_000);
    }
}
