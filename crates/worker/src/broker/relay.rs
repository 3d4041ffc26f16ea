//! Relay of one partition: it publishes the log to the queue.
//!
//! One process relays a partition at a time: the owner of an exclusive queue, which RabbitMQ deletes when the owner's
//! connection ends.

use std::{collections::VecDeque, convert::Infallible, fmt, sync::Arc, time::Duration};

use lapin::{
    BasicProperties, Channel, Confirmation, PublisherConfirm,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::FieldTable,
};
use qiang_core::{
    event::{Entry, Seq},
    ports::Ledger,
};

use crate::broker::{
    link::{BrokerError, PartitionQueue, in_time, refuses_with},
    message,
    options::{AHEAD_MAX, LOCK_POLL, MESSAGE_ENTRIES_MAX, PAUSES, POLL_EVERY, UNCONFIRMED_MAX},
};

/// Delivery mode of messages that are written to disk before they are confirmed.
const PERSISTENT: u8 = 2;
/// Reply code for an exclusive queue of another connection.
const RESOURCE_LOCKED: u16 = 405;

pub(crate) struct Relay {
    pub(crate) queue: Arc<PartitionQueue>,
    pub(crate) ledger: Arc<dyn Ledger>,
}

/// Progress of a relay.
#[derive(Default)]
struct RelayProgress {
    /// Whether everything was confirmed at some time since the last check.
    relayed: bool,
    /// The last entry that it ever published.
    published: Seq,
}

/// Reason why a relay stopped.
#[derive(Debug)]
enum RelayStop {
    /// Another process relays the partition.
    NotOwner,
    /// The queue was lost. Its entries must be published again.
    QueueLost,
    Failed(String),
}

impl<E: fmt::Display> From<E> for RelayStop {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Relay {
    /// Relays until the task is aborted.
    pub(crate) async fn run(self) {
        let partition = self.queue.partition.0;
        let (mut pause, mut well) = (PAUSES.0, true);
        let mut progress = RelayProgress::default();
        loop {
            let Err(stopped) = self.relay(&mut progress).await;
            match stopped {
                RelayStop::NotOwner => tokio::time::sleep(LOCK_POLL).await,
                RelayStop::QueueLost => {
                    tracing::warn!(
                        partition,
                        "queue lost; relaying again from the ledger's position"
                    );
                }
                RelayStop::Failed(reason) => {
                    let reason = match self.queue.link.is_blocked() {
                        true => BrokerError::Blocked.to_string(),
                        false => reason,
                    };
                    if std::mem::take(&mut progress.relayed) {
                        (pause, well) = (PAUSES.0, true);
                    }
                    if std::mem::replace(&mut well, false) {
                        tracing::warn!(partition, reason, "relay interrupted; it retries");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(PAUSES.1);
                }
            }
        }
    }

    async fn relay(&self, progress: &mut RelayProgress) -> Result<Infallible, RelayStop> {
        let (link, partition) = (&self.queue.link, self.queue.partition);
        let channel = link.publishing_channel().await?;
        self.lock(&channel).await?;
        link.declare(partition).await?;
        let confirms = ConfirmSelectOptions::default();
        in_time("confirms", channel.confirm_select(confirms)).await?;
        let mut settled = self.ledger.settled(partition).await?;
        let mut position = settled;
        let mut unconfirmed = VecDeque::new();
        loop {
            let epoch = self.queue.log.epoch(partition).await?;
            let run = if position.saturating_sub(settled) < AHEAD_MAX {
                let log = &self.queue.log;
                log.read(partition, position, MESSAGE_ENTRIES_MAX).await?
            } else {
                settled = self.ledger.settled(partition).await?;
                Vec::new()
            };
            if self.queue.log.epoch(partition).await? != epoch {
                // The partition was rebuilt during the read, so the epoch of the run is unknown.
                continue;
            }
            if run.is_empty() {
                confirm(&mut unconfirmed, 0).await?;
                progress.relayed = true;
                if !channel.status().connected() {
                    return Err(RelayStop::Failed("the channel was closed".to_owned()));
                }
                tokio::select! {
                    checked = self.check_queue(POLL_EVERY) => checked?,
                    () = self.queue.woken.notified() => {}
                }
                continue;
            }
            self.check(position, &run).await?;
            position = run.last().map_or(position, |entry| entry.seq);
            unconfirmed.push_back(self.publish(&channel, &epoch, &run).await?);
            let again = run.iter().take_while(|e| e.seq <= progress.published);
            self.queue.shown.lock().republished += again.count() as u64;
            progress.published = progress.published.max(position);
            confirm(&mut unconfirmed, UNCONFIRMED_MAX).await?;
            self.check_queue(Duration::ZERO).await?;
        }
    }

    /// Waits up to `wait_max` for a loss of the queue.
    async fn check_queue(&self, wait_max: Duration) -> Result<(), RelayStop> {
        let lost = tokio::time::timeout(wait_max, self.queue.lost.notified());
        lost.await.map_or(Ok(()), |()| Err(RelayStop::QueueLost))
    }

    /// Declares the lock queue, so that no other process relays the partition.
    async fn lock(&self, channel: &Channel) -> Result<(), RelayStop> {
        let exclusive = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let name = self.queue.link.options.lock(self.queue.partition);
        let declared =
            channel.queue_declare(name.as_str().into(), exclusive, FieldTable::default());
        match in_time("declare a lock", declared).await {
            Err(BrokerError::Failed(error)) if refuses_with(&error, RESOURCE_LOCKED) => {
                Err(RelayStop::NotOwner)
            }
            declared => Ok(declared.map(drop)?),
        }
    }

    /// Checks that a run follows the position. A gap is allowed if the ledger has its entries.
    async fn check(&self, position: Seq, run: &[Entry]) -> Result<(), RelayStop> {
        let Some(first) = run.first().filter(|first| first.seq != position + 1) else {
            return Ok(());
        };
        if first.seq <= self.ledger.settled(self.queue.partition).await? + 1 {
            return Ok(());
        }
        let reason = format!("entry {} is missing in the log", position + 1);
        Err(RelayStop::Failed(reason))
    }

    async fn publish(
        &self,
        channel: &Channel,
        epoch: &str,
        run: &[Entry],
    ) -> Result<PublisherConfirm, RelayStop> {
        let text = message::encode(self.queue.partition, epoch, run);
        // Without a queue RabbitMQ returns the message instead of dropping it.
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let queue = self.queue.link.options.queue(self.queue.partition);
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let queue = queue.as_str().into();
        let published =
            channel.basic_publish("".into(), queue, options, text.as_bytes(), properties);
        Ok(in_time("publish", published).await?)
    }
}

/// Waits until at most `left_max` messages are unconfirmed.
async fn confirm(
    unconfirmed: &mut VecDeque<PublisherConfirm>,
    left_max: usize,
) -> Result<(), BrokerError> {
    while unconfirmed.len() > left_max {
        let Some(oldest) = unconfirmed.pop_front() else {
            return Ok(());
        };
        match in_time("confirm", oldest).await? {
            Confirmation::Ack(None) => {}
            _ => return Err(BrokerError::NotTaken),
        }
    }
    Ok(())
}
