//! Transports on Redis: how a partition's records reach the worker that settles them.
//!
//! - `stream` reads the log itself through a consumer group.
//! - `list` reads a list that the scripts append to in the same step as to the log. What a worker deals with is in a
//!   second list, from which it is moved back when the worker dies.
//!
//! Either way one worker has a partition at a time, by a lease; what it takes is made to follow the ledger's position,
//! and what the transport does not bring is read from the log.

mod line;
mod list;
mod stream;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{LedgerError, Taken, Transport, TransportStatus},
};

use self::line::Line;
use crate::{
    directory::Directory,
    error::ConnectError,
    keys::{KeySpace, PARTITIONS_MAX},
    options::Options,
};

/// The consumer group of settlement.
pub(crate) const GROUP: &str = "settlement";
/// Records that one read brings.
const RECORDS_MAX: usize = 128;
/// How long a worker's lease of a partition lasts, unless told otherwise: so long nobody settles it when a worker dies.
pub const LEASE: Duration = Duration::from_secs(5);
/// The longest name of a worker, in bytes.
pub const WORKER_BYTES_MAX: usize = 64;

const ARM: &str = include_str!("arm.lua");
const LOOK: &str = include_str!("look.lua");
const TRIM: &str = include_str!("trim.lua");

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

/// How a worker carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportOptions {
    /// What brings the records.
    pub transport_kind: TransportKind,
    /// The worker's name: no other process that is alive has the same.
    pub worker: String,
    /// How long a partition stays this worker's after it was last heard of.
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

/// What the lines of a transport have in common.
pub(crate) struct Shared {
    directory: Directory,
    keys: KeySpace,
    options: Options,
    transport_options: TransportOptions,
}

/// A transport on Redis. Each partition has a connection of its own, which blocking reads do not share with anybody.
pub struct RedisTransport {
    lines: Vec<tokio::sync::Mutex<Line>>,
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
            keys: KeySpace::new(&options.prefix),
            options,
            transport_options,
        });
        let shown: Vec<Arc<Mutex<TransportStatus>>> =
            (0..partitions).map(|_| Arc::default()).collect();
        let line = |(n, shown): (usize, &Arc<Mutex<TransportStatus>>)| {
            let partition = PartitionId(n as u16);
            let line = Line::new(Arc::clone(&shared), partition, Arc::clone(shown));
            tokio::sync::Mutex::new(line)
        };
        let lines = shown.iter().enumerate().map(line).collect();
        Ok(Self { lines, shown })
    }

    fn line(&self, partition: PartitionId) -> Result<&tokio::sync::Mutex<Line>, LedgerError> {
        let line = self.lines.get(usize::from(partition.0));
        line.ok_or_else(|| LedgerError::Damaged {
            reason: format!("there is no partition {}", partition.0),
        })
    }
}

#[async_trait]
impl Transport for RedisTransport {
    fn partitions(&self) -> Vec<PartitionId> {
        (0..self.lines.len() as u16).map(PartitionId).collect()
    }

    async fn take(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
        wait_max: Duration,
    ) -> Result<Taken, LedgerError> {
        let mut line = self.line(partition)?.lock().await;
        line.take(after, limit, wait_max).await
    }

    async fn done(&self, partition: PartitionId, settled: Seq) -> Result<(), LedgerError> {
        self.line(partition)?.lock().await.done(settled).await
    }

    fn status(&self, partition: PartitionId) -> TransportStatus {
        let shown = self.shown.get(usize::from(partition.0));
        shown.map(|shown| shown.lock().clone()).unwrap_or_default()
    }

    async fn leave(&self) {
        for line in &self.lines {
            line.lock().await.leave().await;
        }
    }
}

/// Takes away what the transports on Redis have left behind, where something outside it carries: a list that nobody
/// empties, a group that would keep the log from being trimmed.
///
/// # Errors
/// When Redis cannot be reached.
pub async fn remove_transports(options: &Options) -> Result<(), ConnectError> {
    let directory = Directory::new(options)?;
    let keys = KeySpace::new(&options.prefix);
    for partition in (0..options.partitions).map(PartitionId) {
        let connected = directory.connect(partition).await;
        let mut connection = connected.map_err(ConnectError::Redis)?;
        let command = arm(&keys, partition, "none");
        let armed: Result<i64, _> = command.query_async(&mut connection).await;
        armed.map_err(ConnectError::Redis)?;
    }
    Ok(())
}

fn arm(keys: &KeySpace, partition: PartitionId, transport_kind: &str) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command
        .arg(ARM)
        .arg(4)
        .arg(keys.partition(partition))
        .arg(keys.log(partition))
        .arg(keys.queue(partition))
        .arg(keys.doing(partition))
        .arg(transport_kind)
        .arg(GROUP);
    command
}

/// Counts what no worker has been handed yet.
fn look(keys: &KeySpace, partition: PartitionId, transport_kind: TransportKind) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command
        .arg(LOOK)
        .arg(3)
        .arg(keys.partition(partition))
        .arg(keys.log(partition))
        .arg(keys.queue(partition))
        .arg(transport_kind.name())
        .arg(GROUP);
    command
}

/// Has the log forget what is settled.
pub(crate) fn trim(keys: &KeySpace, partition: PartitionId, settled: Seq) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command
        .arg(TRIM)
        .arg(1)
        .arg(keys.log(partition))
        .arg(settled)
        .arg(GROUP);
    command
}
