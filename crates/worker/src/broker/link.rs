//! Connections to RabbitMQ, opened on demand and reopened after a loss, and the declarations of queues.

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

use crate::broker::options::{BrokerOptions, CALL_MAX, DEAD_MAX, DELIVERIES_MAX};

/// Reply code for a queue that exists with other arguments.
const PRECONDITION_FAILED: u16 = 406;

/// Error of an operation on RabbitMQ.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrokerError {
    /// The URL is invalid.
    #[error("invalid URL of RabbitMQ: {0}")]
    Url(String),
    /// RabbitMQ refused, or the connection was lost.
    #[error("RabbitMQ failed: {0}")]
    Failed(#[from] lapin::Error),
    /// There is a queue of this name with other arguments.
    #[error("queue {queue} exists with other arguments, delete it: {error}")]
    OtherQueue {
        /// Name of the queue.
        queue: String,
        /// Reply of RabbitMQ.
        error: String,
    },
    /// RabbitMQ did not answer in time.
    #[error("RabbitMQ does not answer: {0}")]
    Silent(&'static str),
    /// RabbitMQ stops each consumer right after its start.
    #[error("RabbitMQ stops every consumer of the queue")]
    Stopped,
    /// RabbitMQ accepts no messages for now.
    #[error("RabbitMQ accepts no messages: its memory or disk is nearly full")]
    Blocked,
    /// RabbitMQ did not accept a message, because there was no queue or no room.
    #[error("RabbitMQ did not accept a message")]
    NotTaken,
}

impl From<BrokerError> for LedgerError {
    fn from(error: BrokerError) -> Self {
        Self::unavailable(error.to_string())
    }
}

/// Two connections of a worker. Their channels fail independently.
///
/// While RabbitMQ is short of memory or disk, it reads nothing more from connections that publish. So consumers have a
/// separate connection.
pub(crate) struct Link {
    pub(crate) options: BrokerOptions,
    uri: AMQPUri,
    consuming: Mutex<Option<Connection>>,
    publishing: Mutex<Option<Connection>>,
    /// Status of the publishing connection. It is separate because opening that connection holds its lock for seconds.
    publishing_status: parking_lot::Mutex<Option<ConnectionStatus>>,
    /// RabbitMQ 3.10 fails if two connections create the same quorum queue at once.
    declaring: Mutex<()>,
}

impl Link {
    pub(crate) fn new(options: BrokerOptions) -> Result<Self, BrokerError> {
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

    /// Opens a channel for everything except publishing, on a new connection if there is none.
    pub(crate) async fn channel(&self) -> Result<Channel, BrokerError> {
        self.channel_of(&self.consuming, "consumes").await
    }

    /// Opens a channel for publishing, on a new connection if there is none.
    pub(crate) async fn publishing_channel(&self) -> Result<Channel, BrokerError> {
        let channel = self.channel_of(&self.publishing, "publishes").await;
        if let Some(connection) = self.publishing.lock().await.as_ref() {
            *self.publishing_status.lock() = Some(connection.status().clone());
        }
        channel
    }

    /// Whether RabbitMQ reports that it accepts no messages, because its memory or disk is nearly full.
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
            None => Err(BrokerError::Stopped), // cannot happen: the connection was stored just above
        }
    }

    /// Connects if there is no connection. Waits `CALL_MAX` at most.
    pub(crate) async fn check(&self) -> Result<(), BrokerError> {
        match tokio::time::timeout(CALL_MAX, self.channel()).await {
            Ok(opened) => opened.map(drop),
            Err(_) => Err(BrokerError::Silent("connect")),
        }
    }

    /// Closes the connections. Other workers may then take over the queues.
    pub(crate) async fn close(&self) {
        for connection in [&self.publishing, &self.consuming] {
            if let Some(connection) = connection.lock().await.take() {
                // If this fails, the connection is lost, which has the same effect.
                drop(in_time("close", connection.close(200, "OK".into())).await);
            }
        }
    }

    /// Declares a partition's queues. Refuses a queue that another program has made with other arguments.
    pub(crate) async fn declare(&self, partition: PartitionId) -> Result<(), BrokerError> {
        let _one_at_a_time = self.declaring.lock().await;
        let (queue, dead) = (self.options.queue(partition), self.options.dead(partition));
        let text = |text: &str| AMQPValue::LongString(text.into());
        let bounded = [("x-max-length", AMQPValue::LongLongInt(DEAD_MAX))];
        let arguments = [
            ("x-single-active-consumer", AMQPValue::Boolean(true)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&dead)),
            ("x-delivery-limit", AMQPValue::LongLongInt(DELIVERIES_MAX)),
        ];
        self.declare_quorum(&dead, &bounded).await?;
        self.declare_quorum(&queue, &arguments).await
    }

    /// Declares a durable quorum queue on a separate channel, because a refusal closes the channel.
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
        match in_time("declare a queue", declared).await {
            Err(BrokerError::Failed(error)) if refuses_with(&error, PRECONDITION_FAILED) => {
                let (queue, error) = (name.to_owned(), error.to_string());
                Err(BrokerError::OtherQueue { queue, error })
            }
            declared => declared.map(drop),
        }
    }
}

/// Whether RabbitMQ refused a request with this reply code.
pub(crate) fn refuses_with(error: &lapin::Error, code: u16) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_id() == code)
}

/// A partition's queue, shared by its relay and its consumer.
pub(crate) struct PartitionQueue {
    pub(crate) link: Arc<Link>,
    /// Source of the queue's entries.
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) partition: PartitionId,
    /// Notifies the relay that the queue was lost with its messages.
    pub(crate) lost: Notify,
    /// Notifies the relay that a caller waits for new log entries.
    pub(crate) woken: Notify,
    pub(crate) shown: parking_lot::Mutex<TransportStatus>,
}

impl PartitionQueue {
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

/// Checks that RabbitMQ is reachable: connects and disconnects. Takes 10 s at most.
///
/// # Errors
/// If the URL is invalid, or RabbitMQ does not answer.
pub async fn check(options: BrokerOptions) -> Result<(), BrokerError> {
    let link = Link::new(options)?;
    let checked = link.check().await;
    link.close().await;
    checked
}

/// Waits `CALL_MAX` for an answer of RabbitMQ.
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
