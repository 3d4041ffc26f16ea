//! Transports on Redis. They carry a partition's records to the worker that settles them.
//!
//! - `stream` reads the log itself through a consumer group.
//! - `list` reads a list. Scripts append to it in the same step as to the log. Received items are in a second list,
//!   from which they are moved to the first one again if the worker dies.
//!
//! In both, one worker at a time has a partition, by a lease.

mod connection;
mod list;
pub(crate) mod log;
mod reader;
mod stream;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{DeliveryBatch, DeliveryTag, LedgerError, Transport, TransportStatus},
};

use self::{connection::PartitionConnection, reader::PartitionReader};
use crate::{
    connection::{
        ConnectError, Directory, KeySpace, PARTITIONS_MAX, RedisOptions, eval, eval_at_maxmemory,
    },
    engine::RedisEngine,
    partitions::Partitions,
};

/// Consumer group of settlement.
pub(crate) const GROUP: &str = "settlement";
/// Maximum records of one read.
const RECORDS_MAX: usize = 128;
/// Default duration of a worker's lease of a partition. If a worker dies, its partitions are not settled for this long.
pub const LEASE: Duration = Duration::from_secs(5);
/// Maximum length of a worker's name, in bytes.
pub const WORKER_BYTES_MAX: usize = 64;

const SELECT_TRANSPORT: &str = include_str!("select_transport.lua");
const COUNT_QUEUED: &str = include_str!("count_queued.lua");
const TRIM_LOG: &str = include_str!("trim_log.lua");

/// Kind of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTransportKind {
    /// A consumer group on the log.
    Stream,
    /// A list beside the log.
    List,
}

impl LogTransportKind {
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }
}

/// Options of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportOptions {
    /// Kind of the transport.
    pub transport_kind: LogTransportKind,
    /// Name of the worker, unique among live processes.
    pub worker: String,
    /// Duration of the worker's lease of a partition after each renewal.
    pub lease: Duration,
}

impl TransportOptions {
    /// Options with the default lease.
    #[must_use]
    pub fn new(transport_kind: LogTransportKind, worker: &str) -> Self {
        Self {
            transport_kind,
            worker: worker.to_owned(),
            lease: LEASE,
        }
    }
}

/// State shared by the readers of a transport.
struct TransportState {
    directory: Directory,
    keys: KeySpace,
    options: RedisOptions,
    transport_options: TransportOptions,
    /// Partitions of this process' engine, which knows their terms.
    partitions: OnceLock<Arc<Partitions>>,
}

/// A transport on Redis.
pub struct RedisTransport {
    shared: Arc<TransportState>,
    readers: Vec<tokio::sync::Mutex<PartitionReader>>,
    shown: Vec<Arc<Mutex<TransportStatus>>>,
}

impl RedisTransport {
    /// A transport for all partitions. Connects at its first use.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn new(
        options: RedisOptions,
        transport_options: TransportOptions,
    ) -> Result<Self, ConnectError> {
        let refuse = |text: &str| Err(ConnectError::Options(text.to_owned()));
        if !(1..=PARTITIONS_MAX).contains(&options.partitions) {
            return refuse("there are too many partitions, or none");
        }
        let worker = &transport_options.worker;
        let printable = worker.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable || !(1..=WORKER_BYTES_MAX).contains(&worker.len()) {
            return refuse("a worker's name is 1 to 64 visible ASCII characters without spaces");
        }
        if transport_options.lease < Duration::from_millis(100) {
            return refuse("a lease lasts at least 100 ms");
        }
        let partitions = options.partitions;
        let shared = Arc::new(TransportState {
            directory: Directory::new(&options)?,
            keys: KeySpace::new(&options),
            options,
            transport_options,
            partitions: OnceLock::new(),
        });
        let (mut readers, mut shown) = (Vec::new(), Vec::new());
        for partition in (0..partitions).map(PartitionId) {
            let show: Arc<Mutex<TransportStatus>> = Arc::default();
            let connection =
                PartitionConnection::new(Arc::clone(&shared), partition, Arc::clone(&show));
            readers.push(tokio::sync::Mutex::new(PartitionReader::new(connection)));
            shown.push(show);
        }
        Ok(Self {
            shared,
            readers,
            shown,
        })
    }

    /// Restricts reads to servers of the engine's terms. A replaced primary may still answer, and its records may
    /// belong to a lost history.
    #[must_use]
    pub fn fenced_by(self, engine: &RedisEngine) -> Self {
        let partitions = Arc::clone(&engine.node.partitions);
        // The cell is empty in a new transport; a second call changes nothing.
        let _ = self.shared.partitions.set(partitions);
        self
    }

    fn reader(
        &self,
        partition: PartitionId,
    ) -> Result<&tokio::sync::Mutex<PartitionReader>, LedgerError> {
        let reader = self.readers.get(usize::from(partition.0));
        reader.ok_or_else(|| LedgerError::damaged(format!("there is no partition {}", partition.0)))
    }
}

#[async_trait]
impl Transport for RedisTransport {
    async fn receive(
        &self,
        partition: PartitionId,
        settled: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        let mut reader = self.reader(partition)?.lock().await;
        reader.receive(settled, limit, wait_max).await
    }

    async fn ack(
        &self,
        partition: PartitionId,
        tags: &mut Vec<DeliveryTag>,
    ) -> Result<(), LedgerError> {
        self.reader(partition)?.lock().await.ack(tags).await
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        let shown = self.shown.get(usize::from(partition.0));
        shown.map(|shown| shown.lock().clone()).unwrap_or_default()
    }

    async fn release_ownership(&self) {
        for reader in &self.readers {
            reader.lock().await.release().await;
        }
    }
}

/// Removes the remains of transports on Redis, for a transport outside Redis: lists that no worker empties, and a group
/// that would keep the log from being trimmed.
///
/// # Errors
/// If Redis cannot be reached. Partitions that can be reached are still processed.
pub async fn remove_transports(options: &RedisOptions) -> Result<(), ConnectError> {
    let directory = Directory::new(options)?;
    let keys = KeySpace::new(options);
    let mut all = Ok(());
    for partition in (0..options.partitions).map(PartitionId) {
        let remove = async {
            let mut connection = directory.connect(partition).await?;
            let command = eval_for("none", SELECT_TRANSPORT, &keys, partition);
            command.query_async::<i64>(&mut connection).await
        };
        all = all.and(remove.await.map(|_| ()).map_err(ConnectError::Redis));
    }
    all
}

/// Command that trims log records settled long enough ago.
pub(crate) fn trim(
    keys: &KeySpace,
    options: &RedisOptions,
    partition: PartitionId,
    settled: Seq,
) -> redis::Cmd {
    let keys = [
        keys.log(partition),
        keys.released(partition),
        keys.partition(partition),
    ];
    let bytes_max = options.retain_bytes / u64::from(options.partitions.max(1));
    let mut command = eval(TRIM_LOG, &keys);
    command.arg(settled).arg(GROUP);
    command
        .arg(options.retain.as_millis() as u64)
        .arg(bytes_max);
    command
}

/// Script call about a partition and its transport of this name. Settlement frees memory, so the call also works
/// without free memory.
fn eval_for(name: &str, script: &str, keys: &KeySpace, partition: PartitionId) -> redis::Cmd {
    let keys = [
        keys.partition(partition),
        keys.log(partition),
        keys.queue(partition),
        keys.doing(partition),
    ];
    let mut command = eval_at_maxmemory(script, &keys);
    command.arg(name).arg(GROUP);
    command
}
