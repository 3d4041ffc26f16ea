//! Consumes one partition's queue.

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
use qiang_core::ports::{Delivery, DeliveryTag, LedgerError, Received};

use crate::{
    link::{BrokerError, Queue, in_time},
    message::{self, Message},
};

/// How often one call begins to consume before it gives up.
const CONSUMES_MAX: usize = 3;
/// The longest wait for a message: our caller looks at the log in between.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// How often what is queued is counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct QueueConsumer {
    queue: Arc<Queue>,
    session: Option<(Channel, Consumer)>,
    /// Whether there was a session before.
    consumed: bool,
    /// Whether our caller has still to learn that a session ended, with which tags end.
    restarted: bool,
    /// A channel of its own to count on, for a question about a queue that is gone closes it; and when it was counted.
    counting: (Option<Channel>, Option<Instant>),
    /// Received, and not yet handed on.
    received: Vec<Delivery>,
    /// To be put with the messages that nobody can read.
    unreadable: Vec<DeliveryTag>,
    /// To be acknowledged: of another epoch.
    stale: Vec<DeliveryTag>,
}

impl QueueConsumer {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
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
    ) -> Result<Received, LedgerError> {
        // Until it is known, nobody can tell what is stale.
        self.queue.log.epoch(self.queue.partition).await?;
        let until = Instant::now() + wait_max.min(WAIT_MAX);
        let consumed = self.consume(limit, until).await;
        consumed.inspect_err(|_| self.end_session())?;
        if self.received.is_empty() && self.queue.link.is_blocked() {
            // Nothing can come: the caller is not to wait for it.
            return Err(BrokerError::Blocked.into());
        }
        let received = std::mem::take(&mut self.received);
        Ok(match std::mem::take(&mut self.restarted) {
            true => Received::Restarted(received),
            false => Received::Deliveries(received),
        })
    }

    /// A tag is taken out when RabbitMQ has the acknowledgement, and not before.
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

    /// What was not acknowledged goes back into the queue, and comes again.
    fn end_session(&mut self) {
        self.session = None;
        self.restarted = true;
        self.received.clear();
        self.unreadable.clear();
        self.stale.clear();
        // Another worker may have the queue now; it is ours again when a message comes. Whoever has it counts.
        let mut shown = self.queue.shown.lock();
        (shown.ours, shown.queued) = (false, 0);
    }

    /// Counts what is queued, now and then. Where that fails there is no number, and the rest goes on.
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

    /// Takes messages in until there are enough entries or no more messages, and waits for the first one.
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

    /// Takes in what the consumer says, and tells how many entries it brought.
    async fn put(&mut self, message: Option<Result<Incoming, lapin::Error>>) -> usize {
        let Some(Ok(message)) = message else {
            let connected = |(channel, _): &(Channel, Consumer)| channel.status().connected();
            if message.is_none() && self.session.as_ref().is_some_and(connected) {
                // The queue was taken away, and what was in it.
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
            Some(Message::Run(entries)) => {
                let count = entries.len();
                self.received.push(Delivery { tag, entries });
                return count;
            }
            Some(Message::Stale) => self.stale.push(tag),
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

    /// Forgets what is of another epoch.
    async fn drop_stale(&mut self) -> Result<(), BrokerError> {
        let Some((channel, _)) = &self.session else {
            return Ok(());
        };
        while let Some(tag) = self.stale.last() {
            let acked = channel.basic_ack(*tag, BasicAckOptions::default());
            in_time("drop a message", acked).await?;
            self.stale.pop();
            let partition = self.queue.partition.0;
            tracing::info!(partition, "a message is of another epoch: dropped");
        }
        Ok(())
    }

    /// Puts aside what cannot be read.
    async fn put_aside(&mut self) -> Result<(), BrokerError> {
        let Some((channel, _)) = &self.session else {
            return Ok(());
        };
        while let Some(tag) = self.unreadable.last() {
            let aside = BasicNackOptions {
                requeue: false,
                ..BasicNackOptions::default()
            };
            in_time("put aside", channel.basic_nack(*tag, aside)).await?;
            self.unreadable.pop();
            self.queue.shown.lock().unreadable += 1;
            let partition = self.queue.partition.0;
            tracing::error!(partition, "a message cannot be read");
        }
        Ok(())
    }
}
