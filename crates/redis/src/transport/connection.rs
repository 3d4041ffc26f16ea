//! One partition's connection, which blocking reads share with nobody.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use qiang_core::{event::PartitionId, ports::TransportStatus};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, Value, aio::MultiplexedConnection};

use super::{Shared, TransportOptions};
use crate::keys::KeySpace;

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
        if self.connection.is_none() {
            let connected = self.shared.directory.connect(self.partition).await;
            self.connection = Some(connected.inspect_err(|_| self.shared.directory.forget())?);
            if std::mem::replace(&mut self.connected, true) {
                self.shown.lock().reconnected += 1;
            }
        }
        let Some(connection) = &mut self.connection else {
            return Err(RedisError::from((ErrorKind::Client, "no connection")));
        };
        connection.set_response_timeout(wait + self.shared.options.call_timeout);
        command.query_async(connection).await
    }

    /// The next command goes to where the partition is then.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
        self.shared.directory.forget();
    }

    /// Whether the replicas that grants wait for have everything up to here.
    pub(super) async fn replicated(&mut self) -> Result<bool, RedisError> {
        let options = &self.shared.options;
        let (replicas, timeout) = (options.replicas, options.replica_timeout);
        if replicas == 0 {
            return Ok(true);
        }
        let mark = self.shared.keys.mark(self.partition, "transport");
        // WAIT is about what its own connection wrote.
        let mut write = redis::cmd("SET");
        write.arg(mark).arg("1").arg("PX").arg(60_000);
        let _: Value = self.query(&write).await?;
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(timeout.as_millis() as u64);
        let have: u32 = self.query_blocking(&wait, timeout).await?;
        Ok(have >= replicas)
    }
}
