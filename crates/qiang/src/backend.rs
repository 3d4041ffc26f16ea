//! The backend of a node: an engine, its log, a ledger, and settlement from one to the other.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use qiang_api::{Disk, Gauges, Ports};
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{
        ArchiveLog, AuditMonitor, Clock, Engine, EventLog, GateAnswers, LastAudit, QuarantineCount,
    },
    time::{AdjustableClock, Timestamp},
};
use qiang_embedded::{Embedded, EmbeddedOptions, GuardedClock, LogArchives};
use qiang_worker::host::Host;

use crate::{
    audit::NodeAuditor,
    close_component::CloseComponent,
    config::{EngineKind, NodeConfig},
    development_clock::{self, DevelopmentClock},
    distributed::{Distributed, EngineClock, LedgerBackend},
    machine::{WallClock, disk_of},
};

/// Name of the reconcilers' host in the log.
const UPKEEP: &str = "upkeep";

/// Gauges of the embedded engine, for operators.
struct EmbeddedGauges {
    engine: Arc<Embedded>,
    upkeep: Arc<Host>,
    wall_clock: WallClock,
    audits: Arc<AuditMonitor>,
}

impl Gauges for EmbeddedGauges {
    fn queued(&self) -> usize {
        self.engine.queued()
    }

    fn campaigns_in_memory(&self) -> Option<usize> {
        Some(self.engine.campaigns_in_memory())
    }

    fn positions(&self) -> (Seq, Seq) {
        self.engine.positions()
    }

    fn lag_in(&self, _: PartitionId) -> Option<u64> {
        let (committed, settled) = self.engine.positions();
        Some(committed.saturating_sub(settled))
    }

    fn gate_answers(&self) -> GateAnswers {
        self.engine.gate_answers()
    }

    fn stuck(&self) -> Option<String> {
        self.engine.stuck()
    }

    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        let partitions = self.engine.partitions();
        let count = |partition| (partition, self.engine.quarantined());
        partitions.into_iter().map(count).collect()
    }

    fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
        let partitions = EventLog::partitions(&*self.engine).into_iter();
        partitions
            .map(|partition| (partition, self.engine.stopped()))
            .collect()
    }

    fn clock_offset_seconds(&self) -> Option<f64> {
        Some(self.wall_clock.offset_seconds())
    }

    fn start_gap_seconds(&self) -> Option<f64> {
        Some(self.engine.start_gap().as_secs_f64())
    }

    fn disk(&self) -> Option<Disk> {
        disk_of(self.engine.path())
    }

    fn last_audit(&self) -> Option<LastAudit> {
        self.audits.last()
    }

    fn upkeep_stuck(&self) -> Option<String> {
        self.upkeep.stuck()
    }
}

/// Opens the configured file, or creates it.
async fn open_embedded(
    config: &NodeConfig,
    clock: Arc<dyn Clock>,
    options: EmbeddedOptions,
) -> anyhow::Result<Embedded> {
    let path = config.engine.data.clone();
    let described = format!("open {}", path.display());
    let open = move || Embedded::open_with(&path, clock, options);
    let opening = tokio::task::spawn_blocking(open);
    opening.await?.context(described)
}

/// Opens the configured file for an operator's command. The file must exist.
pub(crate) async fn open_existing(
    config: &NodeConfig,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Embedded> {
    let path = &config.engine.data;
    ensure!(
        tokio::fs::try_exists(path).await?,
        "there is no file {}: name it with --data",
        path.display()
    );
    let options = config.embedded_options(Timestamp::default());
    open_embedded(config, clock, options).await
}

/// The engine's log with the folder for its archives, if one is configured.
pub(crate) fn archives(config: &NodeConfig, embedded: &Embedded) -> Option<LogArchives> {
    let folder = config.engine.archive_dir.clone();
    (!folder.as_os_str().is_empty()).then(|| embedded.archives_in(folder))
}

/// Clock of the embedded engine, and the same if requests may move it.
struct EngineClocks {
    clock: Arc<dyn Clock>,
    test_clock: Option<Arc<dyn AdjustableClock>>,
}

impl EngineClocks {
    fn open(config: &NodeConfig, system: Arc<GuardedClock>) -> anyhow::Result<Self> {
        let data = &config.engine.data;
        if config.pages.development && development_clock::is_for_development(data) {
            let clock = DevelopmentClock::open(system, data)?;
            return Ok(Self {
                clock: clock.clone(),
                test_clock: Some(clock),
            });
        }
        development_clock::refuse_moved(data)?;
        Ok(Self {
            clock: system,
            test_clock: None,
        })
    }
}

#[async_trait]
impl CloseComponent for Embedded {
    async fn close(&self) -> anyhow::Result<()> {
        let embedded = self.clone();
        let closing = tokio::task::spawn_blocking(move || Embedded::close(&embedded));
        closing.await.context("the engine failed while closing")
    }
}

/// Ports of the API, and the engine that closes with them.
#[derive(Clone)]
pub struct Backend {
    /// Engine, ledger, log, clock and gauges.
    pub ports: Ports,
    /// The engine for work without a waiting caller. It answers commands before the ledger has them.
    pub(crate) background: Arc<dyn Engine>,
    /// Runs the reconcilers of a node.
    pub(crate) upkeep: Arc<Host>,
    /// The log to archive; `None` if archiving is off.
    pub(crate) archives: Option<Arc<dyn ArchiveLog>>,
    /// State of scheduled audits that a node runs; `None` if the engine's processes run them.
    pub(crate) audits: Option<Arc<AuditMonitor>>,
    close: Arc<dyn CloseComponent>,
}

impl Backend {
    /// Opens the engine that the configuration names, on the current runtime.
    ///
    /// # Errors
    /// If its file or its servers cannot be used.
    pub async fn open(config: &NodeConfig) -> anyhow::Result<Self> {
        Self::open_with(config, GuardedClock::system()).await
    }

    /// Opens the engine that the configuration names, with this clock of the machine.
    ///
    /// # Errors
    /// If its file or its servers cannot be used.
    pub async fn open_with(config: &NodeConfig, system: Arc<GuardedClock>) -> anyhow::Result<Self> {
        match config.engine.kind {
            EngineKind::Embedded => {
                let EngineClocks { clock, test_clock } = EngineClocks::open(config, system)?;
                let behind_max = Duration::from_millis(config.engine.clock_behind_ms_max);
                let options = EmbeddedOptions {
                    clock_behind_max: behind_max,
                    ..config.embedded_options(clock.now())
                };
                let embedded = open_embedded(config, clock.clone(), options).await?;
                let archives = archives(config, &embedded);
                let archives = archives.map(|log| Arc::new(log) as Arc<dyn ArchiveLog>);
                let mut backend = Self::embedded(embedded, clock);
                backend.ports.test_clock = test_clock;
                Ok(Self {
                    archives,
                    ..backend
                })
            }
            EngineKind::Redis => {
                let clock = system;
                let ledger = LedgerBackend::open(config, clock.clone()).await?;
                let inside = config.settlement.in_process;
                let upkeep = Arc::new(Host::new(UPKEEP));
                let by: Arc<dyn Clock> = clock.clone();
                let does = (true, inside);
                let started = Distributed::start(config, ledger, by, does, Arc::clone(&upkeep));
                let distributed = started.await?;
                let ports = Ports {
                    engine: distributed.with_ledger_ack(),
                    ledger: distributed.ledger(),
                    log: Arc::new(distributed.engine.clone()),
                    waiting_room: Arc::new(distributed.engine.clone()),
                    waiting: Arc::default(),
                    engine_clock: Arc::new(EngineClock {
                        engine: distributed.engine.clone(),
                        own: clock.clone(),
                    }),
                    clock,
                    gauges: distributed.clone(),
                    challenge: None,
                    webhooks: None,
                    operator: Some(Arc::new(distributed.engine.clone())),
                    auditor: Some(Arc::new(NodeAuditor::beside(config))),
                    test_clock: None,
                };
                Ok(Self {
                    ports,
                    background: Arc::new(distributed.engine.clone()),
                    upkeep,
                    archives: None,
                    audits: None,
                    close: distributed,
                })
            }
        }
    }

    /// The embedded engine, which is its own ledger and log.
    #[must_use]
    pub fn embedded(embedded: Embedded, clock: Arc<dyn Clock>) -> Self {
        let shared = Arc::new(embedded);
        let upkeep = Arc::new(Host::new(UPKEEP));
        let auditor = NodeAuditor::File(shared.path().to_owned());
        let audits = Arc::<AuditMonitor>::default();
        let gauges = EmbeddedGauges {
            engine: Arc::clone(&shared),
            upkeep: Arc::clone(&upkeep),
            wall_clock: WallClock::start(),
            audits: Arc::clone(&audits),
        };
        let ports = Ports {
            engine: shared.clone(),
            ledger: shared.clone(),
            log: shared.clone(),
            waiting_room: shared.clone(),
            waiting: Arc::default(),
            gauges: Arc::new(gauges),
            engine_clock: Arc::clone(&clock),
            clock,
            challenge: None,
            webhooks: None,
            operator: None,
            auditor: Some(Arc::new(auditor)),
            test_clock: None,
        };
        Self {
            ports,
            background: shared.clone(),
            upkeep,
            archives: None,
            audits: Some(audits),
            close: shared,
        }
    }

    /// Runs all periodic work once, without waiting for its next interval.
    pub(crate) fn wake(&self) {
        self.upkeep.wake();
        self.close.wake();
    }

    /// Answers all accepted requests and stops the engine. Idempotent.
    ///
    /// # Errors
    /// If the engine fails while closing.
    pub async fn close(&self) -> anyhow::Result<()> {
        self.close.close().await
    }

    /// Removes a closed engine's data from shared servers. A file stays.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn erase(&self) -> anyhow::Result<()> {
        self.close.erase().await
    }

    /// Waits until the ledger has all entries that the log has now.
    ///
    /// # Errors
    /// If this takes longer than `wait_max`, or the log or the ledger does not answer.
    pub async fn settle(&self, wait_max: Duration) -> anyhow::Result<()> {
        let Ports { log, ledger, .. } = &self.ports;
        for partition in log.partitions() {
            let head = log.head(partition).await?;
            ensure!(
                ledger.await_settled(partition, head, wait_max).await?,
                "the ledger did not catch up within {} s",
                wait_max.as_secs()
            );
        }
        Ok(())
    }
}
