//! What handlers work with.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    event::PartitionId,
    id::IdempotencyKey,
    ports::{Clock, Engine, EventLog, KeyBinding, Ledger},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    Config, Gauges,
    auth::{Caller, Verifier},
    campaigns::Campaigns,
    health::Readiness,
    metrics::Metrics,
    problem::Problem,
    throttle::Throttle,
};

/// How long a reader waits for what was granted a moment ago to be in the books.
const SETTLED_WAIT_MAX: Duration = Duration::from_millis(500);

/// What the API stands on.
#[derive(Clone)]
pub struct Ports {
    /// Decides claims.
    pub engine: Arc<dyn Engine>,
    /// The durable record.
    pub ledger: Arc<dyn Ledger>,
    /// What the ledger follows from.
    pub log: Arc<dyn EventLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What operators observe.
    pub gauges: Arc<dyn Gauges>,
}

/// What handlers work with.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gauges: Arc<dyn Gauges>,
    pub(crate) metrics: Metrics,
    pub(crate) verifier: Verifier,
    pub(crate) campaigns: Campaigns,
    pub(crate) throttle: Throttle,
    pub(crate) readiness: Readiness,
}

impl App {
    pub(crate) fn new(config: Config, ports: Ports) -> anyhow::Result<Self> {
        Ok(Self {
            verifier: Verifier::new(&config.auth)?,
            campaigns: Campaigns::default(),
            throttle: Throttle::new(&config.limits),
            readiness: Readiness::default(),
            metrics: Metrics::new(),
            engine: ports.engine,
            ledger: ports.ledger,
            log: ports.log,
            clock: ports.clock,
            gauges: ports.gauges,
            config,
        })
    }

    /// What has to be done now and then: metrics are folded, forgotten users are dropped.
    pub(crate) fn upkeep(&self) {
        self.metrics.upkeep();
        self.throttle.upkeep();
    }

    /// A fresh id: a UUID of version 7.
    pub(crate) fn fresh_id(&self) -> Uuid {
        id_at(self.clock.now())
    }

    /// What the caller's idempotency key stands for; a fresh id where there is no key.
    pub(crate) async fn bind(
        &self,
        caller: &Caller,
        route: &str,
        key: Option<&IdempotencyKey>,
        fingerprint: impl FnOnce() -> [u8; 32],
    ) -> Result<KeyBinding, Problem> {
        let id = self.fresh_id();
        let Some(key) = key else {
            return Ok(KeyBinding { id, fresh: true });
        };
        let scope = format!("{} {route}", caller.user);
        Ok(self.ledger.bind_key(&scope, key, fingerprint(), id).await?)
    }

    /// Waits until the books have what was granted up to now, though not for long; tells whether they do.
    pub(crate) async fn settled(&self) -> Result<bool, Problem> {
        let mut settled = true;
        for partition in self.log.partitions() {
            settled &= self.partition_settled(partition).await?;
        }
        Ok(settled)
    }

    pub(crate) async fn partition_settled(&self, partition: PartitionId) -> Result<bool, Problem> {
        let head = self.log.head(partition).await?;
        Ok(self
            .ledger
            .await_settled(partition, head, SETTLED_WAIT_MAX)
            .await?)
    }
}

/// A fresh UUID of version 7.
#[must_use]
pub fn id_at(now: Timestamp) -> Uuid {
    let millis = now.as_millis().max(0).unsigned_abs();
    let seconds = millis / 1_000;
    let nanos = (millis % 1_000) as u32 * 1_000_000;
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos))
}
