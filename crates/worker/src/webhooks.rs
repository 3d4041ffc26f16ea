//! Delivers settled events to webhook endpoints: at least once, and in order within each campaign.
//!
//! Settlement records the events in the order of its commits. One process at a time delivers to an endpoint, under a
//! lease. It records its position after the deliveries, so a crash in between repeats some events. An expired lease may
//! overlap with the next one for the duration of one request. Only the holder of the lease moves the position.

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
    webhook::{DeliveryProgress, Webhook, WebhookEvent, WebhookRecord},
};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use uuid::Uuid;

use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for events.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Events that are read per query. A crash may repeat up to this number of deliveries.
const EVENTS_MAX: u32 = 256;
/// Maximum duration of a round: afterwards no request begins, and the position is recorded.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// Time that a lease lasts beyond a round and its last request.
const LEASE_SPARE: Duration = Duration::from_secs(5);
/// Interval between two deletions of old events, and events per deletion. The limit keeps a file's writer free for
/// claims.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_MAX: u32 = 2_000;
/// Maximum doublings of the pause after failures.
const DOUBLINGS_MAX: u32 = 30;
/// Maximum characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 500;

/// Options of webhook deliveries.
#[derive(Debug, Clone, Copy)]
pub struct WebhookOptions {
    /// Maximum pause after a first failure. Each further failure doubles it.
    pub retry_min: Duration,
    /// Maximum pause.
    pub retry_max: Duration,
    /// Time without a successful delivery after which an endpoint is disabled.
    pub disable_after: Duration,
    /// Time for which events are kept after their decision, so that they can be delivered again. An endpoint that lags
    /// by more than this plus `disable_after` is disabled as well.
    pub keep: Duration,
    /// Time limit of a request.
    pub request_max: Duration,
    /// Campaigns that are delivered to an endpoint concurrently.
    pub concurrent_max: usize,
}

/// Ports that webhook delivery uses.
#[derive(Clone)]
pub struct WebhookPorts {
    /// Ledger with endpoints and events.
    pub ledger: Arc<dyn Ledger>,
    /// Sends events.
    pub sender: Arc<dyn WebhookSender>,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Figures for operators.
    pub monitor: Arc<WebhookMonitor>,
    /// Options.
    pub options: WebhookOptions,
}

/// Events that an unsuccessful round has delivered after the recorded position of the endpoint.
#[derive(Debug, Default)]
struct DeliveryLead {
    place: i64,
    told: HashSet<i64>,
}

/// A task that ends when it is dropped.
struct DeliveryTask(JoinHandle<Result<DeliveryLead, LedgerError>>);

impl Drop for DeliveryTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Delivers to all endpoints, each in its own task, so a slow endpoint delays no other.
pub struct WebhookDeliverer {
    ports: WebhookPorts,
    /// Id under which this process takes leases.
    holder: Uuid,
    running: HashMap<Uuid, DeliveryTask>,
    ahead: HashMap<Uuid, DeliveryLead>,
    forgot: Option<Instant>,
}

impl WebhookDeliverer {
    /// Schedule of its runs.
    pub const SCHEDULE: Schedule = Schedule::every(LOOK_EVERY);

    /// Creates a deliverer for the endpoints in the ledger.
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

    /// Endpoints with events that may be delivered now.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn due(&mut self) -> Result<Vec<WebhookRecord>, LedgerError> {
        let mut records = self.ports.ledger.webhooks().await?;
        self.ports.monitor.show(&records);
        // Forget the state of deleted endpoints.
        let is_there = |id: &Uuid| records.iter().any(|record| record.webhook.id == *id);
        self.ahead.retain(|id, _| is_there(id));
        let now = self.ports.clock.now();
        records.retain(|record| record.progress.is_due(record.last_place, now));
        Ok(records)
    }

    /// Delivers everything that is due, and waits until it ends. Returns the number of endpoints.
    ///
    /// # Errors
    /// If the ledger does not answer.
    pub async fn deliver_all(&mut self) -> Result<usize, LedgerError> {
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
            self.running.insert(id, DeliveryTask(telling));
        }
    }

    /// Collects the results of tasks that have ended.
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
                // The panic hook has reported the panic. The task is started again.
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
    async fn reconcile(&mut self) -> Result<NextRun, ReconcileError> {
        let ran = self.run().await;
        ran.map(|()| NextRun::Wait)
            .map_err(|error| ReconcileError(error.to_string()))
    }
}

/// Delivers the events that an endpoint wants, until none is left or a delivery fails.
async fn deliver(
    ports: &WebhookPorts,
    id: Uuid,
    holder: Uuid,
    mut ahead: DeliveryLead,
) -> Result<DeliveryLead, LedgerError> {
    let now = || ports.clock.now();
    let lease = ROUND_MAX + ports.options.request_max + LEASE_SPARE;
    let until = || now().plus_millis(lease.as_millis() as i64);
    let leased = ports.ledger.lease_webhook(id, holder, now(), until());
    let Some(record) = leased.await? else {
        return Ok(DeliveryLead::default());
    };
    let (webhook, mut progress) = (Arc::new(record.webhook), record.progress);
    // Without a failure the endpoint was redriven: events that it already has may be repeated.
    if ahead.place != progress.place || progress.attempts == 0 {
        ahead = DeliveryLead::default();
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
            progress = DeliveryProgress::default();
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
            // Events would be kept for this endpoint alone, and their number would grow.
            progress.disabled_at = Some(now());
            let why = "events occur faster than the endpoint accepts them";
            progress.last_error.get_or_insert_with(|| why.to_owned());
        }
        let recording = ports.ledger.record_webhook(id, holder, until(), &progress);
        if !recording.await? {
            return Ok(DeliveryLead::default());
        }
        say(id, &progress, was_failing);
    }
    Ok(ahead)
}

/// Logs changes of the endpoint's state.
fn say(id: Uuid, progress: &DeliveryProgress, was_failing: bool) {
    let webhook = id.to_string();
    let reason = progress.last_error.as_deref().unwrap_or_default();
    match (was_failing, progress.failing_since) {
        _ if progress.disabled_at.is_some() => {
            tracing::error!(webhook, reason, "webhook endpoint disabled");
        }
        (false, Some(_)) => {
            tracing::warn!(
                webhook,
                reason,
                "webhook endpoint fails, deliveries are retried"
            );
        }
        (true, None) => tracing::info!(webhook, "webhook endpoint recovered"),
        _ => {}
    }
}

/// Records a failed attempt in the progress.
fn failed(
    progress: &mut DeliveryProgress,
    failure: &SendFailure,
    now: Timestamp,
    options: WebhookOptions,
) {
    let doublings = progress.attempts.min(DOUBLINGS_MAX);
    let pause = options.retry_min.saturating_mul(1 << doublings);
    // The pause is random, so the endpoints of a recovered server are not all retried at the same moment.
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

/// Sends events: those of one campaign in sequence, several campaigns concurrently. Adds the places of delivered events
/// to `told`, and returns the first failure, if any.
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
                // A campaign with a successful delivery continues, because the endpoint may refuse one event alone.
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

/// Groups events by campaign. Campaigns are in the order of their first event.
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
