//! Delivery to one endpoint, under its lease.

use std::{collections::HashSet, sync::Arc, time::Duration};

use qiang_core::{
    ports::{LedgerError, SendFailure},
    time::Timestamp,
    webhook::{
        AttemptState, DeliveryAttempt, DeliveryProgress, DeliveryReport, RetryState,
        WAITING_EVENTS_MAX, Webhook, WebhookEvent, WebhookRecord,
    },
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use uuid::Uuid;

use super::{
    LOOK_EVERY, WebhookOptions, WebhookPorts,
    round::{REFUSALS_MAX, ROUND_MAX, RoundResult, SentEvent, retry_queue, send_round},
    waiting::WaitingEvents,
};

/// Events that are read per query. A crash may repeat up to this number of deliveries.
const EVENTS_MAX: u32 = 256;
/// Time that a lease lasts beyond a round and its last request.
const LEASE_SPARE: Duration = Duration::from_secs(5);
/// Maximum doublings of the pause after failures.
const DOUBLINGS_MAX: u32 = 30;
/// Maximum characters of an error that are kept.
const ERROR_CHARS_MAX: usize = 500;
/// Reason why an endpoint is disabled that lags too far.
const TOO_SLOW: &str = "events occur faster than the endpoint accepts them";

/// State of an endpoint's deliveries that a process keeps between two tasks.
#[derive(Debug, Default)]
pub(super) struct DeliveryLead {
    /// Recorded position of the endpoint.
    place: i64,
    /// Places of delivered events after the position.
    told: HashSet<i64>,
    /// New events that were refused since the last success.
    refusals: u32,
}

/// Delivers the events that an endpoint wants, until none is left or a pause begins.
pub(super) async fn deliver(
    ports: &WebhookPorts,
    id: Uuid,
    holder: Uuid,
    lead: DeliveryLead,
) -> Result<DeliveryLead, LedgerError> {
    let leased = EndpointDelivery::lease(ports, (id, holder), lead).await?;
    let Some(mut delivery) = leased else {
        return Ok(DeliveryLead::default());
    };
    loop {
        delivery.start_retries();
        let has_sent = delivery.send_next().await?;
        delivery.collect_retries();
        if !delivery.resolve_doubt().await? || !delivery.record().await? {
            return Ok(DeliveryLead::default());
        }
        if delivery.progress.disabled_at.is_some() {
            break;
        }
        if has_sent || delivery.has_due() {
            continue;
        }
        if delivery.retrying.is_empty() {
            break;
        }
        delivery.wait_for_retry().await;
    }
    Ok(delivery.lead)
}

/// Deliveries to an endpoint by the holder of its lease.
struct EndpointDelivery<'a> {
    ports: &'a WebhookPorts,
    id: Uuid,
    holder: Uuid,
    webhook: Arc<Webhook>,
    progress: DeliveryProgress,
    lead: DeliveryLead,
    waiting: WaitingEvents,
    /// Retries in flight, one task per subject.
    retrying: JoinSet<Vec<SentEvent>>,
    /// Attempts that are not recorded yet.
    attempts: Vec<DeliveryAttempt>,
    /// Whether the endpoint may be at fault, or only its few events.
    is_doubtful: bool,
    /// Progress as it is recorded, and the time of the record.
    recorded: (DeliveryProgress, Instant),
}

impl<'a> EndpointDelivery<'a> {
    /// Leases the endpoint, unless another holder has it or it is disabled.
    async fn lease(
        ports: &'a WebhookPorts,
        (id, holder): (Uuid, Uuid),
        mut lead: DeliveryLead,
    ) -> Result<Option<Self>, LedgerError> {
        let now = ports.clock.now();
        let leased = ports
            .ledger
            .lease_webhook(id, holder, now, lease_end(ports));
        let Some(record) = leased.await? else {
            return Ok(None);
        };
        let WebhookRecord {
            webhook, progress, ..
        } = record;
        // Without a failure the endpoint was redriven: events that it already has may be repeated.
        if lead.place != progress.place || progress.attempts == 0 {
            lead = DeliveryLead {
                place: progress.place,
                ..DeliveryLead::default()
            };
        }
        let stored = ports.ledger.waiting_events(id).await?;
        let mut delivery = Self {
            ports,
            id,
            holder,
            webhook: Arc::new(webhook),
            recorded: (progress.clone(), Instant::now()),
            progress,
            lead,
            waiting: WaitingEvents::from_stored(stored, now),
            retrying: JoinSet::new(),
            attempts: Vec::new(),
            is_doubtful: false,
        };
        delivery.drop_unwanted(now);
        Ok(Some(delivery))
    }

    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    fn options(&self) -> WebhookOptions {
        self.ports.options
    }

    /// Removes waiting events that the endpoint no longer wants: its filter or the campaign's owner has changed.
    fn drop_unwanted(&mut self, now: Timestamp) {
        for place in self.waiting.unwanted(&self.webhook.filter) {
            self.waiting.finish(place, now);
        }
    }

    fn start_retries(&mut self) {
        let max = self.retries_max();
        for queue in self.waiting.take_due(self.now(), max) {
            let (ports, webhook) = (self.ports.clone(), Arc::clone(&self.webhook));
            self.retrying
                .spawn(async move { retry_queue(&ports, &webhook, queue).await });
        }
    }

    /// Retries that may be in flight. While the endpoint refuses all events, one of them is a probe after each pause,
    /// and so is one new event.
    fn retries_max(&self) -> usize {
        match self.progress.retry_at {
            None => self.options().concurrent_max,
            Some(at) => usize::from(at <= self.now()),
        }
    }

    fn has_due(&self) -> bool {
        let max = self.retries_max();
        self.retrying.len() < max && self.waiting.has_due(self.now())
    }

    /// Applies the results of retries that have ended.
    fn collect_retries(&mut self) {
        while let Some(ended) = self.retrying.try_join_next() {
            // The panic hook has reported a panic. The lease ends, and the events are sent again.
            self.apply(ended.unwrap_or_default());
        }
    }

    /// Waits for a retry, but no longer than for the next look at new events.
    async fn wait_for_retry(&mut self) {
        let ended = timeout(LOOK_EVERY, self.retrying.join_next()).await;
        if let Ok(Some(Ok(sent))) = ended {
            self.apply(sent);
        }
    }

    /// Sends the next events after the position. Returns whether there were any.
    async fn send_next(&mut self) -> Result<bool, LedgerError> {
        let now = self.now();
        if self.progress.retry_at.is_some_and(|at| at > now) {
            return Ok(false);
        }
        let is_full = self.waiting.len() >= WAITING_EVENTS_MAX;
        let limit = if is_full { 1 } else { EVENTS_MAX };
        let place = self.progress.place;
        let events = self.ports.ledger.webhook_events(place, limit).await?;
        if is_full {
            self.check_lag(events.first());
            return Ok(false);
        }
        if events.is_empty() {
            return Ok(false);
        }
        let mut next = self.take_sendable(&events);
        if self.progress.retry_at.is_some() {
            next.truncate(1);
        }
        let result = send_round(self.ports, &self.webhook, next).await;
        self.apply_round(result);
        let open = events.iter().find(|event| !self.is_done(event));
        let place = match (open, events.last()) {
            (Some(open), _) => open.place - 1,
            (None, Some(last)) => last.place,
            (None, None) => place,
        };
        self.progress.place = place;
        self.lead.place = place;
        self.lead.told.retain(|told| *told > place);
        self.check_lag(open);
        Ok(true)
    }

    /// Events of these that are sent now. Events that follow a waiting event wait as well.
    fn take_sendable(&mut self, events: &[WebhookEvent]) -> Vec<WebhookEvent> {
        let mut next = Vec::with_capacity(events.len());
        for event in events {
            if self.is_done(event) {
                continue;
            }
            match event.subject() {
                Some(subject) if self.waiting.holds(&subject) => self.waiting.follow(event.clone()),
                _ => next.push(event.clone()),
            }
        }
        next
    }

    /// Whether the position may pass an event.
    fn is_done(&self, event: &WebhookEvent) -> bool {
        self.lead.told.contains(&event.place)
            || self.waiting.contains(event.place)
            || !self.webhook.filter.fits(event)
    }

    fn apply_round(&mut self, result: RoundResult) {
        let is_refused = !result.sent.is_empty() && result.sent.iter().all(|it| !it.is_accepted());
        let refused = result.sent.len() as u32; // at most a read of events
        self.apply(result.sent);
        for event in result.held {
            self.waiting.follow(event);
        }
        if !is_refused {
            return;
        }
        self.lead.refusals = self.lead.refusals.saturating_add(refused);
        if self.lead.refusals >= REFUSALS_MAX {
            self.pause();
        }
    }

    /// Begins a pause, because the endpoint refuses all events. No event is sent until its end. It becomes longer with
    /// the recorded number of failed attempts.
    fn pause(&mut self) {
        let doublings = self.progress.attempts.saturating_sub(REFUSALS_MAX) / 2;
        let end = self.now().plus_millis(pause_ms(doublings, self.options()));
        self.progress.retry_at = Some(end);
        self.waiting.hold_until(end);
    }

    /// Applies answers: first those of accepted events, because they show that the endpoint works.
    fn apply(&mut self, sent: Vec<SentEvent>) {
        let subjects: HashSet<_> = sent.iter().filter_map(|it| it.event.subject()).collect();
        for subject in &subjects {
            self.waiting.put_back(subject);
        }
        let (accepted, refused): (Vec<_>, Vec<_>) =
            sent.into_iter().partition(SentEvent::is_accepted);
        for sent in accepted {
            self.accept(sent);
        }
        let is_probe = self.progress.retry_at.is_some() && !refused.is_empty();
        for sent in refused {
            self.refuse(sent);
        }
        if is_probe {
            self.pause();
        }
    }

    fn accept(&mut self, sent: SentEvent) {
        let now = self.now();
        let attempt = self.waiting.retry(sent.event.place).attempts + 1;
        self.note_success(now);
        match self.waiting.contains(sent.event.place) {
            true => self.waiting.finish(sent.event.place, now),
            false => drop(self.lead.told.insert(sent.event.place)),
        }
        self.log(sent, attempt, (AttemptState::Delivered, None));
    }

    /// The endpoint works: what it refused before no longer counts, and a pause ends.
    fn note_success(&mut self, now: Timestamp) {
        if self.progress.retry_at.is_some() {
            self.waiting.release(now);
        }
        self.lead.refusals = 0;
        self.progress = DeliveryProgress {
            place: self.progress.place,
            disabled_at: self.progress.disabled_at,
            ..DeliveryProgress::default()
        };
    }

    fn refuse(&mut self, sent: SentEvent) {
        let (now, options) = (self.now(), self.options());
        let Some(failure) = sent.answer.failure.clone() else {
            return;
        };
        let failing_since = *self.progress.failing_since.get_or_insert(now);
        self.progress.attempts = self.progress.attempts.saturating_add(1);
        self.progress.last_error = Some(short(&failure));
        let before = self.waiting.retry(sent.event.place);
        let since = before.failing_since.unwrap_or(now);
        let retry = RetryState {
            attempts: before.attempts.saturating_add(1),
            failing_since: Some(since),
            retry_at: Some(now.plus_millis(pause_ms(before.attempts, options))),
            ..before
        };
        // Another event was accepted since the first failure of this one.
        let is_alone = failing_since > since;
        let is_over = |since: Timestamp| now.millis_since(since) >= millis(options.disable_after);
        let is_late =
            now.millis_since(sent.event.at) > millis(options.keep + options.disable_after);
        let is_dead = is_over(failing_since) && self.waiting.len() >= u64::from(REFUSALS_MAX);
        if failure.is_gone || is_dead || is_alone && is_late {
            self.progress.disabled_at.get_or_insert(now);
        } else if is_over(failing_since) {
            self.is_doubtful = true;
        }
        let is_decided = self.progress.disabled_at.is_none() && !self.is_doubtful;
        if is_decided && is_over(since) && is_alone {
            self.give_up(sent, retry.attempts);
            return;
        }
        let next_at = retry
            .retry_at
            .filter(|_| self.progress.disabled_at.is_none());
        self.waiting.set(sent.event.clone(), retry);
        self.log(sent, retry.attempts, (AttemptState::Failed, next_at));
    }

    /// Tests an endpoint that has accepted nothing for too long, and was sent few events. If it accepts the test, the
    /// events are at fault, and are given up one by one. Otherwise it is disabled.
    /// Returns false if the lease is lost.
    async fn resolve_doubt(&mut self) -> Result<bool, LedgerError> {
        if !std::mem::take(&mut self.is_doubtful) || self.progress.disabled_at.is_some() {
            return Ok(true);
        }
        // The test may take as long as another request, so the lease is renewed first.
        if !self.record().await? {
            return Ok(false);
        }
        let now = self.now();
        let test = WebhookEvent::test(Uuid::from_u128(rand::random()), now);
        match self.ports.sender.send(&self.webhook, &test, now).await {
            Ok(()) => self.note_success(now),
            Err(_) => self.progress.disabled_at = Some(now),
        }
        Ok(true)
    }

    fn give_up(&mut self, sent: SentEvent, attempt: u32) {
        let (webhook, event) = (self.id.to_string(), sent.event.id.as_str());
        let reason = self.progress.last_error.as_deref().unwrap_or_default();
        tracing::error!(webhook, event, reason, "webhook event given up");
        self.waiting.finish(sent.event.place, self.now());
        self.log(sent, attempt, (AttemptState::GivenUp, None));
    }

    fn log(
        &mut self,
        sent: SentEvent,
        attempt: u32,
        (state, next_at): (AttemptState, Option<Timestamp>),
    ) {
        let Some(subject) = sent.event.subject() else {
            return;
        };
        self.attempts.push(DeliveryAttempt {
            id: DeliveryAttempt::id_at(sent.at, &rand::random()),
            place: sent.event.place,
            event: sent.event.id,
            kind: sent.event.kind,
            subject,
            at: sent.at,
            duration_ms: sent.duration_ms,
            attempt,
            status: sent.answer.status,
            body: sent.answer.body,
            error: sent.answer.failure.as_ref().map(short),
            state,
            next_at,
        });
    }

    /// Disables an endpoint whose next event is too old, although it accepts some events: events would be kept for it
    /// alone, and their number would grow.
    fn check_lag(&mut self, next: Option<&WebhookEvent>) {
        let (now, options) = (self.now(), self.options());
        let lag_max = millis(options.keep + options.disable_after);
        let is_late = next.is_some_and(|event| now.millis_since(event.at) > lag_max);
        if is_late && self.progress.retry_at.is_none() {
            self.progress.disabled_at = Some(now);
            let why = || TOO_SLOW.to_owned();
            self.progress.last_error.get_or_insert_with(why);
        }
    }

    /// Records what was delivered, and renews the lease. Returns false if the lease is lost.
    async fn record(&mut self) -> Result<bool, LedgerError> {
        let (before, recorded_at) = &self.recorded;
        let has_changed =
            *before != self.progress || !self.attempts.is_empty() || self.waiting.has_changes();
        if !has_changed && recorded_at.elapsed() < ROUND_MAX {
            return Ok(true);
        }
        let (waiting, finished) = self.waiting.take_changes();
        let report = DeliveryReport {
            progress: self.progress.clone(),
            waiting,
            finished,
            attempts: std::mem::take(&mut self.attempts),
        };
        let until = lease_end(self.ports);
        let ledger = &self.ports.ledger;
        let recorded = ledger.record_deliveries(self.id, self.holder, until, &report);
        if !recorded.await? {
            return Ok(false);
        }
        say(self.id, &self.progress, before.failing_since.is_some());
        self.recorded = (self.progress.clone(), Instant::now());
        Ok(true)
    }
}

fn lease_end(ports: &WebhookPorts) -> Timestamp {
    let lease = ROUND_MAX + ports.options.request_max + LEASE_SPARE;
    ports.clock.now().plus_millis(millis(lease))
}

fn millis(duration: Duration) -> i64 {
    duration.as_millis().try_into().unwrap_or(i64::MAX)
}

fn short(failure: &SendFailure) -> String {
    failure.reason.chars().take(ERROR_CHARS_MAX).collect()
}

/// Pause after a failure. It is random, so the endpoints of a recovered server are not all retried at the same moment.
fn pause_ms(doublings: u32, options: WebhookOptions) -> i64 {
    let pause = options
        .retry_min
        .saturating_mul(1 << doublings.min(DOUBLINGS_MAX));
    millis(
        pause
            .min(options.retry_max)
            .mul_f64(rand::random_range(0.5..1.0)),
    )
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
