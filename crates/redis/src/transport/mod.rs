//! Transports on Redis: how a partition's records reach the worker that settles them.
//!
//! - `stream` reads the log itself through a consumer group.
//! - `list` reads a list that the scripts append to in the same step as to the log. The items that a worker has
//!   received
//!   are in a second list, from which they are moved back when the worker dies.
//!
//! Either way one worker has a partition at a time, by a lease.

mod connection;
mod list;
pub(crate) mod log;
mod reader;
mod stream;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::connection::{
    ConnectError, Directory, KeySpace, Options, PARTITIONS_MAX, eval, eval_at_maxmemory,
};
use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{DeliveryTag, LedgerError, Received, Transport, TransportStatus},
};

use self::{connection::PartitionConnection, reader::PartitionReader};
use crate::{engine::RedisEngine, partitions::Partitions};

/// The consumer group of settlement.
pub(crate) const GROUP: &str = "settlement";
/// Records of one read.
const RECORDS_MAX: usize = 128;
/// How long a worker's lease of a partition lasts, unless configured otherwise: so long nobody settles it when a worker
/// dies.
pub const LEASE: Duration = Duration::from_secs(5);
/// The longest name of a worker, in bytes.
pub const WORKER_BYTES_MAX: usize = 64;

const SELECT_TRANSPORT: &str = include_str!("select_transport.lua");
const COUNT_QUEUED: &str = include_str!("count_queued.lua");
const TRIM_LOG: &str = include_str!("trim_log.lua");

/// What brings the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// A consumer group on the log.
    Stream,
    /// A list beside the log.
    List,
}

impl TransportKind {
    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::List => "list",
        }
    }
}

/// What can be set about a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportOptions {
    /// What brings the records.
    pub transport_kind: TransportKind,
    /// The worker's name: no other process that is alive has the same.
    pub worker: String,
    /// How long a partition stays this worker's after the lease was last renewed.
    pub lease: Duration,
}

impl TransportOptions {
    /// The usual lease.
    #[must_use]
    pub fn new(transport_kind: TransportKind, worker: &str) -> Self {
        Self {
            transport_kind,
            worker: worker.to_owned(),
            lease: LEASE,
        }
    }
}

/// What the readers of a transport have in common.
struct Shared {
    directory: Directory,
    keys: KeySpace,
    options: Options,
    transport_options: TransportOptions,
    /// The partitions of this process' engine, which knows their terms.
    partitions: OnceLock<Arc<Partitions>>,
}

/// A transport on Redis.
pub struct RedisTransport {
    shared: Arc<Shared>,
    readers: Vec<tokio::sync::Mutex<PartitionReader>>,
    shown: Vec<Arc<Mutex<TransportStatus>>>,
}

impl RedisTransport {
    /// A transport for all partitions. Connects when it is used.
    ///
    /// # Errors
    /// When an option is not usable.
    pub fn new(
        options: Options,
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
            return refuse("a lease lasts a tenth of a second at least");
        }
        let partitions = options.partitions;
        let shared = Arc::new(Shared {
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

    /// Reads only from the servers on which the engine's terms run: a primary that was replaced may go on answering,
    /// and what it brings is of a history that is lost.
    #[must_use]
    pub fn fenced_by(self, engine: &RedisEngine) -> Self {
        let partitions = Arc::clone(&engine.node.partitions);
        // It was just made, or it has been fenced already.
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
    ) -> Result<Received, LedgerError> {
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

/// Removes what the transports on Redis have left behind, where one outside it is used: a list that nobody empties, a
/// group that would keep the log from being trimmed.
///
/// # Errors
/// When Redis cannot be reached; the partitions that can are done all the same.
pub async fn remove_transports(options: &Options) -> Result<(), ConnectError> {
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

/// Has the log forget what was settled long enough ago.
pub(crate) fn trim(
    keys: &KeySpace,
    options: &Options,
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

/// A call of a script that is about a partition's transport of this name. What settles frees memory, so it also works
/// when there is none left.
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
