//! What the API stands on: an engine, its log, a ledger, and what carries one into the other.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use qiang_control::settlement::Position;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Clock, Engine, EventLog, Ledger, QuarantineCount, TransportStatus},
};
use qiang_embedded::{Embedded, SystemClock};

use super::distributed::{Books, Distributed};
use crate::config::{Config, EngineKind};

/// What operators watch of an engine, beside the ports.
pub trait Gauges: Send + Sync + 'static {
    /// Claims and commands that wait.
    fn queued(&self) -> usize;
    /// Log entries there are, and how many of them are settled, over all partitions.
    fn positions(&self) -> (Seq, Seq);
    /// Why settlement is stuck, if it is.
    fn stuck(&self) -> Option<String>;
    /// How many entries of each partition the ledger has set aside, as counted a while ago.
    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        Vec::new()
    }
    /// Why nothing is granted at the moment, if that is so.
    fn stopped(&self) -> Option<String>;
    /// How entries travel to the ledger, where this process sees to it.
    fn transport_report(&self) -> Option<TransportReport> {
        None
    }
}

/// How entries travel to the ledger.
#[derive(Debug, Clone)]
pub struct TransportReport {
    /// By which transport.
    pub transport: &'static str,
    /// How each partition is, and how the transport is with it.
    pub partitions: Vec<(Position, TransportStatus)>,
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
pub(super) trait Close: Send + Sync {
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
                let books = Books::open(config, clock.clone()).await?;
                let inside = config.settlement.inside;
                let distributed = Distributed::start(config, books, inside).await?;
                Ok(Self {
                    engine: distributed.answering(&config.settlement),
                    ledger: distributed.ledger(),
                    log: Arc::new(distributed.engine.clone()),
                    clock,
                    gauges: distributed.clone(),
                    close: distributed,
                })
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
