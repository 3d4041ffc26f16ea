//! Connection of one partition, separate because of its blocking reads.

use std::{sync::Arc, time::Duration};

use crate::connection::{KeySpace, PartitionHandle, head_in_term, replicas_have};
use parking_lot::Mutex;
use qiang_core::{
    event::{PartitionId, Seq},
    ports::TransportStatus,
};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, aio::MultiplexedConnection};
use tokio::time::Instant;

use super::{TransportOptions, TransportState};

pub(super) struct PartitionConnection {
    shared: Arc<TransportState>,
    pub(super) partition: PartitionId,
    connection: Option<MultiplexedConnection>,
    /// Whether it was connected before.
    connected: bool,
    pub(super) shown: Arc<Mutex<TransportStatus>>,
}

impl PartitionConnection {
    /// A connection that is opened at its first use.
    pub(super) fn new(
        shared: Arc<TransportState>,
        partition: PartitionId,
        shown: Arc<Mutex<TransportStatus>>,
    ) -> Self {
        Self {
            shared,
            partition,
            connection: None,
            connected: false,
            shown,
        }
    }

    pub(super) fn keys(&self) -> &KeySpace {
        &self.shared.keys
    }

    pub(super) fn options(&self) -> &TransportOptions {
        &self.shared.transport_options
    }

    /// Sends a command.
    pub(super) async fn query<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        self.query_blocking(command, Duration::ZERO).await
    }

    /// Sends a command that may take `wait` longer than others.
    pub(super) async fn query_blocking<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
        wait: Duration,
    ) -> Result<T, RedisError> {
        command.query_async(self.connection(wait).await?).await
    }

    /// The connection, with a time limit that is `wait` longer than usual.
    async fn connection(
        &mut self,
        wait: Duration,
    ) -> Result<&mut MultiplexedConnection, RedisError> {
        let mut open = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connected = self.shared.directory.connect(self.partition).await;
                let connection = connected.inspect_err(|_| self.shared.directory.forget())?;
                if std::mem::replace(&mut self.connected, true) {
                    self.shown.lock().reconnected += 1;
                }
                connection
            }
        };
        open.set_response_timeout(wait + self.shared.options.call_timeout);
        Ok(self.connection.insert(open))
    }

    /// Term in which records are read now; empty if no engine provides terms.
    ///
    /// # Errors
    /// If the partition is not open.
    pub(super) async fn term(&self) -> Result<Arc<str>, RedisError> {
        match self.fence() {
            Some(partition) => {
                let until = Instant::now() + self.shared.options.call_timeout;
                let open = partition.open_term(until).await;
                open.map_err(|reason| RedisError::from((ErrorKind::Io, "not open", reason)))
            }
            None => Ok(Arc::from("")),
        }
    }

    /// Checks that records read on this connection, up to this entry, belong to the term. The receiver relies on them.
    ///
    /// # Errors
    /// If they do not, and may belong to a lost history.
    pub(super) async fn confirm(&mut self, term: &str, upto: Seq) -> Result<(), RedisError> {
        let Some(partition) = self.fence() else {
            return Ok(());
        };
        let key = self.keys().partition(self.partition);
        let fence = head_in_term(key, term, partition.min_head());
        let (status, _): (String, String) = self.query(&fence).await?;
        let partition = self.fence();
        if status == "ok" && partition.is_some_and(|known| known.accept(term, Some(upto))) {
            return Ok(());
        }
        let text = "the partition's primary has changed while its records were read";
        Err(RedisError::from((ErrorKind::Io, text)))
    }

    fn fence(&self) -> Option<&PartitionHandle> {
        let partitions = self.shared.partitions.get()?;
        Some(partitions.get(self.partition))
    }

    /// Closes the connection, so that the next command finds the partition's present server.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.shared.directory.forget();
    }

    /// Whether the replicas that grants wait for have everything up to now.
    pub(super) async fn replicated(&mut self) -> Result<bool, RedisError> {
        let shared = Arc::clone(&self.shared);
        if shared.options.replicas == 0 {
            return Ok(true);
        }
        let mark = shared.keys.mark(self.partition, "transport");
        let connection = self.connection(shared.options.replica_timeout).await?;
        replicas_have(connection, mark, &shared.options).await
    }
}
