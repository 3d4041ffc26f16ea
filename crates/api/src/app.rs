//! What handlers work with.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Command, Setup},
    campaign::{CampaignKind, Phase, Tally},
    id::{CampaignId, IdempotencyKey},
    ports::{CampaignRecord, Clock, Engine, EngineError, EventLog, KeyBinding, Ledger},
    time::Timestamp,
};
use uuid::Uuid;

use crate::{
    auth::{Authenticate, Caller, TokenFault, Verifier},
    campaign_cache::{CampaignCache, CampaignMeta},
    config::Config,
    extract::BodyLimits,
    gauges::Gauges,
    metrics::Metrics,
    problem::{Problem, ProblemKind},
    readiness::Readiness,
    throttle::Throttle,
};

/// How long a reader waits for what was granted a moment ago to be in the ledger.
const SETTLED_WAIT_MAX: Duration = Duration::from_millis(500);

/// What the API works on.
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
    pub(crate) campaigns: CampaignCache,
    pub(crate) throttle: Throttle,
    pub(crate) readiness: Readiness,
}

impl App {
    /// # Errors
    /// When the configuration has no key to check tokens with.
    pub(crate) fn new(config: Config, ports: Ports, metrics: Metrics) -> anyhow::Result<Self> {
        Ok(Self {
            verifier: Verifier::new(&config.auth)?,
            campaigns: CampaignCache::default(),
            throttle: Throttle::new(&config.limits),
            readiness: Readiness::default(),
            metrics,
            engine: ports.engine,
            ledger: ports.ledger,
            log: ports.log,
            clock: ports.clock,
            gauges: ports.gauges,
            config,
        })
    }

    /// What has to be done from time to time: metrics are folded, forgotten users are dropped.
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

    /// Waits a moment for the ledger to have everything granted so far. Returns whether it has.
    pub(crate) async fn settled(&self) -> Result<bool, Problem> {
        let mut settled = true;
        for partition in self.log.partitions() {
            let head = self.log.head(partition).await?;
            settled &= self
                .ledger
                .await_settled(partition, head, SETTLED_WAIT_MAX)
                .await?;
        }
        Ok(settled)
    }

    /// A campaign's metadata, if there is such a campaign.
    pub(crate) async fn meta(&self, id: CampaignId) -> Result<Option<CampaignMeta>, Problem> {
        if let Some(meta) = self.campaigns.get(id) {
            return Ok(Some(meta));
        }
        let record = self.ledger.campaign(id).await?;
        Ok(record.map(|record| {
            let meta = CampaignMeta::from(&record.campaign);
            self.campaigns.insert(id, meta);
            meta
        }))
    }

    /// A campaign of one kind and its numbers: the present ones of the engine, or those of its creation where no engine
    /// has opened it yet.
    pub(crate) async fn record(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), Problem> {
        let record = self
            .ledger
            .campaign(id)
            .await?
            .filter(|record| record.campaign.kind() == kind);
        let record = record.ok_or_else(|| Problem::new(ProblemKind::UnknownCampaign, ""))?;
        let tally = self
            .engine
            .tally(id)
            .await?
            .unwrap_or_else(|| draft_tally(&record));
        Ok((record, tally))
    }

    /// Opens a campaign on the engine. Opening it again changes nothing.
    pub(crate) async fn open(&self, setup: Setup) -> Result<(), EngineError> {
        let (id, meta) = (setup.campaign.id, CampaignMeta::from(&setup.campaign));
        self.engine.submit(Command::Open(Box::new(setup))).await?;
        self.campaigns.insert(id, meta);
        Ok(())
    }
}

impl Authenticate for App {
    fn authenticate(&self, token: &str) -> Result<Caller, TokenFault> {
        self.verifier.verify(token, self.clock.now())
    }
}

impl BodyLimits for App {
    fn body_bytes_max(&self) -> usize {
        self.config.server.body_bytes_max
    }

    fn body_timeout(&self) -> Duration {
        self.config.server.request_timeout()
    }
}

fn draft_tally(record: &CampaignRecord) -> Tally {
    let campaign = &record.campaign;
    Tally {
        phase: Phase::Draft,
        supply: campaign.supply(),
        granted: 0,
        remaining: campaign.supply(),
        returned: 0,
        funded_minor: campaign.funded_minor(),
        claimed_minor: 0,
        remaining_minor: campaign.funded_minor(),
        refunded_minor: 0,
        grants: 0,
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
