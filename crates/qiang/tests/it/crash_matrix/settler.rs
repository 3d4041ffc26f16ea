//! The process that settles or relays, and is killed: the parts of `qiang worker`, with a stop at one step.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use qiang_core::{
    event::{Entry, PartitionId, Seq},
    ports::{
        DeliveryBatch, DeliveryTag, EventLog, Ledger, LedgerError, Transport, TransportStatus,
    },
};
use qiang_embedded::{SqliteLedger, SystemClock};
use qiang_ledger::LedgerOptions;
use qiang_redis::{
    LogTransportKind as RedisCarrier, RedisEngine, RedisOptions, RedisTransport, TransportOptions,
    remove_transports,
};
use qiang_testkit::servers::Process;
use qiang_worker::broker::{BrokerOptions, RabbitTransport};
use qiang_worker::settlement::{Settlement, SettlementOptions};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::crash_matrix::{Step, TransportKind, harness::LEASE};

/// Variable with the order. Without it, the process does nothing.
const ORDER: &str = "QIANG_CRASH_MATRIX_ORDER";
/// Time for entries to arrive through RabbitMQ before they are read from the log. It is longer than any cell takes, so
/// all entries come through the queue.
const PATIENCE: Duration = Duration::from_secs(300);
/// Largest pause after failures, shorter than usual so that no cell waits for it.
const BACKOFF_MAX: Duration = Duration::from_millis(400);

/// Order to a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) role: Role,
    pub(crate) redis: String,
    pub(crate) prefix: String,
    pub(crate) partitions: u16,
    /// URL of a database, or path of a file.
    pub(crate) ledger: String,
    pub(crate) transport_kind: TransportKind,
    pub(crate) rabbit: String,
    pub(crate) stop: Option<Stop>,
}

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Settles. On RabbitMQ, it also relays if no other process does.
    Settle,
    /// Only relays.
    Relay,
}

/// Step at which a process stops once, and reports it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stop {
    pub(crate) step: Step,
    /// First position of a partition's log at which it may stop.
    pub(crate) from: Seq,
    /// Socket for the report.
    pub(crate) socket: PathBuf,
}

impl Order {
    /// Command that executes the order: this test program itself.
    pub(crate) fn command(&self) -> Command {
        let this = std::env::current_exe().expect("path of this program");
        let mut command = Command::new(this);
        let order = serde_json::to_string(self).expect("an order is plain data");
        command
            .args([
                "--exact",
                "crash_matrix::settler::the_process_that_is_killed",
                "--ignored",
            ])
            .arg("--nocapture")
            .env(ORDER, order);
        command
    }
}

#[test]
#[ignore = "the cells of the matrix start it, and kill it"]
fn the_process_that_is_killed() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let order: Order = serde_json::from_str(&order).expect("the order of a cell");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(carry_out(order));
}

async fn carry_out(order: Order) {
    let clock = Arc::new(SystemClock);
    let ledger: Arc<dyn Ledger> = if order.ledger.contains("://") {
        let opened = qiang_ledger::open(&order.ledger, clock, LedgerOptions::default()).await;
        opened.unwrap_or_else(|error| panic!("{error}"))
    } else {
        let opened = SqliteLedger::open(order.ledger.as_ref(), clock);
        Arc::new(opened.unwrap_or_else(|error| panic!("{error}")))
    };
    let options = RedisOptions {
        urls: vec![order.redis.clone()],
        prefix: order.prefix.clone(),
        partitions: order.partitions,
        ..RedisOptions::default()
    };
    let positions = ledger.positions().await.expect("the ledger answers");
    let engine = RedisEngine::connect(options.clone(), &positions).await;
    let engine = engine.unwrap_or_else(|error| panic!("{error:?}"));
    let log: Arc<dyn EventLog> = Arc::new(engine.clone());
    let worker = format!("crash-{}", std::process::id());
    let transport_options = |transport_kind| {
        let transport_options = TransportOptions {
            lease: LEASE,
            ..TransportOptions::new(transport_kind, &worker)
        };
        let transport = RedisTransport::new(options.clone(), transport_options);
        Arc::new(transport.expect("good options")) as Arc<dyn Transport>
    };
    let transport = match order.transport_kind {
        TransportKind::Stream => transport_options(RedisCarrier::Stream),
        TransportKind::List => transport_options(RedisCarrier::List),
        TransportKind::RabbitMq => {
            remove_transports(&options).await.expect("Redis answers");
            let broker = BrokerOptions {
                prefix: order.prefix.clone(),
                patience: PATIENCE,
                ..BrokerOptions::new(&order.rabbit, &worker)
            };
            let relayed: Arc<dyn EventLog> = match &order.stop {
                Some(stop) if order.role == Role::Relay => {
                    Arc::new(StoppingLog::new(Arc::clone(&log), stop.clone()))
                }
                _ => Arc::clone(&log),
            };
            let transport = RabbitTransport::start(broker, relayed, Arc::clone(&ledger));
            Arc::new(transport.expect("good options")) as Arc<dyn Transport>
        }
    };
    let transport = match order.stop {
        Some(stop) if order.role == Role::Settle => {
            let (inner, log) = (transport, Arc::clone(&log));
            Arc::new(StoppingTransport {
                inner,
                log,
                gate: Gate::new(stop),
                received: Mutex::default(),
            })
        }
        _ => transport,
    };
    let settling = (order.role == Role::Settle).then(|| {
        let runtime = tokio::runtime::Handle::current();
        let mut options = SettlementOptions::new(Box::new(move |partition, settled, head| {
            let (engine, reason) = (engine.clone(), format!("{head} of {settled}"));
            runtime.spawn(async move { engine.halt(partition, &reason).await });
        }));
        options.transport = Some(Arc::clone(&transport));
        options.schedule.backoff_max = BACKOFF_MAX;
        Settlement::start(log, ledger, options)
    });
    // Runs until it is killed.
    std::future::pending::<()>().await;
    drop((settling, transport));
}

/// Gate at which the process stops once.
struct Gate {
    stop: Stop,
    passed: AtomicBool,
}

impl Gate {
    fn new(stop: Stop) -> Self {
        Self {
            stop,
            passed: AtomicBool::new(false),
        }
    }

    fn is_at(&self, step: Step) -> bool {
        self.stop.step == step && !self.passed.load(Ordering::Acquire)
    }

    async fn tell(&self, what: &str, partition: PartitionId, place: Seq) -> UnixStream {
        let connected = UnixStream::connect(&self.stop.socket).await;
        let mut stream = connected.expect("the cell listens");
        let line = format!("{what} {} {place}\n", partition.0);
        let written = stream.write_all(line.as_bytes()).await;
        written.expect("the cell reads");
        stream
    }

    /// Stops if this is the step and position of the stop, until the cell lets it continue.
    async fn pass(&self, step: Step, partition: PartitionId, place: Seq) {
        if !self.is_at(step) || place < self.stop.from || self.passed.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut stream = self.tell("stopped", partition, place).await;
        // If the cell is gone, the read fails and the process continues.
        let _ = stream.read(&mut [0]).await;
    }
}

/// Transport that stops the process.
struct StoppingTransport {
    inner: Arc<dyn Transport>,
    log: Arc<dyn EventLog>,
    gate: Gate,
    /// The last entry of each delivery that was received.
    received: Mutex<HashMap<(PartitionId, DeliveryTag), Seq>>,
}

impl StoppingTransport {
    /// Stores the received deliveries, and returns their last entry.
    fn note(&self, partition: PartitionId, received: &DeliveryBatch) -> Option<Seq> {
        let (DeliveryBatch::Deliveries(deliveries) | DeliveryBatch::Restarted(deliveries)) =
            received
        else {
            return None;
        };
        let mut known = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        for delivery in deliveries {
            let last = delivery.entries.last().map_or(0, |entry| entry.seq);
            known.insert((partition, delivery.tag), last);
        }
        let entries = deliveries.iter().flat_map(|delivery| &delivery.entries);
        entries.map(|entry| entry.seq).max()
    }

    /// Last entry of the acknowledged deliveries.
    fn last(&self, partition: PartitionId, tags: &[DeliveryTag]) -> Option<Seq> {
        let known = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let last = |tag: &DeliveryTag| known.get(&(partition, *tag)).copied();
        tags.iter().filter_map(last).max()
    }
}

#[async_trait]
impl Transport for StoppingTransport {
    async fn receive(
        &self,
        partition: PartitionId,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        if self.gate.is_at(Step::BeforeRead) && self.log.head(partition).await? > settled {
            self.gate.pass(Step::BeforeRead, partition, settled).await;
        }
        let receiving = self.inner.receive(partition, settled, limit, wait_max);
        let received = receiving.await?;
        if let Some(last) = self.note(partition, &received) {
            self.gate.pass(Step::AfterRead, partition, last).await;
        }
        Ok(received)
    }

    async fn ack(
        &self,
        partition: PartitionId,
        tags: &mut Vec<DeliveryTag>,
    ) -> Result<(), LedgerError> {
        if let Some(last) = self.last(partition, tags) {
            self.gate.pass(Step::AfterCommit, partition, last).await;
        }
        self.inner.ack(partition, tags).await
    }

    fn delay_max(&self) -> Option<Duration> {
        self.inner.delay_max()
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        self.inner.status(partition)
    }

    async fn release_ownership(&self) {
        self.inner.release_ownership().await;
    }
}

/// Progress of a relay on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relayed {
    /// The relay owns the partition, and has read nothing.
    Begun,
    /// The relay publishes its last read.
    Publishing,
    /// The relay has reached the end of the log, and waits for all confirms before it reads again.
    Confirmed,
}

/// Log that stops its relay.
struct StoppingLog {
    inner: Arc<dyn EventLog>,
    gate: Gate,
    relayed: Mutex<HashMap<PartitionId, Relayed>>,
}

impl StoppingLog {
    fn new(inner: Arc<dyn EventLog>, stop: Stop) -> Self {
        Self {
            inner,
            gate: Gate::new(stop),
            relayed: Mutex::default(),
        }
    }

    fn note(&self, partition: PartitionId, now: Relayed) {
        let mut relayed = self.relayed.lock().unwrap_or_else(PoisonError::into_inner);
        relayed.insert(partition, now);
    }

    fn relayed(&self, partition: PartitionId) -> Option<Relayed> {
        let relayed = self.relayed.lock().unwrap_or_else(PoisonError::into_inner);
        relayed.get(&partition).copied()
    }
}

#[async_trait]
impl EventLog for StoppingLog {
    fn partitions(&self) -> Vec<PartitionId> {
        self.inner.partitions()
    }

    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError> {
        self.inner.epoch(partition).await
    }

    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        self.inner.head(partition).await
    }

    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        match self.relayed(partition) {
            None => {
                drop(self.gate.tell("begun", partition, after).await);
                self.note(partition, Relayed::Begun);
            }
            Some(Relayed::Begun) => {}
            Some(Relayed::Publishing) => self.gate.pass(Step::Published, partition, after).await,
            Some(Relayed::Confirmed) => self.gate.pass(Step::Confirmed, partition, after).await,
        }
        if self.gate.is_at(Step::BeforeRead) && self.inner.head(partition).await? > after {
            self.gate.pass(Step::BeforeRead, partition, after).await;
        }
        let entries = self.inner.read(partition, after, limit).await?;
        if let Some(last) = entries.last() {
            self.gate.pass(Step::AfterRead, partition, last.seq).await;
            self.note(partition, Relayed::Publishing);
        } else if self.relayed(partition) == Some(Relayed::Publishing) {
            self.note(partition, Relayed::Confirmed);
        }
        Ok(entries)
    }

    fn note_settled(&self, partition: PartitionId, settled: Seq) {
        self.inner.note_settled(partition, settled);
    }

    fn awaits_replicas(&self, partition: PartitionId) -> bool {
        self.inner.awaits_replicas(partition)
    }

    async fn release(&self, partition: PartitionId, upto: Seq) -> Result<(), LedgerError> {
        self.inner.release(partition, upto).await
    }
}

/// Running process, with its output.
pub(crate) struct Settler {
    process: Process,
    _folder: tempfile::TempDir,
}

impl Settler {
    pub(crate) fn start(command: &Command) -> Self {
        let folder = tempfile::tempdir().expect("folder for its output");
        Self {
            process: Process::start(command, &folder.path().join("output")),
            _folder: folder,
        }
    }

    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Stops the process gracefully.
    pub(crate) fn stop(&self) {
        self.process.stop();
    }

    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.process.output().contains(text)
    }

    /// Fails with the output of the process, if it has ended unexpectedly.
    pub(crate) fn check(&self) {
        if let Some(status) = self.process.ended() {
            panic!("the process ended: {status}\n{}", self.process.output());
        }
    }

    pub(crate) fn output(&self) -> String {
        self.process.output()
    }
}
