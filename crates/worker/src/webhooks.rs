//! Tells the endpoints of webhooks what was settled: at least once, those of a campaign in their order.
//!
//! Settlement has written the events down, in the order of its commits. An endpoint is told by one process at a time,
//! which has a lease of it, and which writes down how far it has come behind what it has told: a crash in between tells
//! some events again. A lease that has run out may overlap with the next one for as long as one request takes; only
//! its holder moves the place.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use qiang_core::{
    id::CampaignId,
    ports::{Clock, Ledger, LedgerError, SendFailure, WebhookMonitor, WebhookSender},
    time::Timestamp,
    webhook::{Progress, Webhook, WebhookEvent, WebhookRecord},
};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use uuid::Uuid;

use crate::host::{Next, Reconciler, Schedule, Stuck};

/// How often events are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Events that are read at a time. After a crash so many may be told again.
const EVENTS_MAX: u32 = 256;
/// No request is begun after a round has lasted so long: then the place is written down.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// How much longer an endpoint is held than a round and its last request may take.
const LEASE_SPARE: Duration = Duration::from_secs(5);
/// How often events are forgotten, and how many at a time: a file's writer has claims to decide meanwhile.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_MAX: u32 = 2_000;
/// Doublings of the pause after failures.
const DOUBLINGS_MAX: u32 = 30;
/// Characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 500;

/// How webhooks are told.
#[derive(Debug, Clone, Copy)]
pub struct WebhookOptions {
    /// The pause after a first failure, at most; each further one doubles it.
    pub retry_min: Duration,
    /// The longest pause.
    pub retry_max: Duration,
    /// An endpoint to which nothing has got through for so long is disabled.
    pub disable_after: Duration,
    /// How long events are kept after they were decided, to be told again. An endpoint that lags further behind, by as
    /// much as `disable_after`, is disabled as well.
    pub keep: Duration,
    /// How long a request may take.
    pub request_max: Duration,
    /// Campaigns of which an endpoint is told at the same time.
    pub concurrent_max: usize,
}

/// What webhooks are told with.
#[derive(Clone)]
pub struct WebhookPorts {
    /// Has endpoints and events.
    pub ledger: Arc<dyn Ledger>,
    /// Sends events.
    pub sender: Arc<dyn WebhookSender>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What operators observe.
    pub monitor: Arc<WebhookMonitor>,
    /// How.
    pub options: WebhookOptions,
}

/// Events of a round that failed, and that have been told all the same, while the endpoint stands at a place.
#[derive(Debug, Default)]
struct Ahead {
    place: i64,
    told: HashSet<i64>,
}

/// A task that ends when it is dropped.
struct Telling(JoinHandle<Result<Ahead, LedgerError>>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells all endpoints, each in a task of its own, so that a slow one holds up no other.
pub struct WebhookDeliverer {
    ports: WebhookPorts,
    /// Who has the leases.
    holder: Uuid,
    running: HashMap<Uuid, Telling>,
    ahead: HashMap<Uuid, Ahead>,
    forgot: Option<Instant>,
}

impl WebhookDeliverer {
    /// When it looks for events.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Tells the endpoints in the ledger.
    #[must_use]
    pub fn new(ports: WebhookPorts) -> Self {
        Self {
            ports,
            holder: Uuid::from_bytes(rand::random()),
            running: HashMap::new(),
            ahead: HashMap::new(),
            forgot: None,
        }
    }

    /// Endpoints that there is something to try for.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn due(&mut self) -> Result<Vec<WebhookRecord>, LedgerError> {
        let mut records = self.ports.ledger.webhooks().await?;
        self.ports.monitor.show(&records);
        // Of those that were deleted nothing is remembered.
        let is_there = |id: &Uuid| records.iter().any(|record| record.webhook.id == *id);
        self.ahead.retain(|id, _| is_there(id));
        let now = self.ports.clock.now();
        records.retain(|record| record.progress.is_due(record.last_place, now));
        Ok(records)
    }

    /// Tries everything that is due, and waits for the end of it; how many endpoints there were.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn tell_all(&mut self) -> Result<usize, LedgerError> {
        let due = self.due().await?;
        self.start(&due);
        while !self.running.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.collect().await?;
        }
        Ok(due.len())
    }

    fn start(&mut self, due: &[WebhookRecord]) {
        for record in due {
            let id = record.webhook.id;
            if self.running.contains_key(&id) {
                continue;
            }
            let (ports, holder) = (self.ports.clone(), self.holder);
            let ahead = self.ahead.remove(&id).unwrap_or_default();
            let telling = tokio::spawn(async move { deliver(&ports, id, holder, ahead).await });
            self.running.insert(id, Telling(telling));
        }
    }

    /// Takes note of tasks that have ended.
    async fn collect(&mut self) -> Result<(), LedgerError> {
        let ended = self
            .running
            .extract_if(|_, telling| telling.0.is_finished());
        let ended: Vec<_> = ended.collect();
        let mut result = Ok(());
        for (id, mut telling) in ended {
            match (&mut telling.0).await {
                Ok(Ok(ahead)) => drop(self.ahead.insert(id, ahead)),
                Ok(Err(error)) => result = Err(error),
                // A panic has been reported by its hook. The task is started again.
                Err(_) => {}
            }
        }
        result
    }

    async fn run(&mut self) -> Result<(), LedgerError> {
        self.collect().await?;
        let due = self.due().await?;
        self.start(&due);
        if self.forgot.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            let keep_ms = self.ports.options.keep.as_millis() as i64;
            let before = self.ports.clock.now().plus_millis(-keep_ms);
            let forgotten = self.ports.ledger.forget_webhook_events(before, FORGET_MAX);
            if forgotten.await? < u64::from(FORGET_MAX) {
                self.forgot = Some(Instant::now());
            }
        }
        Ok(())
    }
}

impl Reconciler for WebhookDeliverer {
    async fn reconcile(&mut self) -> Result<Next, Stuck> {
        let ran = self.run().await;
        ran.map(|()| Next::Wait)
            .map_err(|error| Stuck(error.to_string()))
    }
}

/// Tells an endpoint what it wants, until it has been told everything or something does not get through.
async fn deliver(
    ports: &WebhookPorts,
    id: Uuid,
    holder: Uuid,
    mut ahead: Ahead,
) -> Result<Ahead, LedgerError> {
    let now = || ports.clock.now();
    let lease = ROUND_MAX + ports.options.request_max + LEASE_SPARE;
    let until = || now().plus_millis(lease.as_millis() as i64);
    let leased = ports.ledger.lease_webhook(id, holder, now(), until());
    let Some(record) = leased.await? else {
        return Ok(Ahead::default());
    };
    let (webhook, mut progress) = (Arc::new(record.webhook), record.progress);
    // Without a failure it was redriven, and may be told again what it was told.
    if ahead.place != progress.place || progress.attempts == 0 {
        ahead = Ahead::default();
    }
    while progress.is_due(i64::MAX, now()) {
        let events = ports
            .ledger
            .webhook_events(progress.place, EVENTS_MAX)
            .await?;
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            break;
        };
        let (oldest, last) = (first.at, last.place);
        let wants = |event: &WebhookEvent| webhook.filter.fits(event);
        let mut wanted: Vec<_> = events.into_iter().filter(wants).collect();
        wanted.retain(|event| !ahead.told.contains(&event.place));
        let places: Vec<_> = wanted.iter().map(|event| event.place).collect();
        let failure = round(ports, &webhook, wanted, &mut ahead.told).await;
        let untold = places.into_iter().find(|place| !ahead.told.contains(place));
        let was_failing = progress.failing_since.is_some();
        let place = untold.map_or(last, |place| place - 1);
        let has_moved = place > progress.place;
        if failure.is_none() || has_moved {
            progress = Progress::default();
        }
        progress.place = place;
        ahead.place = progress.place;
        ahead.told.retain(|place| *place > progress.place);
        if let Some(failure) = &failure {
            failed(&mut progress, failure, now(), ports.options);
        }
        let is_slow = untold.is_some() && (failure.is_none() || has_moved);
        let lag_max = ports.options.keep + ports.options.disable_after;
        if is_slow && now().millis_since(oldest) > lag_max.as_millis() as i64 {
            // Events are kept for it alone, and more and more of them.
            progress.disabled_at = Some(now());
            let why = "it takes events more slowly than they come";
            progress.last_error.get_or_insert_with(|| why.to_owned());
        }
        let recording = ports.ledger.record_webhook(id, holder, until(), &progress);
        if !recording.await? {
            return Ok(Ahead::default());
        }
        say(id, &progress, was_failing);
    }
    Ok(ahead)
}

/// Says in the log what has changed.
fn say(id: Uuid, progress: &Progress, was_failing: bool) {
    let webhook = id.to_string();
    let reason = progress.last_error.as_deref().unwrap_or_default();
    match (was_failing, progress.failing_since) {
        _ if progress.disabled_at.is_some() => {
            tracing::error!(webhook, reason, "an endpoint of a webhook is disabled");
        }
        (false, Some(_)) => {
            tracing::warn!(
                webhook,
                reason,
                "an endpoint of a webhook fails: it is tried again"
            );
        }
        (true, None) => tracing::info!(webhook, "an endpoint of a webhook answers again"),
        _ => {}
    }
}

/// One more attempt has failed.
fn failed(progress: &mut Progress, failure: &SendFailure, now: Timestamp, options: WebhookOptions) {
    let doublings = progress.attempts.min(DOUBLINGS_MAX);
    let pause = options.retry_min.saturating_mul(1 << doublings);
    // Not all endpoints of a server that is back at the same moment.
    let pause = pause
        .min(options.retry_max)
        .mul_f64(rand::random_range(0.5..1.0));
    let since = *progress.failing_since.get_or_insert(now);
    progress.attempts = progress.attempts.saturating_add(1);
    progress.retry_at = Some(now.plus_millis(pause.as_millis() as i64));
    progress.last_error = Some(failure.reason.chars().take(ERROR_CHARS_MAX).collect());
    let failing_ms = now.millis_since(since);
    if failure.is_gone || failing_ms >= options.disable_after.as_millis() as i64 {
        progress.disabled_at = Some(now);
    }
}

/// Sends events: those of a campaign one after the other, several campaigns at a time. Notes what was told; the first
/// failure, if there is one.
async fn round(
    ports: &WebhookPorts,
    webhook: &Arc<Webhook>,
    events: Vec<WebhookEvent>,
    told: &mut HashSet<i64>,
) -> Option<SendFailure> {
    let over = Instant::now() + ROUND_MAX;
    let turns = Arc::new(Semaphore::new(ports.options.concurrent_max));
    let has_failed = Arc::<AtomicBool>::default();
    let mut sending = JoinSet::new();
    for events in by_campaign(events) {
        let (ports, webhook) = (ports.clone(), Arc::clone(webhook));
        let (turns, has_failed) = (Arc::clone(&turns), Arc::clone(&has_failed));
        sending.spawn(async move {
            let _turn = turns.acquire().await;
            let mut told = Vec::with_capacity(events.len());
            for event in events {
                // Whoever has got something through goes on: the endpoint may refuse one event alone.
                let gives_up = told.is_empty() && has_failed.load(Ordering::Relaxed);
                if gives_up || Instant::now() >= over {
                    break;
                }
                let sent = ports.sender.send(&webhook, &event, ports.clock.now()).await;
                ports.monitor.tried(sent.is_ok());
                if let Err(failure) = sent {
                    has_failed.store(true, Ordering::Relaxed);
                    return (told, Some(failure));
                }
                told.push(event.place);
            }
            (told, None)
        });
    }
    let mut first = None;
    for (places, failure) in sending.join_all().await {
        told.extend(places);
        first = first.or(failure);
    }
    first
}

/// Events by their campaign, campaigns by their first event.
fn by_campaign(events: Vec<WebhookEvent>) -> Vec<Vec<WebhookEvent>> {
    let mut groups: Vec<Vec<WebhookEvent>> = Vec::new();
    let mut places: HashMap<Option<CampaignId>, usize> = HashMap::new();
    for event in events {
        let campaign = event.data.as_ref().map(|data| data.campaign);
        let place = *places.entry(campaign).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
    }
    groups
}
