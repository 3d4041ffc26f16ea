//! Shared state of all handlers.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    book::{Claim, Command, Setup},
    campaign::{CampaignKind, Phase, SaleSettings, Tally},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef},
    outcome::Outcome,
    ports::{
        Auditor, CampaignRecord, Clock, Engine, EngineError, EventLog, KeyUse, Ledger, LedgerError,
        OperatorEngine, WaitingMonitor, WaitingRoom, WebhookMonitor, WebhookSender,
    },
    time::{AdjustableClock, Timestamp},
};
use qiang_wire::problem::ProblemKind;
use tokio::{
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::timeout,
};
use uuid::Uuid;

use crate::{
    audience::{Audience, passphrase::Guesses},
    auth::{CurrentVerifier, callbacks::Callbacks},
    cache::{
        campaigns::{AnswerFields, CampaignCache},
        grant_timelines::GrantTimelines,
        unknown_campaigns::UnknownCampaigns,
        watched_campaigns::{WatchGuard, WatchedCampaigns},
    },
    challenge::TicketChallenge,
    config::ApiConfig,
    http::problem::ApiProblem,
    idempotency::{detached::Detached, fingerprint::fingerprint, running_changes::RunningChanges},
    observe::{
        audit_runs::AuditRuns,
        claim_log::ClaimLog,
        gauges::Gauges,
        last_minutes::LastMinutes,
        metrics::{Metrics, OrderCheckMetrics},
        readiness::Readiness,
    },
    protect::{
        limits::Limits, open_streams::StreamLimits, order_check::OrderCheck,
        single_flight::SingleFlight,
    },
    providers::CurrentAccounts,
};

/// Longest wait of a reader until the ledger has the latest grants.
const SETTLED_WAIT_MAX: Duration = Duration::from_millis(500);

/// Ports that the API uses.
#[derive(Clone)]
pub struct Ports {
    /// Decides claims.
    pub engine: Arc<dyn Engine>,
    /// Durable record of accounts and campaigns.
    pub ledger: Arc<dyn Ledger>,
    /// Log that the ledger follows.
    pub log: Arc<dyn EventLog>,
    /// Clock of this machine.
    pub clock: Arc<dyn Clock>,
    /// Clock by which the engine opens and ends campaigns. It may differ from this machine's.
    pub engine_clock: Arc<dyn Clock>,
    /// Statistics for operators.
    pub gauges: Arc<dyn Gauges>,
    /// Challenge that users solve for a grab ticket. It replaces the configured one.
    pub challenge: Option<Arc<dyn TicketChallenge>>,
    /// Queues of campaigns that have a waiting room.
    pub waiting_room: Arc<dyn WaitingRoom>,
    /// Statistics of queues and of waiting users.
    pub waiting: Arc<WaitingMonitor>,
    /// Sender of webhook events; `None` in a process that sends none.
    pub webhooks: Option<Webhooks>,
    /// Engine with operators' commands for its partitions; `None` if its partitions cannot lose data.
    pub operator: Option<Arc<dyn OperatorEngine>>,
    /// Auditor of this installation; `None` if this process cannot audit it.
    pub auditor: Option<Arc<dyn Auditor>>,
    /// The clock, if requests may move it: in development only.
    pub test_clock: Option<Arc<dyn AdjustableClock>>,
}

/// Sender of webhook events, with its statistics.
#[derive(Clone)]
pub struct Webhooks {
    /// Sender of events.
    pub sender: Arc<dyn WebhookSender>,
    /// Statistics for operators.
    pub monitor: Arc<WebhookMonitor>,
}

/// Shared state of all handlers.
pub(crate) struct App {
    pub(crate) config: ApiConfig,
    pub(crate) ports: Ports,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) verifier: Arc<CurrentVerifier>,
    pub(crate) campaigns: Arc<CampaignCache>,
    pub(crate) unknown: UnknownCampaigns,
    /// Reads of campaigns' numbers that wait for the engine.
    numbers: SingleFlight<CampaignId, Result<Option<Tally>, EngineError>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) guesses: Guesses,
    pub(crate) readiness: Arc<Readiness>,
    /// Challenge that users solve for a grab ticket.
    pub(crate) challenge: Option<Arc<dyn TicketChallenge>>,
    /// Verifier of signed requests of payment services.
    pub(crate) callbacks: Callbacks,
    /// Accounts at payment services that send notifications.
    pub(crate) payment_accounts: CurrentAccounts,
    /// `None` if no shop is configured.
    pub(crate) order_check: Option<Arc<OrderCheck>>,
    /// `None` if no file is configured.
    pub(crate) claim_log: Option<ClaimLog>,
    /// Permits for further streams of queue entries.
    pub(crate) streams: Arc<Semaphore>,
    /// Streams of campaigns and of statistics.
    pub(crate) watching: WatchGuard,
    pub(crate) watched: WatchedCampaigns,
    pub(crate) timelines: GrantTimelines,
    /// Limits for streams of both kinds, per connection, user and address.
    pub(crate) stream_limits: Arc<StreamLimits>,
    pub(crate) last_minutes: LastMinutes,
    pub(crate) audits: Arc<AuditRuns>,
    /// Lock that lets one large amount pass at a time.
    pub(crate) large_amounts: Mutex<()>,
    /// Requests under idempotency keys that run detached from their clients.
    pub(crate) detached: Arc<Detached>,
    /// Running changes of campaigns.
    pub(crate) changes: RunningChanges,
}

impl App {
    pub(crate) fn new(config: ApiConfig, ports: Ports, metrics: Metrics) -> anyhow::Result<Self> {
        let metrics = Arc::new(metrics);
        let counted = || OrderCheckMetrics::new(&metrics);
        Ok(Self {
            claim_log: ClaimLog::start(&config.claim_log)?,
            order_check: OrderCheck::new(&config.order_check, counted)?,
            callbacks: Callbacks::new(&config.payments)?,
            payment_accounts: CurrentAccounts::new(&config.payments)?,
            verifier: Arc::new(CurrentVerifier::new(&config.auth)?),
            campaigns: Arc::default(),
            unknown: UnknownCampaigns::new(config.limits.unknown_campaign_ttl_ms),
            numbers: SingleFlight::default(),
            limits: Arc::new(Limits::new(&config, &metrics)?),
            guesses: Guesses::new(&metrics),
            readiness: Arc::default(),
            streams: Arc::new(Semaphore::new(config.queue.streams_max)),
            watching: WatchGuard::new(config.server.watchers_max),
            watched: WatchedCampaigns::default(),
            timelines: GrantTimelines::default(),
            stream_limits: Arc::new(StreamLimits::new(&config.limits, &metrics)),
            last_minutes: LastMinutes::default(),
            audits: Arc::default(),
            large_amounts: Mutex::default(),
            detached: Arc::default(),
            changes: RunningChanges::default(),
            metrics,
            challenge: ports
                .challenge
                .clone()
                .or_else(|| config.tickets.challenge()),
            ports,
            config,
        })
    }

    /// Runs once a second: samples statistics, folds metrics and reloads changed files.
    pub(crate) fn upkeep(&self) {
        let (ports, now) = (&self.ports, self.ports.clock.now());
        self.last_minutes
            .take(&self.metrics, &*ports.gauges, &ports.waiting, now);
        self.metrics.show_token_files(self.verifier.refresh());
        let accounts_fail = self.payment_accounts.refresh();
        self.metrics.show_payment_accounts(accounts_fail);
        if let Some(log) = &self.claim_log {
            self.metrics.show_claim_log(&log.counts);
        }
        self.metrics.upkeep();
    }

    pub(crate) fn fresh_id(&self) -> Uuid {
        id_at(self.ports.clock.now())
    }

    /// Binds a payment to its first order, for good. Returns whether this report is the first one.
    pub(crate) async fn bind_payment(
        &self,
        payment: &PaymentRef,
        order: OrderId,
    ) -> Result<bool, ApiProblem> {
        let key = IdempotencyKey::new(payment.as_str());
        let key = key.map_err(|error| ApiProblem::internal(error.to_string()))?;
        let used = KeyUse::new(KeyUse::PAYMENT, key, fingerprint(&order.to_string(), &()));
        let bound = self.ports.ledger.bind_key(&used, self.fresh_id());
        match bound.await {
            Err(LedgerError::KeyReused) => Err(ProblemKind::PaymentUsed.into()),
            bound => Ok(bound?.fresh),
        }
    }

    /// Waits up to [`SETTLED_WAIT_MAX`] until the ledger has all grants so far, in all partitions at once. Returns
    /// whether it has them; `false` if a log does not answer.
    pub(crate) async fn settled(&self) -> Result<bool, ApiProblem> {
        let mut waiting = JoinSet::new();
        for partition in self.ports.log.partitions() {
            let (log, ledger) = (Arc::clone(&self.ports.log), Arc::clone(&self.ports.ledger));
            waiting.spawn(async move {
                match timeout(SETTLED_WAIT_MAX, log.head(partition)).await {
                    Ok(Ok(head)) => {
                        ledger
                            .await_settled(partition, head, SETTLED_WAIT_MAX)
                            .await
                    }
                    _ => Ok(false),
                }
            });
        }
        let mut settled = true;
        for one in waiting.join_all().await {
            settled &= one?;
        }
        Ok(settled)
    }

    pub(crate) async fn meta(
        &self,
        id: CampaignId,
    ) -> Result<Option<Arc<AnswerFields>>, ApiProblem> {
        match self.campaigns.get(id) {
            Some(meta) => Ok(Some(meta)),
            None if self.is_unknown(id) => Ok(None),
            // Boxed because it is rare, and the future of each claim includes its size.
            None => Box::pin(self.read_meta(id)).await,
        }
    }

    /// Same campaign with its present window, read from the ledger if needed. If the read fails, the last one is
    /// returned.
    pub(crate) async fn with_window(
        &self,
        id: CampaignId,
        meta: Arc<AnswerFields>,
    ) -> Arc<AnswerFields> {
        if meta.has_window(self.ports.clock.now()) {
            return meta;
        }
        let read = Box::pin(self.read_meta(id)).await;
        read.ok().flatten().unwrap_or(meta)
    }

    async fn read_meta(&self, id: CampaignId) -> Result<Option<Arc<AnswerFields>>, ApiProblem> {
        let ledger = Arc::clone(&self.ports.ledger);
        let read_at = self.ports.clock.now();
        let last = self.campaigns.last_read(id);
        let read = async move {
            let Some(record) = ledger.campaign(id).await? else {
                return Ok(None);
            };
            // An audience never changes, and the one in memory has the digest of its passphrase.
            let audience = match last {
                Some(last) => last.audience.clone(),
                None => {
                    let kept = ledger.audience(id).await?;
                    let audience = kept
                        .map(|text| Audience::from_stored(id, &text))
                        .transpose()?;
                    audience.map(Arc::new)
                }
            };
            let waiting_room = ledger.has_waiting_room(id).await?;
            let meta = AnswerFields::new(&record, read_at, audience, waiting_room);
            Ok(Some(Arc::new(meta)))
        };
        let meta = self.campaigns.load(id, read).await;
        meta.ok_or_else(|| ApiProblem::internal("a read of the ledger has panicked"))?
            .map_err(ApiProblem::from)
    }

    /// Outcome of a claim without a decision, from the engine's outcome at hand. While a campaign with a queue is
    /// paused, its queue still accepts claims.
    pub(crate) async fn known_campaign(
        &self,
        claim: &Claim,
        at_hand: Option<Outcome>,
    ) -> Result<Option<Outcome>, ApiProblem> {
        if !matches!(at_hand, Some(Outcome::Paused)) {
            return Ok(at_hand);
        }
        let meta = self.meta(claim.campaign).await?;
        let has_line = meta.is_some_and(|meta| meta.waiting_room && meta.kind == claim.kind);
        Ok(at_hand.filter(|_| !has_line))
    }

    /// Whether neither the ledger nor the engine had a campaign a moment ago.
    fn is_unknown(&self, id: CampaignId) -> bool {
        self.unknown.contain(id, self.ports.clock.now())
    }

    /// A campaign's numbers. Callers share the answer to a call that is running. So any number of readers costs an
    /// engine on Redis one call at a time. The numbers may be older than the request by the duration of that call.
    pub(crate) async fn shared_tally(&self, id: CampaignId) -> Result<Option<Tally>, EngineError> {
        let asked = async { self.ports.engine.tally(id).await };
        self.numbers.run(id, asked).await
    }

    /// Whether the engine has a campaign that the ledger lacks. If it lacks it too, that is remembered for a moment.
    pub(crate) async fn engine_has(&self, id: CampaignId) -> Result<bool, ApiProblem> {
        if self.is_unknown(id) {
            return Ok(false);
        }
        let now = self.ports.clock.now();
        let tally = self.ports.engine.tally(id).await?;
        if tally.is_none() {
            self.unknown.insert(id, now);
        }
        Ok(tally.is_some())
    }

    /// Problem for a campaign that the ledger lacks. The engine may still have it.
    pub(crate) async fn missing(&self, id: CampaignId) -> ApiProblem {
        match self.engine_has(id).await {
            Ok(false) => ProblemKind::UnknownCampaign.into(),
            Ok(true) => ApiProblem::ledger_incomplete(id),
            Err(problem) => problem,
        }
    }

    /// Outcome of a claim of a campaign that the engine lacks. If the ledger has it, the engine is about to open it,
    /// or has lost it and is repaired. That is an error, not an outcome.
    pub(crate) async fn unknown_to_engine(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<Outcome, ApiProblem> {
        if self.is_unknown(id) {
            return Ok(Outcome::UnknownCampaign);
        }
        let record = self.ports.ledger.campaign(id).await?;
        if record.is_none() {
            // Remembers that it is unknown, which spares the ledger reads for a moment. An error changes no outcome.
            drop(self.engine_has(id).await);
        }
        let record = record.filter(|record| record.campaign.kind() == kind);
        match record.map(|record| record.phase) {
            None => Ok(Outcome::UnknownCampaign),
            Some(Phase::Ended | Phase::Closed) => Ok(Outcome::Ended),
            Some(_) => Err(EngineError::Unavailable {
                reason: format!("the engine does not have campaign {id}, and the ledger has it"),
            }
            .into()),
        }
    }

    /// A campaign of one kind and its numbers. They are the engine's present ones, or those of its creation if no
    /// engine has opened it.
    pub(crate) async fn record(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), ApiProblem> {
        let record = self.retained_record(id, kind).await?;
        let tally = self.tally_of(&record).await?;
        Ok((record, tally))
    }

    /// Like [`record`](Self::record), for a change of the campaign: the numbers never come from a replica.
    pub(crate) async fn present_record(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<(CampaignRecord, Tally), ApiProblem> {
        let record = self.retained_record(id, kind).await?;
        let tally = self.ports.engine.present_tally(id).await?;
        let tally = tally.unwrap_or_else(|| draft_tally(&record));
        Ok((record, tally))
    }

    /// A sale whose stock and terms a condition can compare: those of the ledger, which has the changes that were
    /// answered. `None` if it does not have all of them yet.
    pub(crate) async fn settled_sale(
        &self,
        id: CampaignId,
    ) -> Result<Option<(CampaignRecord, Tally)>, ApiProblem> {
        let kind = CampaignKind::Sale;
        let (record, tally) = self.present_record(id, kind).await?;
        if has_settings_of(&record, &tally) {
            return Ok(Some((record, tally)));
        }
        if !self.settled().await? {
            return Ok(None);
        }
        let (record, mut tally) = self.present_record(id, kind).await?;
        if tally.phase != Phase::Closed {
            // The parts of a spread sale are counted in turn, while units move between them.
            tally.supply = record.campaign.supply();
        }
        Ok(Some((record, tally)))
    }

    /// A campaign of one kind, from the ledger.
    async fn retained_record(
        &self,
        id: CampaignId,
        kind: CampaignKind,
    ) -> Result<CampaignRecord, ApiProblem> {
        if self.is_unknown(id) {
            return Err(ProblemKind::UnknownCampaign.into());
        }
        let Some(record) = self.ports.ledger.campaign(id).await? else {
            return Err(self.missing(id).await);
        };
        if record.campaign.kind() != kind {
            return Err(ProblemKind::UnknownCampaign.into());
        }
        Ok(record)
    }

    pub(crate) async fn tally_of(&self, record: &CampaignRecord) -> Result<Tally, EngineError> {
        let tally = self.ports.engine.tally(record.campaign.id).await?;
        Ok(tally.unwrap_or_else(|| draft_tally(record)))
    }

    /// Opens a campaign on the engine. Idempotent.
    pub(crate) async fn open(&self, setup: Setup) -> Result<(), EngineError> {
        if self.ports.engine.has_opened(setup.campaign.id) {
            return Ok(());
        }
        let open = Command::Open(Box::new(setup));
        self.ports.engine.submit(open).await.map(drop)
    }
}

/// Whether the ledger has the stock and the terms of the engine.
fn has_settings_of(record: &CampaignRecord, tally: &Tally) -> bool {
    let terms = SaleSettings::from_campaign(&record.campaign);
    tally.phase == Phase::Closed
        || tally.supply == record.campaign.supply()
            && (tally.terms.is_none() || tally.terms == terms)
}

fn draft_tally(record: &CampaignRecord) -> Tally {
    let campaign = &record.campaign;
    Tally {
        terms: SaleSettings::from_campaign(&record.campaign),
        phase: Phase::Draft,
        supply: campaign.supply(),
        remaining: campaign.supply(),
        funded_minor: campaign.funded_minor(),
        remaining_minor: campaign.funded_minor(),
        ..Tally::default()
    }
}

/// A fresh UUID of version 7.
pub fn id_at(now: Timestamp) -> Uuid {
    let millis = now.as_millis().max(0).unsigned_abs();
    let seconds = millis / 1_000;
    let nanos = (millis % 1_000) as u32 * 1_000_000;
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos))
}
