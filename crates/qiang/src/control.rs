//! Single runs of the control plane's reconcilers from the command line.
//!
//! Nodes and workers run the reconcilers all the time. An operator runs one if no process does, or to run it at once.
//! Each is safe to repeat, and safe to run beside others.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use qiang_api::UsageError;
use qiang_core::{
    book::{Command, Reply},
    ports::{
        ActionKind, Clock, Discard, Engine, EventLog, Ledger, RepairEngine as _, RepairState,
        THE_SERVICE, WaitingRoom,
    },
    queue_entry::QueueLimits,
    reconcile::{DifferenceKind, NotCompared},
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_worker::{
    discards::Discarder,
    drafts::DraftOpener,
    keys::KeyPurger,
    packets::PacketCloser,
    settlement::{ENTRIES_MAX, settle_once},
    waiting::{BlockedQueue, QueuePorts, QueueProcessor},
    webhooks::{WebhookDeliverer, WebhookPorts},
};
use serde_json::json;

use crate::{
    archive, backend,
    close_component::CloseComponent,
    config::{EngineKind, NodeConfig},
    maintenance::Maintenance,
    operator::Operator,
};

/// Approximate maximum number of log entries that one tick makes.
const EVENTS_MAX: usize = 10_000;
/// Maximum time for the embedded engine to settle its log.
const SETTLED_MAX: Duration = Duration::from_secs(300);

/// A reconciler that an operator can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReconcilerName {
    /// Opens campaigns that are funded and not opened.
    Drafts,
    /// Closes packets with no unclaimed share.
    Packets,
    /// Performs the changes that are due by now.
    Due,
    /// Settles the logs into the ledger.
    Settlement,
    /// Discards grants that the ledger refused.
    Discards,
    /// Repairs partitions after a loss of data.
    Repair,
    /// Decides queue entries.
    Waiting,
    /// Deletes old idempotency keys.
    Keys,
    /// Archives old entries of the log.
    Archive,
    /// Delivers webhook events.
    Webhooks,
    /// Compares engine and ledger.
    Reconciliation,
}

impl ReconcilerName {
    /// All reconcilers, ordered so that each finds the results of those before it.
    pub const ALL: [Self; 11] = [
        Self::Repair,
        Self::Drafts,
        Self::Due,
        Self::Waiting,
        Self::Settlement,
        Self::Discards,
        Self::Packets,
        Self::Keys,
        Self::Archive,
        Self::Webhooks,
        Self::Reconciliation,
    ];

    /// Name of the reconciler.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drafts => "drafts",
            Self::Packets => "packets",
            Self::Due => "due",
            Self::Settlement => "settlement",
            Self::Discards => "discards",
            Self::Repair => "repair",
            Self::Waiting => "waiting",
            Self::Keys => "keys",
            Self::Archive => "archive",
            Self::Webhooks => "webhooks",
            Self::Reconciliation => "reconciliation",
        }
    }

    /// Purpose of the reconciler, in one line.
    #[must_use]
    pub fn purpose(self) -> &'static str {
        match self {
            Self::Drafts => {
                "opens campaigns that the ledger has and no engine has, then checks them"
            }
            Self::Packets => "closes packets whose shares are all claimed",
            Self::Due => "ends windows, closes and refunds campaigns that are over, expires holds",
            Self::Settlement => "settles the log of every partition into the ledger",
            Self::Discards => "restocks the units of quarantined grants that operators discarded",
            Self::Waiting => "decides the queue entries that can be decided now",
            Self::Webhooks => "delivers webhook events to their endpoints",
            Self::Repair => "repairs partitions that have lost entries (Redis)",
            Self::Keys => {
                "deletes idempotency keys that are older than `limits.idempotency_key_ttl_ms`"
            }
            Self::Archive => "archives the months of the log that are over (embedded)",
            Self::Reconciliation => "compares engine and ledger without changing anything (Redis)",
        }
    }

    /// Whether the reconciler has a dry run: it lists its work and changes nothing.
    #[must_use]
    pub fn has_dry_run(self) -> bool {
        !matches!(self, Self::Due | Self::Waiting | Self::Keys)
    }

    /// The reconciler with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Result of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Items of work that were found.
    pub found: u64,
    /// Items that are done.
    pub done: u64,
    /// Items that remain, or differences that were found, one per line.
    pub lines: Vec<String>,
}

impl RunReport {
    /// Report of a run that has done all its work.
    fn all(found: u64) -> Self {
        Self {
            found,
            done: found,
            lines: Vec::new(),
        }
    }

    fn list(lines: Vec<impl fmt::Display>) -> Self {
        Self {
            found: lines.len() as u64,
            done: 0,
            lines: lines.iter().map(ToString::to_string).collect(),
        }
    }
}

/// An engine and its ledger, opened to run reconcilers from the command line.
pub enum ReconcilerRunner {
    /// The engine's file. No other process has it open.
    Embedded(Embedded),
    /// Redis and the ledger, beside nodes and workers.
    Redis(Maintenance),
}

impl ReconcilerRunner {
    /// Opens the engine and the ledger that the configuration names. Creates neither.
    ///
    /// # Errors
    /// If Redis or the ledger does not exist or cannot be used, or another process has the file open.
    pub async fn open(config: &NodeConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        if config.engine.kind == EngineKind::Redis {
            return Ok(Self::Redis(Maintenance::open(config, clock).await?));
        }
        let embedded = backend::open_existing(config, clock).await?;
        Ok(Self::Embedded(embedded))
    }

    /// Runs a reconciler once, with the settings of this configuration. Records the run as an action of `by` before it
    /// changes anything. Without `by`, it only lists the pending work.
    ///
    /// # Errors
    /// If the reconciler has no dry run, does not run on this engine, or fails.
    pub async fn run(
        &self,
        config: &NodeConfig,
        reconciler: ReconcilerName,
        by: Option<&Operator>,
    ) -> anyhow::Result<RunReport> {
        let (name, dry) = (reconciler.name(), by.is_none());
        if dry && !reconciler.has_dry_run() {
            return Err(UsageError::new(format!("`{name}` has no dry run")).into());
        }
        if let Some(by) = by.filter(|_| self.is_changed_by(reconciler)) {
            let detail = json!({ "reconciler": name });
            by.record(&*self.ledger(), ActionKind::Run, THE_SERVICE, &detail)
                .await?;
        }
        match (reconciler, self) {
            (ReconcilerName::Drafts, _) => self.drafts(dry).await,
            (ReconcilerName::Packets, _) => self.packets(dry).await,
            (ReconcilerName::Due, _) => self.due().await,
            (ReconcilerName::Waiting, _) => self.waiting(config.queue.limits()).await,
            (ReconcilerName::Settlement, _) => self.settlement(dry).await,
            (ReconcilerName::Discards, _) => self.discards(dry).await,
            (ReconcilerName::Keys, _) => self.keys(config.limits.idempotency_key_ttl_ms).await,
            (ReconcilerName::Webhooks, _) => self.webhooks(config, dry).await,
            (ReconcilerName::Archive, Self::Embedded(embedded)) => {
                let report = archive::archive_due(config, embedded, dry).await?;
                let (done, left) = (report.archived.len() as u64, report.left);
                Ok(RunReport {
                    found: done + left.len() as u64,
                    done,
                    lines: left.iter().map(ToString::to_string).collect(),
                })
            }
            (ReconcilerName::Archive, Self::Redis(_)) => Err(archive::on_redis().into()),
            (ReconcilerName::Repair, Self::Redis(redis)) => repair(redis, dry).await,
            (ReconcilerName::Reconciliation, Self::Redis(redis)) => reconciliation(redis).await,
            (_, Self::Embedded(_)) => {
                let line = format!(
                    "`{name}` is for `--engine redis`: an embedded engine is its own ledger"
                );
                Err(UsageError::new(line).into())
            }
        }
    }

    /// Whether a reconciler may change data of this engine.
    fn is_changed_by(&self, reconciler: ReconcilerName) -> bool {
        !matches!(
            (reconciler, self),
            (ReconcilerName::Reconciliation, _) | (ReconcilerName::Repair, Self::Embedded(_))
        )
    }

    /// Closes the file, or disconnects.
    ///
    /// # Errors
    /// If closing fails.
    pub async fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(embedded) => CloseComponent::close(embedded).await,
            Self::Redis(redis) => redis.close().await,
        }
    }

    fn engine(&self) -> Arc<dyn Engine> {
        match self {
            Self::Embedded(embedded) => Arc::new(embedded.clone()),
            Self::Redis(redis) => Arc::new(redis.engine().clone()),
        }
    }

    fn ledger(&self) -> Arc<dyn Ledger> {
        match self {
            Self::Embedded(embedded) => Arc::new(embedded.clone()),
            Self::Redis(redis) => redis.ledger(),
        }
    }

    async fn drafts(&self, dry: bool) -> anyhow::Result<RunReport> {
        let mut opener = DraftOpener::new(self.ledger(), self.engine());
        match dry {
            true => Ok(RunReport::list(opener.found().await?)),
            false => Ok(RunReport::all(opener.open_all().await? as u64)),
        }
    }

    async fn packets(&self, dry: bool) -> anyhow::Result<RunReport> {
        let closer = PacketCloser::new(self.ledger(), self.engine());
        match dry {
            true => Ok(RunReport::list(closer.found().await?)),
            false => Ok(RunReport::all(closer.close_all().await? as u64)),
        }
    }

    async fn discards(&self, dry: bool) -> anyhow::Result<RunReport> {
        let discarder = Discarder::new(self.ledger(), self.engine());
        let found = discarder.found().await?;
        let line = |discard: &Discard| {
            let (partition, seq) = (discard.partition.0, discard.entry.seq);
            format!("partition {partition}, entry {seq}")
        };
        let mut report = RunReport::list(found.iter().map(line).collect());
        if dry || found.is_empty() {
            return Ok(report);
        }
        discarder.discard_all().await?;
        // Settlement of the entries that restock the units comes first: the next run needs it.
        self.settlement(false).await?;
        discarder.discard_all().await?;
        let left: Vec<_> = discarder.found().await?.iter().map(line).collect();
        report.done = report.found - left.len() as u64;
        report.lines = left;
        Ok(report)
    }

    async fn due(&self) -> anyhow::Result<RunReport> {
        let mut ticks = 0;
        loop {
            let events_max = EVENTS_MAX;
            ticks += 1;
            match self.engine().submit(Command::Tick { events_max }).await? {
                Reply::Ticked { more: true } => {}
                Reply::Ticked { more: false } => return Ok(RunReport::all(ticks)),
                reply => bail!("unexpected reply to a tick: {reply:?}"),
            }
        }
    }

    async fn waiting(&self, limits: QueueLimits) -> anyhow::Result<RunReport> {
        let room: Arc<dyn WaitingRoom> = match self {
            Self::Embedded(embedded) => Arc::new(embedded.clone()),
            Self::Redis(redis) => Arc::new(redis.engine().clone()),
        };
        let ports = QueuePorts {
            room: Arc::clone(&room),
            engine: self.engine(),
            ledger: self.ledger(),
            clock: Arc::new(SystemClock),
            monitor: Arc::default(),
            limits,
        };
        let mut report = RunReport::default();
        for partition in room.partitions() {
            let decider = QueueProcessor::new(ports.clone(), partition);
            loop {
                match decider.decide_all().await? {
                    0 => break,
                    count => report.done += count,
                }
            }
            for left in decider.blocked_queues().await? {
                let BlockedQueue {
                    campaign,
                    waiting,
                    why,
                } = left;
                report.found += waiting;
                let line = format!("campaign {campaign}: {waiting} wait: {why}");
                report.lines.push(line);
            }
        }
        report.found += report.done;
        Ok(report)
    }

    async fn keys(&self, kept_ms: u64) -> anyhow::Result<RunReport> {
        let purger = KeyPurger::new(self.ledger(), Arc::new(SystemClock), kept_ms);
        let mut all = 0;
        loop {
            let (purged, more) = purger.purge().await?;
            all += purged;
            if !more {
                return Ok(RunReport::all(all));
            }
        }
    }

    async fn webhooks(&self, config: &NodeConfig, dry: bool) -> anyhow::Result<RunReport> {
        let webhooks = config.webhooks.sender()?;
        let ports = WebhookPorts {
            ledger: self.ledger(),
            sender: webhooks.sender,
            clock: Arc::new(SystemClock),
            monitor: webhooks.monitor,
            options: config.webhooks.options(),
        };
        let mut deliverer = WebhookDeliverer::new(ports);
        let mut report = RunReport {
            found: deliverer.due().await?.len() as u64,
            ..RunReport::default()
        };
        if !dry {
            deliverer.deliver_all().await?;
        }
        let left = self.ledger().webhooks().await?;
        let left = left.iter().filter(|it| it.progress.disabled_at.is_none());
        let left = left.filter(|it| it.behind() > 0);
        report.lines = left
            .map(|it| {
                let behind = it.behind();
                let why = it.progress.last_error.as_deref().unwrap_or("not tried yet");
                format!("webhook {}: {behind} events behind: {why}", it.webhook.id)
            })
            .collect();
        report.done = report.found.saturating_sub(report.lines.len() as u64);
        Ok(report)
    }

    async fn settlement(&self, dry: bool) -> anyhow::Result<RunReport> {
        let log: Arc<dyn EventLog> = match self {
            Self::Embedded(embedded) => Arc::new(embedded.clone()),
            Self::Redis(redis) => Arc::new(redis.engine().clone()),
        };
        let (ledger, mut report) = (self.ledger(), RunReport::default());
        for partition in log.partitions() {
            let (head, before) = (log.head(partition).await?, ledger.settled(partition).await?);
            let behind = head.saturating_sub(before);
            report.found += behind;
            if dry || behind == 0 {
                let line = format!(
                    "partition {}: {behind} entries behind {before}",
                    partition.0
                );
                report.lines.extend((behind > 0).then_some(line));
                continue;
            }
            match self {
                // The embedded engine settles its own log.
                Self::Embedded(_) => {
                    let wait = ledger.await_settled(partition, head, SETTLED_MAX);
                    ensure!(
                        wait.await?,
                        "the file is not settled within {SETTLED_MAX:?}"
                    );
                }
                Self::Redis(_) => {
                    while ledger.settled(partition).await? < head {
                        let at = ledger.settled(partition).await?;
                        settle_once(&*log, &*ledger, partition, ENTRIES_MAX).await?;
                        if ledger.settled(partition).await? == at {
                            break; // replicas do not have the rest yet
                        }
                    }
                }
            }
            let after = ledger.settled(partition).await?.min(head);
            report.done += after.saturating_sub(before);
        }
        Ok(report)
    }
}

async fn repair(redis: &Maintenance, dry: bool) -> anyhow::Result<RunReport> {
    let mut report = RunReport::default();
    for partition in redis.partitions() {
        if !dry {
            redis.engine().halt_log_gap(partition).await?;
        }
        if !redis.engine().has_lost(partition).await? {
            continue;
        }
        report.found += 1;
        let state = match dry {
            true => RepairState::Waiting,
            false => {
                let ledger = redis.ledger();
                redis.engine().repair(partition, &*ledger, false).await?
            }
        };
        match state {
            RepairState::Waiting => {
                let line = format!("partition {} has lost entries", partition.0);
                report.lines.push(line);
            }
            RepairState::Whole | RepairState::Repaired(_) => report.done += 1,
        }
    }
    Ok(report)
}

async fn reconciliation(redis: &Maintenance) -> anyhow::Result<RunReport> {
    let mut found = Vec::new();
    for partition in redis.partitions() {
        let campaigns = redis.compare_campaigns(partition, None).await?;
        let skip = campaigns.unreadable().collect();
        let differing = campaigns.differing.iter().flat_map(|it| &it.differences);
        found.extend(differing.map(ToString::to_string));
        let not_compared = campaigns.not_compared.iter();
        let not_compared = not_compared
            .filter(|(_, reason)| !matches!(reason, NotCompared::UnreadableElsewhere(_)));
        found.extend(not_compared.map(|(campaign, reason)| match campaign {
            Some(campaign) => format!("campaign {campaign} is not compared: {reason}"),
            None => format!("partition {} is not compared: {reason}", partition.0),
        }));
        for missing in redis.missing_in_ledger(partition, None, &skip).await? {
            found.push(format!("the ledger does not have campaign {missing}"));
        }
        let differences = redis.differences(partition, None, &skip).await?.into_iter();
        let faults = differences.filter(|it| it.kind != DifferenceKind::InFlight);
        found.extend(faults.map(|it| it.to_string()));
    }
    Ok(RunReport::list(found))
}
