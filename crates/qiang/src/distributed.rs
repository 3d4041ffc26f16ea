//! The engine on Redis with its ledger, settlement between them, and the functions that depend on settlement.

mod ack_engine;
pub(crate) mod binding;
mod confirmations;
mod engine_clock;
mod gauges;
pub(crate) mod old_log;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use async_trait::async_trait;
use qiang_core::{
    book::{Claim, Command, Reply},
    campaign::AckLevel,
    event::{PartitionId, Seq},
    outcome::Outcome,
    ports::{
        AuditMonitor, Claimed, Clock, Engine, EngineError, EventLog, Ledger, RepairEngine,
        RetireEngine as _, Transport,
    },
};
use qiang_embedded::{Embedded, SqliteLedger};
use qiang_redis::{RedisEngine, RedisOptions, RedisTransport};
#[cfg(feature = "rabbitmq")]
use qiang_worker::broker::RabbitTransport;
use qiang_worker::{
    audits::ScheduledAudit,
    host::Host,
    reconcile::{ReconcileMonitor, Reconciliation},
    repair,
    retirement::Retirement,
    settlement::{Settlement, SettlementMonitor, SettlementOptions, settle_rest},
};
use tokio::runtime::Handle;

pub(crate) use self::engine_clock::EngineClock;
use self::{ack_engine::LedgerAckEngine, binding::Binder, confirmations::ConfirmationPermits};
use crate::{
    audit::NodeAuditor,
    close_component::CloseComponent,
    config::{NodeConfig, TransportName},
    ledger_ack::{confirm, confirm_command, has_grant, reach},
    transport_cleanup::TransportCleanup,
};

/// Maximum time that a grant with the acknowledgement level `ledger` waits for the ledger.
const LEDGER_WAIT_MAX: Duration = Duration::from_secs(10);

/// The ledger of a remote engine, or an engine's own ledger while no node serves it.
pub enum LedgerBackend {
    /// In a file.
    File(SqliteLedger),
    /// In the file of an embedded engine.
    Engine(Embedded),
    /// In a database.
    Database(Arc<dyn Ledger>),
}

impl LedgerBackend {
    /// Opens the ledger that the configuration names.
    ///
    /// # Errors
    /// When it cannot be used.
    pub async fn open(config: &NodeConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if let Some(url) = config.ledger.url() {
            let ledger = qiang_ledger::open(url, clock, config.ledger.options()).await;
            return Ok(Self::Database(ledger.context("open the ledger")?));
        }
        let path = config.engine.data.clone();
        let described = format!("open {}", path.display());
        let opening = tokio::task::spawn_blocking(move || SqliteLedger::open(&path, clock));
        Ok(Self::File(opening.await?.context(described)?))
    }

    /// Opens the ledger that the configuration names, including one in the file of an embedded engine. That file must
    /// exist.
    ///
    /// # Errors
    /// If it cannot be used.
    pub async fn open_any(config: &NodeConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if config.ledger.url().is_some() {
            return Self::open(config, clock).await;
        }
        let path = config.engine.data.clone();
        let described = format!("open {}", path.display());
        let opening = tokio::task::spawn_blocking(move || match Embedded::is_engine(&path)? {
            true => Embedded::open(&path, clock).map(Self::Engine),
            false => SqliteLedger::open(&path, clock).map(Self::File),
        });
        opening.await?.context(described)
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        match self {
            Self::Engine(engine) => Arc::new(engine.clone()),
            Self::File(file) => Arc::new(file.clone()),
            Self::Database(ledger) => Arc::clone(ledger),
        }
    }

    /// Closes a file. A database stays connected until its last handle is dropped.
    ///
    /// # Errors
    /// When closing fails.
    pub async fn close(&self) -> anyhow::Result<()> {
        let closing = match self {
            Self::File(file) => {
                let file = file.clone();
                tokio::task::spawn_blocking(move || file.close())
            }
            Self::Engine(engine) => {
                let engine = engine.clone();
                tokio::task::spawn_blocking(move || engine.close())
            }
            Self::Database(_) => return Ok(()),
        };
        closing.await.context("the ledger failed while closing")
    }
}

/// The engine on Redis, its ledger, and settlement.
pub(crate) struct Distributed {
    pub(crate) engine: RedisEngine,
    /// Findings of reconciliation; `None` if this process does not run it.
    findings: Option<Arc<ReconcileMonitor>>,
    settlement: Option<Arc<Settlement>>,
    transport: &'static str,
    ledger_backend: LedgerBackend,
    /// The ledger's file; `None` if the ledger is in a database.
    file: Option<PathBuf>,
    /// Maximum number of entries that may wait for the ledger.
    lag_entries_max: u64,
    /// Maximum time that a stop waits for the ledger.
    stop_settling: Duration,
    is_rest_settled: AtomicBool,
    confirmations: ConfirmationPermits,
    monitor: Arc<SettlementMonitor>,
    audits: Arc<AuditMonitor>,
    monitoring: Host,
    upkeep: Arc<Host>,
}

impl Distributed {
    /// Connects to Redis. `serves` says whether users may claim here, `settle` whether this process settles.
    pub(crate) async fn start(
        config: &NodeConfig,
        ledger_backend: LedgerBackend,
        clock: Arc<dyn Clock>,
        (serves, settle): (bool, bool),
        upkeep: Arc<Host>,
    ) -> anyhow::Result<Arc<Self>> {
        let ledger = ledger_backend.ledger();
        let positions = ledger.positions().await?;
        let options = config.redis_options();
        let mut binder = Binder::start(Arc::clone(&ledger), &options).await?;
        let options = RedisOptions {
            serves,
            identity: Some(binder.identity()),
            ..options
        };
        let engine = RedisEngine::connect(options, &positions)
            .await
            .context("connect to Redis")?;
        if let Err(refused) = binder.check().await {
            engine.close().await;
            return Err(refused);
        }
        if let Some(reason) = engine.stopped() {
            tracing::error!(
                reason,
                "Redis partly unreachable; its partitions do not grant"
            );
        }
        let log: Arc<dyn EventLog> = Arc::new(engine.clone());
        let settlement = if settle {
            Some(Arc::new(settlement(config, &engine, &log, &ledger).await?))
        } else {
            None
        };
        let monitor = Arc::<SettlementMonitor>::default();
        let monitoring = Host::new("monitor");
        monitoring.start("binding", Binder::SCHEDULE, binder);
        let repairing: Arc<dyn RepairEngine> = Arc::new(engine.clone());
        let keeping = Arc::clone(&repairing);
        let on_positions = Box::new(move |positions: &[_]| keeping.release_kept(positions));
        let watched = Arc::clone(&ledger);
        let reconciler = monitor.reconciler(log, watched, &positions, on_positions);
        monitoring.start("settlement", SettlementMonitor::SCHEDULE, reconciler);
        let relays = config.settlement.transport == TransportName::RabbitMq;
        if settlement.is_some() && relays {
            let leftovers = TransportCleanup::from_options(config.redis.options());
            monitoring.start("unused transports", TransportCleanup::SCHEDULE, leftovers);
        }
        engine.recall_from(Arc::clone(&ledger));
        let retirement = Retirement::new(Arc::new(engine.clone()), Arc::clone(&ledger));
        monitoring.start("retirement", Retirement::SCHEDULE, retirement);
        repair::start_all(&monitoring, &repairing, &ledger, config.redis.repair);
        let audits = Arc::<AuditMonitor>::default();
        if let Some(interval) = config.audit.interval() {
            let auditor = Arc::new(NodeAuditor::beside(config));
            let audit = ScheduledAudit::new(auditor, clock.clone(), audits.clone(), interval);
            monitoring.start("audit", ScheduledAudit::schedule(interval), audit);
        }
        let findings = config.redis.reconcile_options().map(|options| {
            let findings = Arc::<ReconcileMonitor>::default();
            let reconciliation = Reconciliation::new(
                Arc::new(engine.clone()),
                ledger_backend.ledger(),
                clock,
                options,
                Arc::clone(&findings),
            );
            let schedule = Reconciliation::schedule(options);
            monitoring.start("reconciliation", schedule, reconciliation);
            findings
        });
        Ok(Arc::new(Self {
            engine,
            findings,
            settlement,
            transport: config.settlement.transport.name(),
            ledger_backend,
            file: config
                .ledger
                .url()
                .is_none()
                .then(|| config.engine.data.clone()),
            lag_entries_max: config.settlement.lag_entries_max,
            stop_settling: config.settlement.stop_timeout(),
            is_rest_settled: AtomicBool::new(false),
            confirmations: ConfirmationPermits::new(),
            monitor,
            audits,
            monitoring,
            upkeep,
        }))
    }

    pub(crate) fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger_backend.ledger()
    }

    /// Waits until the ledger has a grant of a campaign with the level `ledger`. For a grant of this node, waits up to
    /// its own log position. For any other repeated grant, checks the ledger first and then waits for the log's end.
    /// Returns all other answers unchanged.
    async fn confirm(&self, claim: &Claim, claimed: Claimed) -> Result<Claimed, EngineError> {
        let Some(grant) = claimed.outcome.grant().copied() else {
            return Ok(claimed);
        };
        let known = self.engine.ack_and_owner(claim.campaign);
        if known.is_none_or(|(ack, _)| ack != AckLevel::Ledger) {
            return Ok(claimed);
        }
        let ledger = self.ledger();
        let confirmed = Claimed {
            ack: AckLevel::Ledger,
            ..claimed
        };
        let is_new = matches!(claimed.outcome, Outcome::Granted(_));
        let known = self.engine.place_of(&grant);
        if !is_new && known.is_none() && has_grant(&*ledger, claim, &grant).await? {
            return Ok(confirmed);
        }
        let place = known
            .or_else(|| self.engine.position_after(claim))
            .ok_or_else(|| EngineError::uncertain("the grant's log position is not known"))?;
        if let Some(settlement) = &self.settlement {
            settlement.wake(place.0);
        }
        reach(&*ledger, place, LEDGER_WAIT_MAX).await?;
        let looked = confirm(&*ledger, claim, &grant, place.0).await;
        self.engine.confirmed(&grant);
        looked.map(|()| confirmed)
    }

    /// Waits until the ledger has the effect of a command, if its campaign has the level `ledger` or the command
    /// changes a sale. A loss of entries could otherwise undo the change without notice.
    async fn confirm_command(&self, command: &Command, reply: &Reply) -> Result<(), EngineError> {
        let places = self.engine.positions_after(command).await?;
        if let Some(settlement) = &self.settlement {
            for (partition, _) in &places {
                settlement.wake(*partition);
            }
        }
        let made = (command, reply);
        confirm_command(&*self.ledger(), made, &places, LEDGER_WAIT_MAX).await
    }

    /// Settles the entries that this process has answered or read, even if other processes settle. All may stop at the
    /// same time, and Redis may be gone before they start again. Logs the entries that remain. Idempotent.
    async fn settle_rest(&self) {
        if self.is_rest_settled.swap(true, Ordering::Relaxed) || self.stop_settling.is_zero() {
            return;
        }
        let known = self.engine.known_positions();
        let log: Arc<dyn EventLog> = Arc::new(self.engine.clone());
        for unsettled in settle_rest(&log, &self.ledger(), known, self.stop_settling).await {
            tracing::error!(
                partition = unsettled.partition.0,
                settled = unsettled.settled,
                known = unsettled.known,
                reason = unsettled.reason,
                "stopped before the ledger has all entries; keep Redis until another process has settled them"
            );
        }
    }

    /// The engine for the API.
    pub(crate) fn with_ledger_ack(self: &Arc<Self>) -> Arc<dyn Engine> {
        Arc::new(LedgerAckEngine {
            distributed: Arc::clone(self),
            runtime: Handle::current(),
        })
    }
}

async fn settlement(
    config: &NodeConfig,
    engine: &RedisEngine,
    log: &Arc<dyn EventLog>,
    ledger: &Arc<dyn Ledger>,
) -> anyhow::Result<Settlement> {
    // The engine knows the ledger's position and stops granting without this callback.
    let on_rollback = |partition: PartitionId, settled: Seq, head: Seq| {
        let partition = partition.0;
        tracing::error!(
            partition,
            settled,
            head,
            "the log has lost entries that the ledger has"
        );
    };
    let mut options = SettlementOptions::new(Box::new(on_rollback));
    if let Some(transport_options) = config.settlement.transport_options() {
        let transport = RedisTransport::new(config.redis.options(), transport_options)?;
        options.transport = Some(Arc::new(transport.fenced_by(engine)) as Arc<dyn Transport>);
    }
    #[cfg(feature = "rabbitmq")]
    if config.settlement.transport == TransportName::RabbitMq {
        let broker = config.settlement.broker(&config.redis.prefix);
        let transport = RabbitTransport::start(broker, Arc::clone(log), Arc::clone(ledger))?;
        if let Err(error) = transport.check().await {
            let reason = error.to_string();
            tracing::error!(
                transport = config.settlement.transport.name(),
                reason,
                "the transport does not work: entries are read from the log until it does"
            );
        }
        options.transport = Some(Arc::new(transport) as Arc<dyn Transport>);
    }
    Ok(Settlement::start(
        Arc::clone(log),
        Arc::clone(ledger),
        options,
    ))
}

#[async_trait]
impl CloseComponent for Distributed {
    fn wake(&self) {
        self.monitoring.wake();
        if let Some(settlement) = &self.settlement {
            settlement.wake_all();
        }
    }

    async fn close(&self) -> anyhow::Result<()> {
        self.engine.finish().await;
        if let Some(settlement) = &self.settlement {
            settlement.stop().await;
        }
        self.settle_rest().await;
        self.monitoring.abort();
        self.engine.close().await;
        self.ledger_backend.close().await
    }

    async fn erase(&self) -> anyhow::Result<()> {
        Ok(self.engine.erase().await?)
    }
}

/// Starts settling without serving, for `qiang worker`.
pub(crate) async fn settle(
    config: &NodeConfig,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<Distributed>> {
    let ledger_backend = LedgerBackend::open(config, Arc::clone(&clock)).await?;
    let upkeep = Arc::new(Host::new("upkeep"));
    Distributed::start(config, ledger_backend, clock, (false, true), upkeep).await
}
