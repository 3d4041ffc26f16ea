//! The connection to RabbitMQ, made when it is needed and made again when it is lost; and the queues.

use std::{future::Future, sync::Arc};

use lapin::{
    Channel, Connection, ConnectionProperties, ConnectionStatus,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, LongString},
    uri::AMQPUri,
};
use qiang_core::{
    event::PartitionId,
    ports::{EventLog, LedgerError, TransportStatus},
};
use tokio::sync::{Mutex, Notify};

use crate::options::{CALL_MAX, DEAD_MAX, DELIVERIES_MAX, Options};

/// The reply code for a queue that is there with other arguments.
const PRECONDITION_FAILED: u16 = 406;

/// Why something could not be done with RabbitMQ.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrokerError {
    /// The URL is none.
    #[error("the URL of RabbitMQ cannot be read: {0}")]
    Url(String),
    /// RabbitMQ refused, or the connection was lost.
    #[error("RabbitMQ failed: {0}")]
    Failed(#[from] lapin::Error),
    /// RabbitMQ did not answer in time.
    #[error("RabbitMQ does not answer: {0}")]
    Silent(&'static str),
    /// What consumes is stopped as soon as it has begun.
    #[error("RabbitMQ does not let anybody consume the queue")]
    Stopped,
    /// RabbitMQ takes no messages for now.
    #[error("RabbitMQ takes no messages: its memory or disk ends")]
    Blocked,
    /// A message was not taken: there was no queue for it, or it had no room.
    #[error("RabbitMQ did not take a message")]
    NotTaken,
}

impl From<BrokerError> for LedgerError {
    fn from(error: BrokerError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Two connections for everything that a worker does; their channels fail each for itself. RabbitMQ reads nothing more
/// from a connection that publishes while it is short of memory or disk, so what is consumed has a connection of its
/// own.
pub(crate) struct Link {
    pub(crate) options: Options,
    uri: AMQPUri,
    consuming: Mutex<Option<Connection>>,
    publishing: Mutex<Option<Connection>>,
    /// Of the last connection that publishes: its lock is held while it is made, which takes seconds.
    publishing_status: parking_lot::Mutex<Option<ConnectionStatus>>,
    /// RabbitMQ 3.10 fails when the same quorum queue is declared twice at once while it is made.
    declaring: Mutex<()>,
}

impl Link {
    pub(crate) fn new(options: Options) -> Result<Self, BrokerError> {
        let mut uri: AMQPUri = options.url.parse().map_err(BrokerError::Url)?;
        uri.query.heartbeat = Some(options.heartbeat_seconds);
        Ok(Self {
            options,
            uri,
            consuming: Mutex::default(),
            publishing: Mutex::default(),
            publishing_status: parking_lot::Mutex::default(),
            declaring: Mutex::new(()),
        })
    }

    /// A new channel for everything but publishing, over a new connection if there is none.
    pub(crate) async fn channel(&self) -> Result<Channel, BrokerError> {
        self.channel_of(&self.consuming, "consumes").await
    }

    /// A new channel for publishing, over a new connection if there is none.
    pub(crate) async fn publishing_channel(&self) -> Result<Channel, BrokerError> {
        let channel = self.channel_of(&self.publishing, "publishes").await;
        if let Some(connection) = self.publishing.lock().await.as_ref() {
            *self.publishing_status.lock() = Some(connection.status().clone());
        }
        channel
    }

    /// Whether RabbitMQ has said that it takes no messages, because its memory or disk ends.
    pub(crate) fn is_blocked(&self) -> bool {
        let status = self.publishing_status.lock();
        status
            .as_ref()
            .is_some_and(|it| it.connected() && it.blocked())
    }

    async fn channel_of(
        &self,
        connection: &Mutex<Option<Connection>>,
        what_for: &str,
    ) -> Result<Channel, BrokerError> {
        let mut connection = connection.lock().await;
        let lost = connection.as_ref().is_none_or(|c| !c.status().connected());
        if lost {
            let name = format!("qiang {} {what_for}", self.options.worker);
            let properties =
                ConnectionProperties::default().with_connection_name(LongString::from(name));
            *connection = None;
            let connecting = Connection::connect_uri(self.uri.clone(), properties);
            *connection = Some(in_time("connect", connecting).await?);
        }
        match connection.as_ref() {
            Some(connection) => in_time("open a channel", connection.create_channel()).await,
            None => Err(BrokerError::Stopped), // it was put there just now
        }
    }

    /// Connects, in a bounded time, if there is no connection.
    pub(crate) async fn check(&self) -> Result<(), BrokerError> {
        match tokio::time::timeout(CALL_MAX, self.channel()).await {
            Ok(opened) => opened.map(drop),
            Err(_) => Err(BrokerError::Silent("connect")),
        }
    }

    /// Ends the connections: others may take over what was ours.
    pub(crate) async fn close(&self) {
        for connection in [&self.publishing, &self.consuming] {
            if let Some(connection) = connection.lock().await.take() {
                // Where that fails it is lost, which comes to the same.
                drop(in_time("close", connection.close(200, "OK".into())).await);
            }
        }
    }

    /// Declares a partition's queues. One that an earlier version made, without a limit of deliveries, stays as it is:
    /// a policy can give it the limit.
    pub(crate) async fn declare(&self, partition: PartitionId) -> Result<(), BrokerError> {
        let _one_at_a_time = self.declaring.lock().await;
        let (queue, dead) = (self.options.queue(partition), self.options.dead(partition));
        let text = |text: &str| AMQPValue::LongString(text.into());
        let bounded = [("x-max-length", AMQPValue::LongLongInt(DEAD_MAX))];
        let unlimited = [
            ("x-single-active-consumer", AMQPValue::Boolean(true)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&dead)),
        ];
        let limit = ("x-delivery-limit", AMQPValue::LongLongInt(DELIVERIES_MAX));
        self.declare_quorum(&dead, &bounded).await?;
        let limited = [&unlimited[..], &[limit]].concat();
        match self.declare_quorum(&queue, &limited).await {
            Err(BrokerError::Failed(error)) if refuses_with(&error, PRECONDITION_FAILED) => {
                self.declare_quorum(&queue, &unlimited).await?;
                tracing::warn!(
                    queue,
                    "the queue has no delivery limit of its own: see the operations manual"
                );
                Ok(())
            }
            declared => declared,
        }
    }

    /// Declares a durable quorum queue, on a channel of its own: a refusal closes the channel.
    async fn declare_quorum(
        &self,
        name: &str,
        arguments: &[(&str, AMQPValue)],
    ) -> Result<(), BrokerError> {
        let mut table = FieldTable::default();
        table.insert(
            "x-queue-type".into(),
            AMQPValue::LongString("quorum".into()),
        );
        for (argument, value) in arguments {
            table.insert((*argument).into(), value.clone());
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let channel = self.channel().await?;
        let declared = channel.queue_declare(name.into(), durable, table);
        in_time("declare a queue", declared).await?;
        Ok(())
    }
}

/// Whether RabbitMQ has refused something with this reply code.
pub(crate) fn refuses_with(error: &lapin::Error, code: u16) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_id() == code)
}

/// A partition's queue, which its relay and its consumer share.
pub(crate) struct Queue {
    pub(crate) link: Arc<Link>,
    /// What the queue is filled from.
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) partition: PartitionId,
    /// Notified when the queue was lost with what was in it, for the relay.
    pub(crate) lost: Notify,
    /// Notified when somebody waits for what was appended to the log, for the relay.
    pub(crate) woken: Notify,
    pub(crate) shown: parking_lot::Mutex<TransportStatus>,
}

impl Queue {
    pub(crate) fn new(
        link: &Arc<Link>,
        log: &Arc<dyn EventLog>,
        partition: PartitionId,
    ) -> Arc<Self> {
        Arc::new(Self {
            link: Arc::clone(link),
            log: Arc::clone(log),
            partition,
            lost: Notify::new(),
            woken: Notify::new(),
            shown: parking_lot::Mutex::default(),
        })
    }
}

/// Connects to RabbitMQ and goes again, in at most 10 s: to find out whether it is there.
///
/// # Errors
/// When the URL cannot be read, or RabbitMQ does not answer.
pub async fn check(options: Options) -> Result<(), BrokerError> {
    let link = Link::new(options)?;
    let checked = link.check().await;
    link.close().await;
    checked
}

/// An answer from RabbitMQ, if it comes in time.
pub(crate) async fn in_time<T>(
    what: &'static str,
    call: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(CALL_MAX, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(BrokerError::Silent(what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_names_rabbitmq() {
        let error = LedgerError::from(BrokerError::Silent("connect"));
        let text = "not available: RabbitMQ does not answer: connect";
        assert_eq!(error.to_string(), text);
    }
}
