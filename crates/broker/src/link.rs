//! The connection to RabbitMQ, made when it is needed and made again when it is lost; and the queues.

use std::{future::Future, sync::Arc};

use lapin::{
    Channel, Connection, ConnectionProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, LongString},
    uri::AMQPUri,
};
use qiang_core::{
    event::PartitionId,
    ports::{LedgerError, TransportStatus},
};
use tokio::sync::{Mutex, Notify};

use crate::options::{CALL_MAX, DEAD_MAX, Options};

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
    /// A message was not taken: there was no queue for it, or it had no room.
    #[error("RabbitMQ did not take a message")]
    NotTaken,
}

impl From<BrokerError> for LedgerError {
    fn from(error: BrokerError) -> Self {
        Self::Unavailable {
            reason: error.to_string(),
        }
    }
}

/// One connection for everything that a worker does; its channels fail each for itself.
pub(crate) struct Link {
    pub(crate) options: Options,
    uri: AMQPUri,
    connection: Mutex<Option<Connection>>,
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
            connection: Mutex::new(None),
            declaring: Mutex::new(()),
        })
    }

    /// A new channel, over a new connection if there is none.
    pub(crate) async fn channel(&self) -> Result<Channel, BrokerError> {
        let mut connection = self.connection.lock().await;
        let lost = connection.as_ref().is_none_or(|c| !c.status().connected());
        if lost {
            let name = LongString::from(format!("qiang {}", self.options.worker));
            let properties = ConnectionProperties::default().with_connection_name(name);
            *connection = None;
            let connecting = Connection::connect_uri(self.uri.clone(), properties);
            *connection = Some(in_time("connect", connecting).await?);
        }
        match connection.as_ref() {
            Some(connection) => in_time("open a channel", connection.create_channel()).await,
            None => Err(BrokerError::Stopped), // it was put there just now
        }
    }

    /// Ends the connection: others may take over what was ours.
    pub(crate) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            // Where that fails it is lost, which comes to the same.
            drop(in_time("close", connection.close(200, "OK".into())).await);
        }
    }

    /// Declares a partition's queues. Those that are there stay as they are.
    pub(crate) async fn declare(
        &self,
        channel: &Channel,
        partition: PartitionId,
    ) -> Result<(), BrokerError> {
        let _one_at_a_time = self.declaring.lock().await;
        let text = |text: &str| AMQPValue::LongString(text.into());
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let (queue, dead) = (self.options.queue(partition), self.options.dead(partition));
        let dead_arguments = vec![("x-max-length", AMQPValue::LongLongInt(DEAD_MAX))];
        let queue_arguments = vec![
            ("x-single-active-consumer", AMQPValue::Boolean(true)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&dead)),
        ];
        for (name, arguments) in [(&dead, dead_arguments), (&queue, queue_arguments)] {
            let mut table = FieldTable::default();
            table.insert("x-queue-type".into(), text("quorum"));
            for (argument, value) in arguments {
                table.insert(argument.into(), value);
            }
            let declared = channel.queue_declare(name.as_str().into(), durable, table);
            in_time("declare a queue", declared).await?;
        }
        Ok(())
    }
}

/// A partition's queue, which its relay and its consumer share.
pub(crate) struct Queue {
    pub(crate) link: Arc<Link>,
    pub(crate) partition: PartitionId,
    /// Notified when the queue was lost with what was in it, for the relay.
    pub(crate) lost: Notify,
    pub(crate) shown: parking_lot::Mutex<TransportStatus>,
}

impl Queue {
    pub(crate) fn new(link: &Arc<Link>, partition: PartitionId) -> Arc<Self> {
        Arc::new(Self {
            link: Arc::clone(link),
            partition,
            lost: Notify::new(),
            shown: parking_lot::Mutex::default(),
        })
    }
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
