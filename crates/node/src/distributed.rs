//! The engine on Redis as a node uses it: with a ledger, with settlement from one to the other, and with what depends
//! on how far that is.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use qiang_api::{Gauges, PartitionReport, TransportReport};
use qiang_broker::RabbitTransport;
use qiang_control::{
    host::Host,
    settlement::{Options as SettlementOptions, Position, Settlement, SettlementMonitor},
};
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::{PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{
        Claimed, Clock, Engine, EngineError, EventLog, Ledger, QuarantineCount, Ticket, Transport,
        TransportStatus,
    },
};
use qiang_embedded::{Embedded, SqliteLedger};
use qiang_redis::{RedisEngine, RedisTransport};
use tokio::runtime::Handle;

use crate::{
    close::Close,
    config::{Config, SettlementConfig},
};

/// How long a grant of a campaign that asks for `ledger` waits for it.
const LEDGER_WAIT_MAX: Duration = Duration::from_secs(10);

/// The ledger behind a remote engine; or an engine's own, for those who look after it while no node serves it.
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
    pub async fn open(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if let Some(url) = config.ledger.url() {
            let ledger = qiang_ledger::open(url, clock, config.ledger.options()).await;
            return Ok(Self::Database(ledger.context("open the ledger")?));
        }
        let path = config.engine.data.clone();
        let described = format!("open {}", path.display());
        let opening = tokio::task::spawn_blocking(move || SqliteLedger::open(&path, clock));
        Ok(Self::File(opening.await?.context(described)?))
    }

    /// Opens whatever ledger the configuration names, also one in the file of an embedded engine. That file must be
    /// there.
    ///
    /// # Errors
    /// When it cannot be used.
    pub async fn open_any(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
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

    /// Closes a file; a database stays connected until the last user is dropped.
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
    settlement: Option<Settlement>,
    transport: &'static str,
    ledger_backend: LedgerBackend,
    monitor: Arc<SettlementMonitor>,
    monitoring: Host,
}

impl Distributed {
    /// Connects to Redis and starts settling, if this process is to.
    pub(crate) async fn start(
        config: &Config,
        ledger_backend: LedgerBackend,
        settle: bool,
    ) -> anyhow::Result<Arc<Self>> {
        let ledger = ledger_backend.ledger();
        let positions = ledger.positions().await?;
        let engine = RedisEngine::connect(config.redis.options(), &positions)
            .await
            .context("connect to Redis")?;
        let log: Arc<dyn EventLog> = Arc::new(engine.clone());
        let settlement = if settle {
            Some(settlement(config, &engine, &log, &ledger).await?)
        } else {
            None
        };
        let monitor = Arc::<SettlementMonitor>::default();
        let monitoring = Host::new("monitor");
        let reconciler = monitor.reconciler(log, ledger);
        monitoring.start("settlement", SettlementMonitor::SCHEDULE, reconciler);
        Ok(Arc::new(Self {
            engine,
            settlement,
            transport: config.settlement.transport.name(),
            ledger_backend,
            monitor,
            monitoring,
        }))
    }

    pub(crate) fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger_backend.ledger()
    }

    /// The engine as the API uses it.
    pub(crate) fn with_ledger_ack(self: &Arc<Self>, config: &SettlementConfig) -> Arc<dyn Engine> {
        Arc::new(LedgerAckEngine {
            distributed: Arc::clone(self),
            ledger: self.ledger(),
            unsettled_max: config.unsettled_max,
            runtime: Handle::current(),
        })
    }
}

async fn settlement(
    config: &Config,
    engine: &RedisEngine,
    log: &Arc<dyn EventLog>,
    ledger: &Arc<dyn Ledger>,
) -> anyhow::Result<Settlement> {
    let halting = engine.clone();
    let runtime = Handle::current();
    let on_rollback = move |partition: PartitionId, settled: Seq, head: Seq| {
        let engine = halting.clone();
        let reason = format!("the log ends at entry {head}, and the ledger has it up to {settled}");
        runtime.spawn(async move { engine.halt(partition, &reason).await });
    };
    let mut options = SettlementOptions::new(Box::new(on_rollback));
    if let Some(transport_options) = config.settlement.transport_options() {
        let transport = RedisTransport::new(config.redis.options(), transport_options)?;
        options.transport = Some(Arc::new(transport) as Arc<dyn Transport>);
    }
    if let Some(broker) = config.settlement.broker(&config.redis.prefix) {
        // Leaves no list that nobody empties, and no group that keeps the log from being trimmed.
        qiang_redis::remove_transports(&config.redis.options()).await?;
        let transport = RabbitTransport::start(broker, Arc::clone(log), Arc::clone(ledger))?;
        options.transport = Some(Arc::new(transport) as Arc<dyn Transport>);
    }
    Ok(Settlement::start(
        Arc::clone(log),
        Arc::clone(ledger),
        options,
    ))
}

impl Gauges for Distributed {
    fn queued(&self) -> usize {
        self.engine.queued()
    }

    fn positions(&self) -> (Seq, Seq) {
        let settled = self.monitor.settled();
        (self.monitor.lag() + settled, settled)
    }

    fn stuck(&self) -> Option<String> {
        let own = self.settlement.as_ref().and_then(Settlement::stuck);
        // Another process may own the partition.
        own.or_else(|| self.monitor.stalled())
    }

    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        self.monitor.quarantine()
    }

    fn stopped(&self) -> Option<String> {
        self.engine.stopped()
    }

    fn transport_report(&self) -> Option<TransportReport> {
        let settlement = self.settlement.as_ref()?;
        let report = |(position, status): (Position, TransportStatus)| PartitionReport {
            partition: position.partition,
            lag: position.lag(),
            status,
        };
        Some(TransportReport {
            transport: self.transport,
            partitions: settlement.statuses().into_iter().map(report).collect(),
        })
    }
}

#[async_trait]
impl Close for Distributed {
    async fn close(&self) -> anyhow::Result<()> {
        self.engine.close().await;
        if let Some(settlement) = &self.settlement {
            settlement.stop().await;
        }
        self.monitoring.abort();
        self.ledger_backend.close().await
    }

    async fn erase(&self) -> anyhow::Result<()> {
        Ok(self.engine.erase().await?)
    }
}

/// The engine, with the acknowledgement level `ledger`, and with a bound on unsettled entries.
struct LedgerAckEngine {
    distributed: Arc<Distributed>,
    ledger: Arc<dyn Ledger>,
    unsettled_max: u64,
    runtime: Handle,
}

impl Engine for LedgerAckEngine {
    fn claim(&self, claim: Claim) -> Ticket<Claimed> {
        if self.distributed.monitor.lag() >= self.unsettled_max {
            return Ticket::ready(Err(EngineError::Overloaded));
        }
        let engine = &self.distributed.engine;
        let asks = engine.asks_for(&claim);
        if asks.is_some_and(|ack| ack != AckLevel::Ledger) {
            return engine.claim(claim);
        }
        let (answer, ticket) = Ticket::new();
        let (engine, ledger) = (engine.clone(), Arc::clone(&self.ledger));
        self.runtime.spawn(async move {
            let claimed = match engine.claim(claim.clone()).await {
                Ok(claimed) if claimed.outcome.grant().is_some() => {
                    confirmed(&engine, &*ledger, &claim, claimed).await
                }
                other => other,
            };
            answer.send(claimed);
        });
        ticket
    }

    fn submit(&self, command: Command) -> Ticket<Reply> {
        self.distributed.engine.submit(command)
    }

    fn peek(&self, claim: &Claim) -> Option<Outcome> {
        self.distributed.engine.peek(claim)
    }

    fn tally(&self, campaign: CampaignId) -> Ticket<Option<Tally>> {
        self.distributed.engine.tally(campaign)
    }

    fn order(&self, order: OrderId) -> Ticket<Option<OrderView>> {
        self.distributed.engine.order(order)
    }

    fn probe(&self) -> Ticket<()> {
        self.distributed.engine.probe()
    }

    fn ack_levels(&self) -> &'static [AckLevel] {
        if self
            .distributed
            .engine
            .ack_levels()
            .contains(&AckLevel::Replica)
        {
            &[AckLevel::Memory, AckLevel::Replica, AckLevel::Ledger]
        } else {
            &[AckLevel::Memory, AckLevel::Ledger]
        }
    }
}

/// Waits for the ledger to have a grant of a campaign that asks for `ledger`. Others it returns as they are.
async fn confirmed(
    engine: &RedisEngine,
    ledger: &dyn Ledger,
    claim: &Claim,
    claimed: Claimed,
) -> Result<Claimed, EngineError> {
    if engine.asks_for(claim) != Some(AckLevel::Ledger) {
        return Ok(claimed);
    }
    let unknown = |reason: String| EngineError::Uncertain { reason };
    let (partition, seq) = engine
        .position_after(claim)
        .ok_or_else(|| unknown("the grant's place in the log is not known".to_owned()))?;
    match ledger.await_settled(partition, seq, LEDGER_WAIT_MAX).await {
        Ok(true) => Ok(Claimed {
            ack: AckLevel::Ledger,
            ..claimed
        }),
        Ok(false) => Err(unknown(
            "the ledger has not confirmed it in time".to_owned(),
        )),
        Err(error) => Err(unknown(error.to_string())),
    }
}

/// Settles without serving until `stop` is ready: what `qiang worker` does.
pub(crate) async fn settle_until(
    config: &Config,
    clock: Arc<dyn Clock>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let ledger_backend = LedgerBackend::open(config, clock).await?;
    let distributed = Distributed::start(config, ledger_backend, true).await?;
    tracing::info!("settling");
    stop.await;
    distributed.close().await
}
