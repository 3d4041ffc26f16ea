//! Consumer of one partition's queue.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::{
    Channel, Consumer,
    message::Delivery as Incoming,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions,
        QueueDeclareOptions,
    },
    types::FieldTable,
};
use qiang_core::ports::{Delivery, DeliveryBatch, DeliveryTag, LedgerError};

use crate::broker::{
    link::{BrokerError, PartitionQueue, in_time},
    message::{self, BrokerMessage},
};

/// Attempts of one call to start a consumer session.
const CONSUMES_MAX: usize = 3;
/// Longest wait for a message. The caller reads the log in between.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Interval between counts of queued messages.
const COUNT_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct QueueConsumer {
    queue: Arc<PartitionQueue>,
    session: Option<(Channel, Consumer)>,
    /// Whether there was an earlier session.
    consumed: bool,
    /// Whether the caller does not know yet that a session ended. The end of a session invalidates its tags.
    restarted: bool,
    /// A separate channel for counts, because a question about a missing queue closes its channel; and the time of the
    /// last count.
    counting: (Option<Channel>, Option<Instant>),
    /// Deliveries that the caller does not have yet.
    received: Vec<Delivery>,
    /// Unreadable messages to reject into the dead-letter queue.
    unreadable: Vec<DeliveryTag>,
    /// Messages of another epoch to acknowledge.
    stale: Vec<DeliveryTag>,
}

impl QueueConsumer {
    pub(crate) fn new(queue: Arc<PartitionQueue>) -> Self {
        Self {
            queue,
            session: None,
            consumed: false,
            restarted: true,
            counting: (None, None),
            received: Vec::new(),
            unreadable: Vec::new(),
            stale: Vec::new(),
        }
    }

    pub(crate) async fn receive(
        &mut self,
        limit: usize,
        wait_max: Duration,
    ) -> Result<DeliveryBatch, LedgerError> {
        // Without the epoch, no message can be recognized as stale.
        self.queue.log.epoch(self.queue.partition).await?;
        let until = Instant::now() + wait_max.min(WAIT_MAX);
        let consumed = self.consume(limit, until).await;
        consumed.inspect_err(|_| self.end_session())?;
        if self.received.is_empty() && self.queue.link.is_blocked() {
            // No message can arrive, so the caller must not wait.
            return Err(BrokerError::Blocked.into());
        }
        let received = std::mem::take(&mut self.received);
        Ok(match std::mem::take(&mut self.restarted) {
            true => DeliveryBatch::Restarted(received),
            false => DeliveryBatch::Deliveries(received),
        })
    }

    /// Acknowledges messages. Removes a tag only after RabbitMQ has the acknowledgement.
    pub(crate) async fn ack(&mut self, tags: &mut Vec<DeliveryTag>) -> Result<(), BrokerError> {
        let session = self.session.as_ref().filter(|_| !self.restarted);
        let Some(channel) = session.map(|(channel, _)| channel.clone()) else {
            tags.clear();
            return Ok(());
        };
        while let Some(tag) = tags.last() {
            let acked = channel.basic_ack(*tag, BasicAckOptions::default());
            let acked = in_time("acknowledge", acked).await;
            acked.inspect_err(|_| self.end_session())?;
            tags.pop();
        }
        Ok(())
    }

    /// Stops consuming.
    pub(crate) fn release(&mut self) {
        self.end_session();
        self.counting = (None, None);
    }

    async fn consume(&mut self, limit: usize, until: Instant) -> Result<(), BrokerError> {
        for _ in 0..CONSUMES_MAX {
            if self.session.is_none() {
                self.begin_session().await?;
            }
            self.count().await;
            self.take_in(limit, until).await;
            self.put_aside().await?;
            self.drop_stale().await?;
            if self.session.is_some() {
                return Ok(());
            }
        }
        Err(BrokerError::Stopped)
    }

    async fn begin_session(&mut self) -> Result<(), BrokerError> {
        let (link, partition) = (&self.queue.link, self.queue.partition);
        let channel = link.channel().await?;
        link.declare(partition).await?;
        let options = &link.options;
        let prefetch = channel.basic_qos(options.prefetch, BasicQosOptions::default());
        in_time("set the prefetch", prefetch).await?;
        let consumer = channel.basic_consume(
            options.queue(partition).as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = in_time("consume", consumer).await?;
        self.session = Some((channel, consumer));
        if std::mem::replace(&mut self.consumed, true) {
            self.queue.shown.lock().reconnected += 1;
        }
        Ok(())
    }

    /// Ends the session. RabbitMQ delivers unacknowledged messages again.
    fn end_session(&mut self) {
        self.session = None;
        self.restarted = true;
        self.received.clear();
        self.unreadable.clear();
        self.stale.clear();
        // Another worker may have the queue now and counts it. The next message proves that this one has it again.
        let mut shown = self.queue.shown.lock();
        (shown.ours, shown.queued) = (false, 0);
    }

    /// Counts queued messages, at most once per `COUNT_EVERY`. A failed count is ignored.
    async fn count(&mut self) {
        let (channel, counted) = &mut self.counting;
        if counted.is_some_and(|at| at.elapsed() < COUNT_EVERY) {
            return;
        }
        *counted = Some(Instant::now());
        if channel.as_ref().is_none_or(|c| !c.status().connected()) {
            *channel = self.queue.link.channel().await.ok();
        }
        let Some(channel) = channel else { return };
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.link.options.queue(self.queue.partition);
        let asked = channel.queue_declare(name.as_str().into(), passive, FieldTable::default());
        match in_time("count messages", asked).await {
            Ok(counted) => {
                let mut shown = self.queue.shown.lock();
                shown.queued = u64::from(shown.ours) * u64::from(counted.message_count());
            }
            Err(_) => self.counting.0 = None,
        }
    }

    /// Reads messages until there are `limit` entries or no message is left. Waits for the first one until `until`.
    async fn take_in(&mut self, limit: usize, until: Instant) {
        let mut left = limit;
        while left > 0 {
            let has_something = self.has_taken_in();
            let Some((_, consumer)) = &mut self.session else {
                return;
            };
            let message = match consumer.next().now_or_never() {
                Some(message) => message,
                None if has_something => return,
                None => match tokio::time::timeout_at(until.into(), consumer.next()).await {
                    Ok(message) => message,
                    Err(_) => return,
                },
            };
            left = left.saturating_sub(self.put(message).await);
        }
    }

    /// Handles one item of the consumer. Returns its number of entries.
    async fn put(&mut self, message: Option<Result<Incoming, lapin::Error>>) -> usize {
        let Some(Ok(message)) = message else {
            let connected = |(channel, _): &(Channel, Consumer)| channel.status().connected();
            if message.is_none() && self.session.as_ref().is_some_and(connected) {
                // The queue was deleted with its messages.
                self.queue.shown.lock().remade += 1;
                self.queue.lost.notify_one();
            }
            self.end_session();
            return 0;
        };
        let tag = message.delivery_tag;
        self.note_received(message.redelivered);
        let partition = self.queue.partition;
        let Ok(epoch) = self.queue.log.epoch(partition).await else {
            self.end_session();
            return 0;
        };
        match message::decode(partition, &epoch, &message.data) {
            Some(BrokerMessage::Run(entries)) => {
                let count = entries.len();
                self.received.push(Delivery { tag, entries });
                return count;
            }
            Some(BrokerMessage::Stale) => self.stale.push(tag),
            None => self.unreadable.push(tag),
        }
        0
    }

    fn note_received(&self, redelivered: bool) {
        let mut shown = self.queue.shown.lock();
        shown.ours = true;
        shown.recovered += u64::from(redelivered);
    }

    fn has_taken_in(&self) -> bool {
        !(self.received.is_empty() && self.unreadable.is_empty() && self.stale.is_empty())
    }

    /// Acknowledges and drops messages of another epoch.
    async fn drop_stale(&mut self) -> Result<(), BrokerError> {
        let Some((channel, _)) = &self.session else {
            return Ok(());
        };
        while let Some(tag) = self.stale.last() {
            let acked = channel.basic_ack(*tag, BasicAckOptions::default());
            in_time("drop a message", acked).await?;
            self.stale.pop();
            let partition = self.queue.partition.0;
            tracing::info!(partition, "message of another epoch dropped");
        }
        Ok(())
    }

    /// Rejects unreadable messages into the dead-letter queue.
    async fn put_aside(&mut self) -> Result<(), BrokerError> {
        let Some((channel, _)) = &self.session else {
            return Ok(());
        };
        while let Some(tag) = self.unreadable.last() {
            let aside = BasicNackOptions {
                requeue: false,
                ..BasicNackOptions::default()
            };
            in_time("reject a message", channel.basic_nack(*tag, aside)).await?;
            self.unreadable.pop();
            self.queue.shown.lock().unreadable += 1;
            let partition = self.queue.partition.0;
            tracing::error!(
                partition,
                "unreadable message moved to the dead-letter queue"
            );
        }
        Ok(())
    }
}
