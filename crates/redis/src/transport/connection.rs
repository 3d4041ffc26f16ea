//! One partition's connection, which blocking reads share with nobody.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{event::PartitionId, ports::TransportStatus};
use redis::{Cmd, FromRedisValue, RedisError, aio::MultiplexedConnection};

use super::{Shared, TransportOptions};
use crate::{call_connection, keys::KeySpace};

pub(super) struct PartitionConnection {
    shared: Arc<Shared>,
    pub(super) partition: PartitionId,
    connection: Option<MultiplexedConnection>,
    /// Whether there was one before.
    connected: bool,
    pub(super) shown: Arc<Mutex<TransportStatus>>,
}

impl PartitionConnection {
    /// Connects when it is used.
    pub(super) fn new(
        shared: Arc<Shared>,
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

    /// A connection on which an answer may take `wait` longer than others.
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

    /// The next command goes to where the partition is then.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.shared.directory.forget();
    }

    /// Whether the replicas that grants wait for have everything up to here.
    pub(super) async fn replicated(&mut self) -> Result<bool, RedisError> {
        let shared = Arc::clone(&self.shared);
        if shared.options.replicas == 0 {
            return Ok(true);
        }
        let mark = shared.keys.mark(self.partition, "transport");
        let connection = self.connection(shared.options.replica_timeout).await?;
        call_connection::wait(connection, mark, &shared.options).await
    }
}
