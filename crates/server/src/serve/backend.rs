//! What the API stands on: an engine, its log, a ledger, and what carries one into the other.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use qiang_control::settlement::{Options as SettlementOptions, Settlement};
use qiang_core::{
    event::Seq,
    ports::{Clock, Engine, EventLog, Ledger},
};
use qiang_embedded::{Embedded, SqliteLedger, SystemClock};
use qiang_redis::RedisEngine;

use crate::config::{Config, EngineKind, RedisConfig};

/// What operators watch of an engine, beside the ports.
pub trait Gauges: Send + Sync + 'static {
    /// Claims and commands that wait.
    fn queued(&self) -> usize;
    /// Log entries there are, and how many of them are settled, over all partitions.
    fn positions(&self) -> (Seq, Seq);
    /// Why settlement is stuck, if it is.
    fn stuck(&self) -> Option<String>;
    /// Why nothing is granted at the moment, if that is so.
    fn stopped(&self) -> Option<String>;
}

impl Gauges for Embedded {
    fn queued(&self) -> usize {
        self.queued()
    }

    fn positions(&self) -> (Seq, Seq) {
        self.positions()
    }

    fn stuck(&self) -> Option<String> {
        self.stuck()
    }

    fn stopped(&self) -> Option<String> {
        self.stopped()
    }
}

/// Goes down with the service.
#[async_trait]
trait Close: Send + Sync {
    /// Answers everything that was accepted and stops. Again does nothing.
    async fn close(&self) -> anyhow::Result<()>;

    /// Removes what it has on servers that others use too.
    async fn erase(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Close for Embedded {
    async fn close(&self) -> anyhow::Result<()> {
        let embedded = self.clone();
        let closing = tokio::task::spawn_blocking(move || Embedded::close(&embedded));
        closing.await.context("the engine failed while closing")
    }
}

/// What the API stands on.
#[derive(Clone)]
pub struct Backend {
    /// Decides claims.
    pub engine: Arc<dyn Engine>,
    /// The books.
    pub ledger: Arc<dyn Ledger>,
    /// What the books follow from.
    pub log: Arc<dyn EventLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What operators watch.
    pub gauges: Arc<dyn Gauges>,
    close: Arc<dyn Close>,
}

impl Backend {
    /// Opens the engine that the configuration names, on the current runtime.
    ///
    /// # Errors
    /// When its file or its servers cannot be used.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock);
        let path = config.engine.data.clone();
        let described = format!("open {}", path.display());
        match config.engine.kind {
            EngineKind::Embedded => {
                let by = clock.clone();
                let opening = tokio::task::spawn_blocking(move || Embedded::open(&path, by));
                let embedded = opening.await?.context(described)?;
                Ok(Self::embedded(embedded, clock))
            }
            EngineKind::Redis => {
                let by = clock.clone();
                let opening = tokio::task::spawn_blocking(move || SqliteLedger::open(&path, by));
                let ledger = opening.await?.context(described)?;
                Self::redis(&config.redis, ledger, clock).await
            }
        }
    }

    /// The embedded engine, which is its own ledger and log.
    #[must_use]
    pub fn embedded(embedded: Embedded, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(embedded);
        Self {
            engine: shared.clone(),
            ledger: shared.clone(),
            log: shared.clone(),
            gauges: shared.clone(),
            clock,
            close: shared,
        }
    }

    /// The engine on Redis, settling into a ledger.
    ///
    /// # Errors
    /// When Redis cannot be used.
    pub async fn redis(
        config: &RedisConfig,
        ledger: SqliteLedger,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let positions = ledger.positions().await?;
        let engine = RedisEngine::connect(config.options(), &positions)
            .await
            .context("connect to Redis")?;
        let halting = engine.clone();
        let runtime = tokio::runtime::Handle::current();
        let on_rollback = move |partition, settled, head| {
            let engine = halting.clone();
            let reason =
                format!("the log ends at entry {head}, and the ledger has it up to {settled}");
            runtime.spawn(async move { engine.halt(partition, &reason).await });
        };
        let log: Arc<dyn EventLog> = Arc::new(engine.clone());
        let books: Arc<dyn Ledger> = Arc::new(ledger.clone());
        let options = SettlementOptions::new(Box::new(on_rollback));
        let settlement = Settlement::start(Arc::clone(&log), Arc::clone(&books), options);
        let distributed = Arc::new(Distributed {
            engine: engine.clone(),
            settlement,
            ledger,
        });
        Ok(Self {
            engine: Arc::new(engine),
            ledger: books,
            log,
            clock,
            gauges: distributed.clone(),
            close: distributed,
        })
    }

    /// Answers everything that was accepted and stops the engine. Again does nothing.
    ///
    /// # Errors
    /// When it fails while closing.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.close.close().await
    }

    /// Removes what a closed engine has on servers that others use too; a file stays.
    ///
    /// # Errors
    /// When a server does not answer.
    pub async fn erase(&self) -> anyhow::Result<()> {
        self.close.erase().await
    }

    /// Waits until what is in the log now is in the ledger's tables; tells whether it is.
    ///
    /// # Errors
    /// When the log or the ledger does not answer.
    pub async fn settle(&self, wait_max: Duration) -> anyhow::Result<bool> {
        for partition in self.log.partitions() {
            let head = self.log.head(partition).await?;
            if !self.ledger.await_settled(partition, head, wait_max).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The engine on Redis, and what follows its log.
struct Distributed {
    engine: RedisEngine,
    settlement: Settlement,
    ledger: SqliteLedger,
}

impl Gauges for Distributed {
    fn queued(&self) -> usize {
        self.engine.queued()
    }

    fn positions(&self) -> (Seq, Seq) {
        let positions = self.settlement.positions();
        let sum =
            |of: fn(&qiang_control::settlement::Position) -> Seq| positions.iter().map(of).sum();
        (
            sum(|position| position.head),
            sum(|position| position.settled),
        )
    }

    fn stuck(&self) -> Option<String> {
        self.settlement.stuck()
    }

    fn stopped(&self) -> Option<String> {
        self.engine.stopped()
    }
}

#[async_trait]
impl Close for Distributed {
    async fn close(&self) -> anyhow::Result<()> {
        self.engine.close().await;
        self.settlement.stop().await;
        let ledger = self.ledger.clone();
        let closing = tokio::task::spawn_blocking(move || ledger.close());
        closing.await.context("the ledger failed while closing")
    }

    async fn erase(&self) -> anyhow::Result<()> {
        Ok(self.engine.erase().await?)
    }
}
