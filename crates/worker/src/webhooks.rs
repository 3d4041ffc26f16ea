//! Delivers settled events to webhook endpoints: at least once, and in order within each order or share.
//!
//! Settlement records the events in the order of its commits. One process at a time delivers to an endpoint, under a
//! lease. It records its position after the deliveries, so a crash in between repeats some events. An expired lease may
//! overlap with the next one for the duration of one request. Only the holder of the lease records deliveries.
//!
//! A failed event waits for a retry outside the position, and later events of its order wait for it. So it delays no
//! other event. The number of waiting events per endpoint is limited. If the endpoint refuses all events, it is tried
//! with growing pauses, so dead endpoints cost little.

mod endpoint;
mod round;
mod waiting;

use std::{collections::HashMap, sync::Arc, time::Duration};

use qiang_core::{
    ports::{Clock, Ledger, LedgerError, WebhookMonitor, WebhookSender},
    webhook::WebhookRecord,
};
use tokio::{task::JoinHandle, time::Instant};
use uuid::Uuid;

use self::endpoint::{DeliveryLead, deliver};
use crate::host::{NextRun, ReconcileError, Reconciler, Schedule};

/// Interval between two looks for events.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval between two deletions of old events and attempts, and rows per deletion. The limit keeps a file's writer
/// free for claims.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_MAX: u32 = 2_000;

/// Options of webhook deliveries.
#[derive(Debug, Clone, Copy)]
pub struct WebhookOptions {
    /// Maximum pause after a first failure. Each further failure doubles it.
    pub retry_min: Duration,
    /// Maximum pause.
    pub retry_max: Duration,
    /// Time without a successful delivery after which an endpoint is disabled. An event that fails for this time while
    /// others are delivered is given up.
    pub disable_after: Duration,
    /// Time for which events are kept after their decision, so that they can be delivered again. An endpoint that lags
    /// by more than this plus `disable_after` is disabled as well.
    pub keep: Duration,
    /// Time for which the log of attempts is kept.
    pub keep_attempts: Duration,
    /// Time limit of a request.
    pub request_max: Duration,
    /// Orders, shares and campaigns whose events are sent to an endpoint concurrently.
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
    forgot_attempts: Option<Instant>,
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
            forgot_attempts: None,
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
        records.retain(|record| record.is_due(now));
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
        self.forget().await
    }

    /// Deletes old events and attempts. If there are many, it continues with the next run.
    async fn forget(&mut self) -> Result<(), LedgerError> {
        let is_due = |last: Option<Instant>| last.is_none_or(|at| at.elapsed() >= FORGET_EVERY);
        let now = self.ports.clock.now();
        let before = |keep: Duration| now.plus_millis(-(keep.as_millis() as i64));
        let (ledger, options) = (&self.ports.ledger, self.ports.options);
        if is_due(self.forgot) {
            let forgotten = ledger.forget_webhook_events(before(options.keep), FORGET_MAX);
            if forgotten.await? < u64::from(FORGET_MAX) {
                self.forgot = Some(Instant::now());
            }
        }
        if is_due(self.forgot_attempts) {
            let before = before(options.keep_attempts);
            let forgotten = ledger.forget_delivery_attempts(before, FORGET_MAX);
            if forgotten.await? < u64::from(FORGET_MAX) {
                self.forgot_attempts = Some(Instant::now());
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
